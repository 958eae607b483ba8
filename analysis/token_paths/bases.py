"""Principal axes of pooled states, and how many of them matter.

Cov = E[(x - mean)(x - mean)^T] = sum_i lambda_i e_i e_i^T, sum lambda = total variance. With p = sigma^2 (or lambda):
1 <= sum p / max p (stable rank) <= (sum p)^2 / sum p^2 (participation ratio) <= exp(entropy of p / sum p) (effective rank, Roy
and Vetterli 2007) <= rank.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from odevit.errors import UserError

from ..operators import check_finite


def array(x) -> np.ndarray:
    """A tensor (any device) or array as a float64 array."""
    return np.asarray(x.detach().cpu() if isinstance(x, Tensor) else x, dtype=np.float64)


@dataclass(frozen=True)
class Basis:
    """Principal axes that can be computed on one set of states and applied to another, of another model too.

    Attributes:
        mean: (D,) centre of the states it was computed on.
        components: (k, D) orthonormal rows, largest variance first; the entry of largest modulus is positive.
        variances: (D,) variance along every principal axis, descending; the sum is the total variance.
    """

    mean: np.ndarray
    components: np.ndarray
    variances: np.ndarray

    def apply(self, x) -> np.ndarray:
        """Coordinates of states (..., D) -> (..., k)."""
        if x.shape[-1] != len(self.mean):
            raise UserError(f"basis: it was computed for width {len(self.mean)}, the states have width {x.shape[-1]}")
        return (array(x) - self.mean) @ self.components.T

    def directions(self, v) -> np.ndarray:
        """Coordinates of vectors, such as velocities, (..., D) -> (..., k): the centre is not subtracted."""
        return array(v) @ self.components.T

    def lift(self, coordinates: np.ndarray) -> np.ndarray:
        """The states (..., D) in the plane of the axes with these coordinates (..., k)."""
        return self.mean + coordinates @ self.components

    @property
    def explained(self) -> np.ndarray:
        """(k,) share of the total variance along each component; NaN where the states do not vary."""
        total = self.variances.sum()
        return self.variances[: len(self.components)] / total if total else np.full(len(self.components), np.nan)


def principal_basis(*states, k: int = 3) -> Basis:
    """Principal axes of pooled states: every argument is (..., D), every row counts the same.

    Give the states of several models to compare them in one basis. Cost: one D x D symmetric eigenproblem.

    Raises:
        UserError: k outside 1 .. D, or sets of different widths.
        NonFiniteError: a state is NaN or infinite.
    """
    widths = {s.shape[-1] for s in states}
    if len(widths) != 1:
        raise UserError(f"basis: the sets of states have different widths {sorted(widths)}")
    width = widths.pop()
    if not 1 <= k <= width:
        raise UserError(f"k: {k} principal axes were asked for in {width} dimensions (1 to {width} exist)")
    pooled = np.concatenate([array(s).reshape(-1, width) for s in states])
    check_finite("states", torch.from_numpy(pooled))
    mean = pooled.mean(0)
    centred = pooled - mean
    values, vectors = np.linalg.eigh(centred.T @ centred / len(pooled))
    rows = vectors.T[::-1][:k]
    largest = np.take_along_axis(rows, np.abs(rows).argmax(1)[:, None], 1)
    return Basis(mean, rows * np.where(largest < 0, -1.0, 1.0), values[::-1].clip(min=0))


def stable_rank(power: Tensor) -> Tensor:
    """sum p / max p over the last axis; NaN where all p are 0."""
    return power.sum(-1) / power.amax(-1)


def participation_ratio(power: Tensor) -> Tensor:
    """(sum p)^2 / sum p^2 over the last axis; NaN where all p are 0.

    >>> float(participation_ratio(torch.tensor([1.0, 1.0, 1.0, 0.0])))
    3.0
    """
    return power.sum(-1).square() / power.square().sum(-1)


def effective_rank(power: Tensor) -> Tensor:
    """exp of the entropy (nats) of p / sum p over the last axis; NaN where all p are 0."""
    return torch.special.entr(power / power.sum(-1, keepdim=True)).sum(-1).exp()


def squared_singular_values(x: Tensor) -> Tensor:
    """sigma^2 of the matrices x (..., N, D) -> (..., min(N, D)), ascending, by the smaller Gram matrix, float64 on the CPU.

    Small values are good to 1e-16 of the largest, which the ranks of this module do not notice.
    """
    check_finite("states", x)
    x = x.detach().cpu().double()
    gram = x @ x.mT if x.shape[-2] <= x.shape[-1] else x.mT @ x
    return torch.linalg.eigvalsh(gram).clamp(min=0)
