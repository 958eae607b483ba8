"""Lyapunov spectrum by the QR method: tangents carried along the flow, made orthonormal again, their growth averaged.

V_{m+1} = Phi_m Q_m = Q_{m+1} R_{m+1},  lambda_i = (1/T) sum_m log |(R_m)_ii|  (Benettin et al. 1980; Shimada & Nagashima 1979).
State and tangents are one augmented system, solved with the model's own method and grid. Over a finite, non-stationary path the
values depend on the path and on Q_0; they become the exponents of an attractor only if the flow is bounded and continued.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from odevit.errors import UserError
from odevit.trajectory import TimeGrid

from ..operators import Field, jacobian, prepared, provenance, tangent_flow
from ..reports import LyapunovReport
from ..spectra.leading import checked_k
from .continuing import along_flow, continued, system_name
from .finite_time import as_columns, as_states, lyapunov_report

DEPENDENT = 1e-12  # ratio of smallest to largest |R_ii| below which float64 has lost the smaller direction
HISTORY = 1024  # cumulative values kept at most


def lyapunov_spectrum(
    f: Field,
    x0: Tensor,
    grid: TimeGrid,
    method: str = "euler",
    k: int = 1,
    *,
    q0: Tensor | None = None,
    qr_every: int = 1,
    horizon: float | None = None,
    project: bool = False,
    batch_dims: int = 0,
) -> LyapunovReport:
    """The first k exponents of the QR method.

    Args:
        f: callable (t, x) -> dx/dt of the shape of x.
        x0: state of any shape, or (B, ...) with batch_dims=1.
        grid, method: solver of the augmented system (x, V); its steps are those of the model.
        k: number of tangents, 1 <= k <= n. The first k exponents of a larger run are those of the run with k.
        q0: tangents to start with, (k, *state), independent; the first k unit vectors unless given.
        qr_every: steps between factorisations; the result does not depend on it while the tangents stay independent in float64.
        horizon: total time, beyond T for an autonomous field; T unless given.
        project: remove the structural zeros along e_i (x) 1 (CenterNorm: f(x + a (x) 1) = f(x), last axis) by following the
            tangents modulo those directions. Exact, since they are invariant under the flow; n becomes N (D - 1).
        batch_dims: 1 where x0 has a sample axis.

    Returns:
        LyapunovReport with exponents (k,) or (B, k), unit 1/t, in the order of the columns (descending in the limit), and their
        cumulative history. No residual exists. Sums are exact: over k = n they give (1/T) log|det Phi|.

    Raises:
        UserError: k, q0, qr_every or horizon out of range; project where f has no structural zeros. NonFiniteError.

    Cost: (2 + k) field evaluations for each stage, and a QR of n x k every `qr_every` steps.
    """
    given = f
    f, x0 = prepared(f, x0)
    samples = x0.shape[0] if batch_dims else 1
    n = x0.numel() // samples
    grid = continued(f, x0, grid, horizon)
    zeros = _structural_zeros(f, x0, grid, samples) if project else 0
    k = checked_k(k, n - zeros)
    if isinstance(qr_every, bool) or int(qr_every) != qr_every or qr_every < 1:
        raise UserError(f"qr_every: {qr_every} is not a positive number of steps")
    q, lengths = _orthonormal(_start(q0, k, x0, samples, n, project), x0, project)
    if bool((lengths <= DEPENDENT * lengths.amax(-1, keepdim=True)).any()):
        raise UserError(f"q0: its {k} tangents are not independent")
    run = _carry(f, x0, q, grid, method, qr_every, project)
    rate, note = along_flow(f, x0, run.x, grid, batch_dims)
    cause = "in one step" if qr_every == 1 else f"between factorisations, lower qr_every from {qr_every}"
    dependent = f"tangents became dependent {cause}: the last exponents are lost" if run.lost else ""
    removed = f"{zeros} structural zeros left out, of the exponents and of the Kaplan-Yorke dimension" if zeros else ""
    found = run.history[:, -1]
    return lyapunov_report(
        quantity="averaged log |R_ii| (QR)", system=system_name(grid, method), exponents=found, along=rate, n=n - zeros,
        residuals=torch.full_like(found, torch.nan), converged=torch.isfinite(found) & (not run.lost), zeros=zeros, products=k,
        horizon=abs(grid.t1 - grid.t0), notes=tuple(filter(None, (note, removed, dependent))), batched=bool(batch_dims),
        origin=provenance(given, x0), time=run.time, history=run.history,
    )  # fmt: skip


class _Run(NamedTuple):
    """Final state, times and cumulative exponents (B, time, k), and whether tangents were lost to rounding."""

    x: Tensor
    time: list[float]
    history: Tensor
    lost: bool


def _carry(f: Field, x: Tensor, q: Tensor, grid: TimeGrid, method: str, qr_every: int, project: bool) -> _Run:
    """Carry state and tangents over the grid, factorise, and add up the growth."""
    sums, lost = q.new_zeros(q.shape[0], q.shape[2]), False
    time: list[float] = []
    history: list[Tensor] = []
    keep = max(1, -(-grid.steps // qr_every) // HISTORY)
    for count, part in enumerate(_parts(grid, qr_every), start=1):
        x, v = tangent_flow(f, x, as_states(q, x.shape), part, method)
        q, growth = _orthonormal(as_columns(v, len(q)), x, project)
        lost |= bool((growth.amin(-1) < DEPENDENT * growth.amax(-1)).any())
        sums = sums + growth.log()
        if count % keep == 0 or part.t1 == grid.t1:
            time.append(abs(part.t1 - grid.t0))
            history.append(sums / time[-1])
    return _Run(x, time, torch.stack(history, 1), lost)


def _parts(grid: TimeGrid, qr_every: int):
    """The grid in runs of `qr_every` steps."""
    for first in range(0, grid.steps, qr_every):
        last = min(first + qr_every, grid.steps)
        end = grid.t1 if last == grid.steps else grid.t0 + last * grid.h
        yield TimeGrid(grid.t0 + first * grid.h, end, last - first)


def _structural_zeros(f: Field, x0: Tensor, grid: TimeGrid, samples: int) -> int:
    """Number of directions e_i (x) 1 in one sample, after checking that J vanishes on them; UserError where it does not."""
    ones = torch.linspace(0.5, 1.5, x0[..., 0].numel(), dtype=x0.dtype).reshape(x0.shape[:-1]).to(x0.device)
    left = jacobian(f, x0, grid.t0).matvec(ones[..., None].expand(x0.shape).contiguous())
    size = float(left.norm() / (ones.norm() * x0.shape[-1] ** 0.5))
    if size > 1e-8:
        raise UserError(f"project: this field has no zeros along e_i (x) 1 (||J (a (x) 1)|| / ||a (x) 1|| = {size:.2g})")
    return x0.numel() // x0.shape[-1] // samples


def _start(q0: Tensor | None, k: int, x0: Tensor, samples: int, n: int, project: bool) -> Tensor:
    """Start tangents as columns (B, n, k): unit vectors, without the last channel of a token where zeros are projected out."""
    if q0 is not None:
        if q0.shape != (k, *x0.shape):
            raise UserError(f"q0: shape {tuple(q0.shape)}; expected {(k, *x0.shape)}")
        return as_columns(q0.to(x0), samples)
    index = torch.arange(n, device=x0.device)
    if project:
        index = index[(index + 1) % x0.shape[-1] != 0]
    start = torch.zeros(n, k, dtype=x0.dtype, device=x0.device)
    start[index[:k], torch.arange(k, device=x0.device)] = 1.0
    return start.expand(samples, n, k)


def _orthonormal(columns: Tensor, x0: Tensor, project: bool) -> tuple[Tensor, Tensor]:
    """(Q, |diag R|) of the columns (B, n, k), modulo the directions e_i (x) 1 where they are projected out."""
    if project:
        tokens = columns.unflatten(1, (-1, x0.shape[-1]))
        columns = (tokens - tokens.mean(2, keepdim=True)).flatten(1, 2)
    q, r = torch.linalg.qr(columns)
    return q, r.diagonal(dim1=1, dim2=2).abs()
