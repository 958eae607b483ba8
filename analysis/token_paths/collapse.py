"""Do the tokens become one: cosines, rank collapse and clusters of the rows x_i of a state.

Mean pairwise cosine = (||sum_i x_i/||x_i|| ||^2 - N) / (N (N - 1)), in O(N D); rank collapse ||X - 1 mean^T||_F / ||X||_F (Dong
et al. 2021, 2103.03404), 0 iff all tokens are equal. CenterNorm sees only Pi x = x - mean over channels, so both are also given
there.
Clustering of tokens as an interacting particle system: Geshkovski et al. 2023 (2312.10794).
"""

import math

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from odevit.errors import UserError


def centre_channels(x: Tensor) -> Tensor:
    """Pi x: each token (..., D) minus its mean over channels, the part of the state that CenterNorm reads."""
    return x - x.mean(-1, keepdim=True)


def mean_cosine(x: Tensor) -> Tensor:
    """Mean cosine over pairs of different tokens, (..., N, D) -> (...), in [-1/(N-1), 1]; NaN for one token or a zero token.

    >>> round(float(mean_cosine(torch.eye(3).double() - 1 / 3)), 12)  # a simplex: the least possible mean
    -0.5
    """
    n = x.shape[-2]
    if n == 1:
        return x.new_full(x.shape[:-2], math.nan)
    unit = x / x.norm(dim=-1, keepdim=True)
    return (unit.sum(-2).square().sum(-1) - n) / (n * (n - 1))


def collapse_ratio(x: Tensor) -> Tensor:
    """||X - 1 mean^T||_F / ||X||_F, (..., N, D) -> (...), in [0, 1]; 0 iff all tokens are equal, NaN for a zero state."""
    return (x - x.mean(-2, keepdim=True)).flatten(-2).norm(dim=-1) / x.flatten(-2).norm(dim=-1)


def cluster_count(x: Tensor, delta: float = 0.1) -> np.ndarray:
    """Number of connected components of the graph {cos(x_i, x_j) > 1 - delta}, (..., N, D) -> (...); non-increasing in delta.

    Components chain: two tokens of one cluster may be farther apart than delta. A zero token is alone.

    Raises UserError unless 0 < delta <= 2.
    """
    if not 0 < delta <= 2:
        raise UserError(f"delta: {delta} is not in (0, 2], the range of 1 - cos")
    unit = torch.nn.functional.normalize(x.double(), dim=-1, eps=1e-300)
    near = (unit @ unit.mT > 1 - delta).cpu().numpy()
    counts = [connected_components(csr_matrix(graph), directed=False)[0] for graph in near.reshape(-1, *near.shape[-2:])]
    return np.array(counts, dtype=np.int64).reshape(near.shape[:-2])
