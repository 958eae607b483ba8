"""Leading eigenvalues of an operator that is known by its products only: Krylov-Schur iteration with full orthogonalisation.

A V = V H + w b^T with orthonormal V; the wanted part of the Schur form of H starts the next cycle, nothing found is lost
(Stewart 2001, SIAM J. Matrix Anal. Appl. 23; for symmetric A this is thick-restart Lanczos, Wu and Simon 2000). A Ritz pair
H y = theta y has the residual |b^T y|. Where the space becomes invariant a fresh direction is drawn and the space is filled,
which finds copies of multiple eigenvalues; a copy that no rounding or breakdown brings in is missed, and no residual tells.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import lapack
from torch import Tensor

from ..operators import check_finite

CHECK_EVERY = 6  # products between two looks at the Ritz values
BREAKDOWN = 500  # a new direction smaller than this many roundings of the operator's size is nothing but rounding

Criterion = Callable[[np.ndarray], np.ndarray]
Threshold = Callable[[np.ndarray, float], "np.ndarray | float"]
Process = Generator[Tensor, Tensor, "RitzPairs"]
CRITERIA: dict[str, Criterion] = {"LM": np.abs, "LR": np.real}


@dataclass(frozen=True)
class RitzPairs:
    """The wanted Ritz values, best first, conjugate pairs whole.

    Attributes:
        values: (k,) complex, or k + 1 of them where the k-th has its partner behind it.
        vectors: (k, n) unit vectors, complex where a value is.   residuals: (k,) |b^T y|.   products: spent.
    """

    values: np.ndarray
    vectors: Tensor
    residuals: np.ndarray
    products: int


def order(values: np.ndarray, which: str) -> np.ndarray:
    """Positions by descending modulus ("LM") or real part ("LR"), then real part, then imaginary part, all descending."""
    return np.lexsort((-values.imag, -values.real, -CRITERIA[which](values)))


def whole(values: np.ndarray, k: int) -> int:
    """k, or k + 1 where the k-th of the ordered values is the first of a conjugate pair."""
    return min(len(values), k + int(values[min(k, len(values)) - 1].imag > 0))


def krylov_schur(
    start: Tensor,
    k: int,
    which: str,
    threshold: Threshold,
    *,
    symmetric: bool = False,
    budget: int = 1000,
    project: Callable[[Tensor], Tensor] = lambda v: v,
    generator: torch.Generator,
) -> Process:
    """The process that finds k leading eigenpairs of A: it yields vectors v (n,), is sent A v, and returns RitzPairs.

    Args:
        start: (n,) start vector.   k: how many.   which: "LM" or "LR".
        threshold: (values, largest modulus of all Ritz values) -> the residuals that are small enough.
        symmetric: A is symmetric.   budget: products allowed.
        project: applied to fresh directions, where A is wanted on a subspace only.
        generator: source of fresh directions.
    """
    size = min(len(start), 3 * k + 24)
    space = _Space(start, size, symmetric, project, generator)
    spent = 0
    while True:
        space.extend((yield space.newest))
        spent += 1
        stop = spent >= budget or space.full or space.exhausted
        if stop or (space.width % CHECK_EVERY == 0 and space.width > k):
            values, y, residuals = space.ritz(which)
            found = whole(values, k)
            small = np.all(residuals[:found] <= threshold(values[:found], float(np.abs(values).max())))
            if spent >= budget or space.exhausted or (found >= k and small and (space.full or not space.broken)):
                return RitzPairs(values[:found], space.vectors(y[:, :found]), residuals[:found], spent)
        if space.full:
            space.restart(which, k)


class _Space:
    """The Krylov decomposition A V = V H + w b^T while it grows and restarts."""

    def __init__(self, start: Tensor, size: int, symmetric: bool, project, generator: torch.Generator):
        self.basis = torch.zeros(size + 1, len(start), dtype=start.dtype, device=start.device)
        self.basis[0] = start / start.norm()
        self.h = np.zeros((size + 1, size))
        self.width, self.size, self.symmetric = 0, size, symmetric
        self.project, self.generator = project, generator
        self.broken = self.exhausted = False

    @property
    def newest(self) -> Tensor:
        """The vector whose product comes next."""
        return self.basis[self.width]

    @property
    def full(self) -> bool:
        """No room for another vector before a restart."""
        return self.width == self.size

    def extend(self, product: Tensor) -> None:
        """Take A v of the newest vector v; its part outside the space is the next vector."""
        check_finite("Jacobian-vector product", product)
        j = self.width
        w, column = self._outside(product, j + 1)
        norm = float(w.norm())
        self.h[: j + 1, j] = column
        self.width = j + 1
        if norm > BREAKDOWN * torch.finfo(w.dtype).eps * np.abs(self.h).max():
            self.h[j + 1, j] = norm
        else:
            self.broken = True
            w, norm = self._fresh(j + 1)
        if norm:
            self.basis[j + 1] = w / norm

    def _outside(self, w: Tensor, count: int) -> tuple[Tensor, np.ndarray]:
        """w minus its part in the first `count` vectors, and the coefficients of that part; twice is enough (Giraud 2005)."""
        known = self.basis[:count]
        first = known @ w
        w = w - first @ known
        second = known @ w
        return w - second @ known, (first + second).double().cpu().numpy()

    def _fresh(self, count: int) -> tuple[Tensor, float]:
        """A random direction outside the space and its norm; 0 where the space is all there is."""
        draw = torch.randn(self.basis.shape[1], generator=self.generator, dtype=torch.float64).to(self.basis)
        draw = self.project(draw)
        w, _ = self._outside(draw, count)
        w, _ = self._outside(w, count)
        self.exhausted = bool(w.norm() <= 1e-10 * draw.norm())
        return w, 0.0 if self.exhausted else float(w.norm())

    def _square(self) -> np.ndarray:
        m = self.width
        return (self.h[:m, :m] + self.h[:m, :m].T) / 2 if self.symmetric else self.h[:m, :m]

    def ritz(self, which: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(values, coordinates, residuals), ordered."""
        square, m = self._square(), self.width
        values, y = np.linalg.eigh(square) if self.symmetric else np.linalg.eig(square)
        values = values.astype(complex)
        chosen = order(values, which)
        return values[chosen], y[:, chosen], np.abs(self.h[m, m - 1] * y[m - 1, chosen])

    def vectors(self, y: np.ndarray) -> Tensor:
        """Ritz vectors (k, n) of coordinates (m, k)."""
        known = self.basis[: self.width]
        real = torch.from_numpy(np.ascontiguousarray(y.real.T)).to(known) @ known
        if not np.iscomplexobj(y):
            return real
        return torch.complex(real, torch.from_numpy(np.ascontiguousarray(y.imag.T)).to(known) @ known)

    def restart(self, which: str, k: int) -> None:
        """Keep the wanted half of the space and its residual vector."""
        m = self.width
        t, _, re, im, z, *_ = lapack.dgees(lambda *_: False, self._square())
        score = CRITERIA[which](re + 1j * im)
        ranked = np.sort(score)[::-1]
        first, last = k + 1, max(k + 2, (m + k) // 2 + 2)
        cut = first + int(np.argmax(ranked[first - 1 : last - 1] - ranked[first:last]))  # in the widest gap, between pairs
        t, z, *_ = lapack.dtrsen(score >= (ranked[cut - 1] + ranked[cut]) / 2, t, z, job="N")
        keep = cut if t[cut, cut - 1] == 0 else cut + 1
        self.basis[:keep] = torch.from_numpy(np.ascontiguousarray(z[:, :keep].T)).to(self.basis) @ self.basis[:m]
        self.basis[keep] = self.basis[m]
        tail = self.h[m, m - 1] * z[m - 1, :keep]
        self.h[:] = 0.0
        self.h[:keep, :keep], self.h[keep, :keep] = t[:keep, :keep], tail
        self.width = keep


def drive(processes: list[Process], product: Callable[[Tensor], Tensor]) -> list[RitzPairs]:
    """Run one process for each sample in step: `product` maps (B, n) -> (B, n), all samples in one pass."""
    results: dict[int, RitzPairs] = {}
    asked = {b: next(process) for b, process in enumerate(processes)}
    block = torch.stack(list(asked.values()))
    while asked:
        for b, v in asked.items():
            block[b] = v
        answer = product(block)
        for b in list(asked):
            try:
                asked[b] = processes[b].send(answer[b])
            except StopIteration as end:
                results[b] = end.value
                del asked[b]
    return [results[b] for b in range(len(processes))]
