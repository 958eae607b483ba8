"""How strongly token j moves token i, |J_ij|, and the divergence tr J.

For our field J is known in closed form; with y = C_2 x + beta_2, z_i = W_1 (C_1 x_i + beta_1) + b_1, u_i = W_k^T q_i / sqrt(d):

    J_ij = delta_ij W_2 diag(g'(z_i)) W_1 C_1
           + sum_h W_o^h [P_ij W_v + delta_ij XCov_i(v, k) W_q / sqrt(d) + P_ij (v_j - vbar_i) u_i^T] C_2.

max_ij |J_ij| <= |J| <= |(|J_ij|)_ij|. For other callables: blocks of the dense Jacobian, or Hutchinson's estimate
|J_ij|_F^2 = E |(J (e_j (x) z))_i|^2 and tr J = E z^T J z (Hutchinson 1990).
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from odevit.errors import UserError
from odevit.field import Block, CenterNorm, VectorField

from ..operators import CHUNK, DENSE_LIMIT, Field, Jacobian, check_finite, jacobian, prepared, provenance
from ..reports import InfluenceReport, ValueReport

SAMPLES = 64


def block_influence(
    f: Field, x: Tensor, t: float = 0.0, norm: str = "spectral", *, batch_dims: int = 0, samples: int = SAMPLES, seed: int = 0
) -> InfluenceReport:
    """The map of block norms |J_ij| (token i moved by token j), shape (N, N), or (B, N, N) with batch_dims=1.

    Args:
        f, x, t: field, state with tokens and channels as its last two axes, time.
        norm: "spectral", or "frobenius", which costs no singular values.
        samples: of Hutchinson's estimate, used for callables without structure above 2,000 dimensions (frobenius only).

    Cost: closed form O(H N^2 D^2) and N^2 spectra of D x D; dense N D products; Hutchinson N * samples products.
    Raises UserError for a state without tokens, an unknown norm, or spectral norms that would need too large a matrix.
    """
    if norm not in ("spectral", "frobenius"):
        raise UserError(f"norm: unknown {norm!r} (known: spectral, frobenius)")
    if x.ndim < 2 + batch_dims or (x.ndim > 2 + batch_dims and x.shape[0] != 1):
        raise UserError(f"state: shape {tuple(x.shape)} is not tokens by channels; for several samples give batch_dims=1")
    g, state = prepared(f, x)
    block = closed_block(g, t)
    operator, error, products = None, None, 0
    if block is not None:
        check_finite("state x", state, f"at t = {float(t):g}")
        shift = getattr(g, "field", g).shift(t)  # type: ignore[union-attr]
        maps = torch.stack([_closed_form(block, sample, shift, norm) for sample in state.reshape(-1, *state.shape[-2:])])
        method = "closed form"
    else:
        operator = jacobian(f, x, t, batch_dims=batch_dims)
        method = "dense" if operator.n <= DENSE_LIMIT else "hutchinson"
        if method == "hutchinson" and norm == "spectral":
            raise UserError(f"norm: spectral block norms of {operator.n} dimensions need the dense Jacobian; use frobenius")
        maps, error = (_dense_blocks(operator, norm), None) if method == "dense" else _hutchinson(operator, samples, seed)
        products = operator.products
    values = maps.double().cpu().numpy()
    bound = np.linalg.norm(values, 2, axis=(1, 2)) if method != "hutchinson" else None
    if batch_dims == 0:
        values, bound = values[0], None if bound is None else float(bound[0])
        error = None if error is None else error[0]
    return InfluenceReport(
        provenance=provenance(f, state, seed if method == "hutchinson" else None), influence=values, norm=norm, method=method,
        error=error, bound=bound, products=products, t=float(t),
    )  # fmt: skip


def closed_block(f, t: float = 0.0) -> Block | None:
    """The block of a field (or its piece) for which the closed form holds: parallel, dot-product, linear norms; else None."""
    field = getattr(f, "field", f)
    if not isinstance(field, VectorField):
        return None
    block = getattr(f, "block", None) or field.block_at(t)
    linear = all(isinstance(n, (CenterNorm, torch.nn.Identity)) for n in (block.norm1, block.norm2))
    return block if linear and not block.sequential and block.attn.kind == "dot" else None


class _Parts:
    """What the closed form needs of one state x (N, D); q carries 1 / sqrt(d)."""

    def __init__(self, block: Block, x: Tensor, shift: Tensor | None):
        attn, mlp, dim = block.attn, block.mlp, x.shape[-1]
        first, second = (n.matrix() if isinstance(n, CenterNorm) else torch.eye(dim).to(x) for n in (block.norm1, block.norm2))
        y, z = ((n(x) if shift is None else n(x) + shift) for n in (block.norm1, block.norm2))
        weight, bias = attn.stacked()
        self.q, self.k, self.v = attn.split(F.linear(y, weight, bias))  # (H, N, d)
        wq, wk, wv = weight.view(3, attn.num_heads, attn.head_dim, dim)  # (H, d, D)
        self.p = attn.scores(self.q, self.k).softmax(-1)  # (H, N, N)
        self.mean = self.p @ self.v
        out = attn.proj.weight if block.scale1 is None else block.scale1[:, None] * attn.proj.weight
        self.out = out.view(dim, attn.num_heads, -1).transpose(0, 1)  # (H, D, d)
        self.direct = self.out @ wv @ first  # (H, D, D)
        self.u = self.q @ wk @ first  # (H, N, D)
        self.query = wq @ first
        hidden = F.linear(z, mlp.fc1.weight, mlp.fc1.bias).requires_grad_()
        with torch.enable_grad():
            (self.slope,) = torch.autograd.grad(mlp.act(hidden).sum(), hidden)  # (N, hidden)
        self.w1 = mlp.fc1.weight @ second
        self.w2 = mlp.fc2.weight if block.scale2 is None else block.scale2[:, None] * mlp.fc2.weight

    def blocks(self, i: int, columns: slice) -> Tensor:
        """J_ij for the j in `columns`, (j, D, D)."""
        p = self.p[:, i, columns]  # (H, j)
        moved = (p[..., None] * (self.v[:, columns] - self.mean[:, i, None])) @ self.out.transpose(1, 2)  # (H, j, D)
        found = torch.einsum("hj,hab->jab", p, self.direct) + torch.einsum("hja,hb->jab", moved, self.u[:, i])
        if columns.start <= i < columns.stop:
            p = self.p[:, i]
            covariance = (p[..., None] * (self.v - self.mean[:, i, None])).transpose(1, 2) @ self.k  # (H, d, d)
            own = (self.out @ covariance @ self.query).sum(0) + (self.w2 * self.slope[i]) @ self.w1
            found[i - columns.start] += own
        return found


def _closed_form(block: Block, x: Tensor, shift: Tensor | None, norm: str) -> Tensor:
    """(N, N) block norms of one sample, one row and a few columns at a time."""
    with torch.no_grad():
        parts, (tokens, dim) = _Parts(block, x, shift), x.shape
        step = max(1, CHUNK // dim**2)
        rows = [
            torch.cat([
                _norms(parts.blocks(i, slice(first, min(first + step, tokens))), norm) for first in range(0, tokens, step)
            ])
            for i in range(tokens)
        ]  # fmt: skip
    return torch.stack(rows)


def _norms(blocks: Tensor, norm: str) -> Tensor:
    if norm == "frobenius":
        return blocks.flatten(-2).norm(dim=-1)
    check_finite("Jacobian block", blocks)
    return torch.linalg.svdvals(blocks.double().cpu())[..., 0].to(blocks)


def _dense_blocks(operator: Jacobian, norm: str) -> Tensor:
    dim = operator.shape_state[-1]
    blocks = operator.dense().reshape(operator.batch or 1, operator.n // dim, dim, operator.n // dim, dim)
    return _norms(blocks.transpose(2, 3), norm)


def _hutchinson(operator: Jacobian, samples: int, seed: int) -> tuple[Tensor, np.ndarray]:
    """(N, N) Frobenius norms of the blocks and their standard errors."""
    dim, batch = operator.shape_state[-1], operator.batch or 1
    tokens = operator.n // dim
    generator = torch.Generator().manual_seed(seed)
    mean = torch.empty(batch, tokens, tokens, dtype=operator.dtype, device=operator.device)
    error = torch.empty_like(mean)
    for j in range(tokens):
        tangents = torch.zeros(samples, batch, tokens, dim, dtype=operator.dtype, device=operator.device)
        tangents[:, :, j] = torch.randn(samples, batch, dim, generator=generator, dtype=torch.float64).to(tangents)
        image = operator.matvec(tangents.reshape(samples, *operator.shape_state)).reshape(samples, batch, tokens, dim)
        squares = image.square().sum(-1)  # (samples, B, N)
        mean[:, :, j], error[:, :, j] = squares.mean(0), squares.std(0) / samples**0.5
    value = mean.sqrt()
    return value, (error / (2 * value.clamp_min(torch.finfo(value.dtype).tiny))).double().cpu().numpy()


def divergence(
    f: Field, x: Tensor, t: float = 0.0, *, batch_dims: int = 0, samples: int | None = None, seed: int = 0
) -> ValueReport:
    """tr J(t, x), the rate at which volumes in state space grow: d log det Phi / dt = tr J (Liouville).

    Exact with n products up to 2,000 dimensions; above, or where `samples` is given, Hutchinson's estimate over random signs,
    its standard error in `residual`.
    """
    operator = jacobian(f, x, t, batch_dims=batch_dims)
    n, batch = operator.n, operator.batch or 1
    if samples is None and n <= DENSE_LIMIT:
        value = operator.dense().reshape(batch, n, n).diagonal(dim1=1, dim2=2).sum(-1)
        error, side = torch.zeros_like(value), "exact"
    else:
        count, side = samples or SAMPLES, "estimate +- standard error"
        if count < 2:
            raise UserError(f"samples: {count}; a standard error needs at least 2")
        generator = torch.Generator().manual_seed(seed)
        signs = torch.randint(0, 2, (count, batch, n), generator=generator).to(operator.value) * 2 - 1
        image = operator.matvec(signs.reshape(count, *operator.shape_state)).reshape(count, batch, n)
        draws = (signs * image).sum(-1)  # (samples, B)
        value, error = draws.mean(0), draws.std(0) / count**0.5
    numbers = [a.double().cpu().numpy() for a in (value, error)]
    value_, error_ = numbers if operator.batch is not None else (float(a[0]) for a in numbers)
    return ValueReport(provenance=provenance(f, operator.value, seed), name="divergence", value=value_, residual=error_,
                       side=side, products=operator.products, t=float(t))  # fmt: skip
