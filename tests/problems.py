"""Systems that know their answer, and random small fields of our own for property tests."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from analysis.operators import as_float64
from odevit.config import ODEViTConfig
from odevit.field import VectorField


@dataclass(frozen=True)
class Linear:
    """dx/dt = A x on states of shape (..., n)."""

    matrix: Tensor

    def __call__(self, t, x: Tensor) -> Tensor:
        return x @ self.matrix.T

    def solution(self, t: float, x0: Tensor) -> Tensor:
        """e^{tA} x0."""
        return x0 @ torch.linalg.matrix_exp(t * self.matrix).T


def linear(rows) -> Linear:
    """The linear field of a matrix given by rows."""
    return Linear(torch.as_tensor(np.asarray(rows), dtype=torch.float64))


def rotation(a: float = -0.1, b: float = 2.0) -> Linear:
    """[[a, b], [-b, a]]: eigenvalues a +- ib, normal, mu = a, every singular value of e^{TA} is e^{aT}."""
    return linear([[a, b], [-b, a]])


def jordan() -> Linear:
    """[[0, 1], [0, 0]]: eigenvalue 0 twice, norm 1, mu = 1/2, numerical range the disk of radius 1/2, Henrici number 1."""
    return linear([[0.0, 1.0], [0.0, 0.0]])


def transient() -> Linear:
    """[[-1, 10], [0, -2]]: spectral abscissa -1 and yet mu = (-3 + sqrt(101)) / 2; max_t |e^{tA}| = 2.5635."""
    return linear([[-1.0, 10.0], [0.0, -2.0]])


TRANSIENT_MU = (-3 + math.sqrt(101)) / 2


def triangular() -> Linear:
    """Upper triangular with diagonal (.5, -.2, -1) and 3 above it: the exponents are the diagonal."""
    return linear(np.diag([0.5, -0.2, -1.0]) + 3 * np.triu(np.ones((3, 3)), 1))


def spread(n: int, seed: int = 0) -> tuple[Linear, np.ndarray]:
    """A field of n dimensions with known eigenvalues .97^j e^{+-i phi_j}, not normal, and these eigenvalues."""
    rng = np.random.default_rng(seed)
    core, values = np.zeros((n, n)), []
    for j, phi in enumerate(rng.uniform(0.05, 3.1, n // 2)):
        a, b = 0.97**j * math.cos(phi), 0.97**j * math.sin(phi)
        core[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = [[a, b], [-b, a]]
        values += [a + 1j * b, a - 1j * b]
    if n % 2:
        core[-1, -1] = 0.5
        values.append(0.5)
    basis = np.eye(n) + 0.3 * rng.standard_normal((n, n)) / math.sqrt(n)
    return linear(basis @ core @ np.linalg.inv(basis)), np.array(values)


def zero(t, x: Tensor) -> Tensor:
    """f = 0, and no path from x to the result."""
    return torch.zeros_like(x)


def identity(t, x: Tensor) -> Tensor:
    """f = x."""
    return x.clone()


def nan_field(t, x: Tensor) -> Tensor:
    """f is not finite."""
    return x * float("nan")


def lorenz(t, x: Tensor) -> Tensor:
    """Lorenz-63 (10, 28, 8/3) on states (..., 3): exponents .906, 0, -14.572; their sum is -(10 + 1 + 8/3)."""
    a, b, c = x.unbind(-1)
    return torch.stack([10.0 * (b - a), a * (28.0 - c) - b, a * b - 8.0 / 3.0 * c], -1)


def circle(t, x: Tensor) -> Tensor:
    """Unit circular motion in the plane, states (..., 2): curvature 1 / radius."""
    return torch.stack([-x[..., 1], x[..., 0]], -1)


def uniform_attention(v: Tensor) -> Callable[[object, Tensor], Tensor]:
    """W_q = 0, one head, no norm: f_i = V mean(x); J = (11^T / N) (x) V; x_i(T) = x_i(0) + (e^{TV} - I) mean x(0)."""
    return lambda t, x: (x.mean(-2, keepdim=True) @ v.T).expand_as(x)


def frozen_attention(p: Tensor, v: Tensor) -> Callable[[object, Tensor], Tensor]:
    """f = P x V^T with a fixed row-stochastic P: J = P (x) V, eigenvalues lambda_a(P) lambda_b(V), singular values likewise."""
    return lambda t, x: p @ x @ v.T


def stochastic(n: int, seed: int = 0) -> Tensor:
    """A random row-stochastic (n, n) matrix."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, n, generator=generator, dtype=torch.float64).softmax(-1)


@dataclass(frozen=True)
class Case:
    """One random field of ours with a state x (1, N, D) in float64, and what it was drawn with."""

    field: VectorField
    x: Tensor
    seed: int
    scale: float
    bias: bool

    @property
    def dim(self) -> int:
        """Width D."""
        return self.x.shape[-1]

    @property
    def tokens(self) -> int:
        """Number of tokens N."""
        return self.x.shape[-2]


def random_case(seed: int, *, tokens=None, dim=None, scale=None, bias=None, **config) -> Case:
    """A random small field: N in 2..9, D in {4, 6, 8}, 1 or 2 heads, weight scale in .3..2, with or without biases.

    Whatever is given (not None) is kept; `config` goes to ODEViTConfig (attention, norm) or, for blocks, horizon and
    time_frequencies, to the field. gamma, beta and all biases are random, so nothing holds only at initialisation.
    """
    rng = np.random.default_rng(seed)
    drawn_tokens, drawn_dim, heads = int(rng.integers(2, 10)), int(rng.choice([4, 6, 8])), int(rng.choice([1, 2]))
    drawn_scale, drawn_bias = float(rng.uniform(0.3, 2.0)), bool(rng.integers(2))
    tokens, dim = tokens or drawn_tokens, dim or drawn_dim
    scale, bias = drawn_scale if scale is None else scale, drawn_bias if bias is None else bias
    of_field = {key: config.pop(key) for key in ("blocks", "horizon", "time_frequencies") if key in config}
    config = {"num_heads": heads, "mlp_ratio": 2.0, "registers": 0} | config
    field = VectorField(ODEViTConfig(embed_dim=dim, bias=bias, **config), **of_field)
    generator = torch.Generator().manual_seed(seed)
    randomise(field, scale, generator)
    x = torch.randn(1, tokens, dim, generator=generator, dtype=torch.float64)
    return Case(as_float64(field), x, seed, scale, bias)


def randomise(field: nn.Module, scale: float, generator: torch.Generator) -> None:
    """Gaussian weights of spectral size about `scale`, biases and beta of size .3, gamma around 1."""
    with torch.no_grad():
        for name, weight in field.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if weight.ndim == 2 and "time" not in name:
                weight.copy_(scale * noise / math.sqrt(weight.shape[1]))
            elif name.endswith("gamma") or ("norm" in name and name.endswith("weight")):
                weight.copy_(1 + 0.3 * noise)
            elif weight.ndim:
                weight.copy_(0.3 * noise)


def quantile_line(name: str, ratios) -> str:
    """One line that prints how loose a bound is: smallest, median and largest ratio bound / truth."""
    ratios = np.asarray(ratios)
    return f"{name}: {ratios.min():.3g} / {np.median(ratios):.3g} / {ratios.max():.3g} (min / median / max of {len(ratios)})"
