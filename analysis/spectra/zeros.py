"""The N eigenvalues that CenterNorm forces to 0: J(x) (a (x) 1) = 0 for every a, since C 1 = 0 in both branches.

They are no dynamics: f(x + a (x) 1) = f(x). The projection P = I (x) (I - 11^T / D) removes them from eigenvalues, because the
non-zero eigenvalues of P J are those of J P = J.
"""

import numpy as np
import torch
from torch import Tensor

from odevit.field import CenterNorm, VectorField

from ..operators import Jacobian

ROUNDING = 1e-9  # of J on a constant direction, relative to J on a random one


def center(v: Tensor, dim: int) -> Tensor:
    """P v on flat states (..., N D): the channels of each token minus their mean."""
    tokens = v.unflatten(-1, (-1, dim))
    return (tokens - tokens.mean(-1, keepdim=True)).flatten(-2)


def centered_basis(dim: int) -> np.ndarray:
    """Orthonormal basis (D, D - 1) of the vectors whose entries sum to 0."""
    return np.linalg.svd(np.eye(dim) - 1 / dim)[0][:, : dim - 1]


def has_center_norms(f, t: float = 0.0) -> bool:
    """Whether f is a field (or its piece) with CenterNorm before both branches of the block that acts at t."""
    field = getattr(f, "field", f)
    if not isinstance(field, VectorField):
        return False
    block = getattr(f, "block", None) or field.block_at(t)
    return isinstance(block.norm1, CenterNorm) and isinstance(block.norm2, CenterNorm)


def structural_zeros(f, operator: Jacobian, t: float = 0.0) -> int:
    """How many eigenvalues of J are 0 by construction: N for a field with CenterNorm in both branches, else 0.

    The structure is read off the field and then tested on a random a: |J (a (x) 1)| must vanish. Cost: 2 products.
    """
    if not has_center_norms(f, t):
        return 0
    generator = torch.Generator().manual_seed(0)
    *lead, dim = operator.shape_state
    per_token = torch.randn(*lead, 1, generator=generator, dtype=torch.float64).to(operator.value)
    general = torch.randn(operator.shape_state, generator=generator, dtype=torch.float64).to(operator.value)
    constant, moved = operator.matvec(torch.stack([per_token.expand(operator.shape_state), general]))
    return operator.n // dim if float(constant.norm()) <= ROUNDING * float(moved.norm()) else 0
