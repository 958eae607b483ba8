"""Reports on the Jacobian at one point: spectra, single values, rates, numerical range, influence between tokens."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .base import Report


@dataclass(frozen=True, kw_only=True, eq=False)
class SpectrumReport(Report):
    """k eigenvalues or singular values of J(t, x); the field that was not asked for is None.

    Attributes:
        eigenvalues: complex (k,); order: descending modulus (which "LM") or real part ("LR"), then descending imaginary part.
        singular_values: (k,) descending.
        residuals: (k,) ||J v - lambda v||, or ||(J v - sigma u, J^T u - sigma v)|| / sqrt(2), unit vectors; NaN where dense.
        converged: how many of the k have a residual below tolerance * largest value.
        n: dimension of the state.   products: J v and J^T u spent.   dense: LAPACK on the full matrix.
        structural_zeros: eigenvalues that CenterNorm forces to 0 and that were projected out.
        which, t, tolerance: what was asked for.   remark: "k of n converged" and the like, '' where all is well.
    """

    eigenvalues: np.ndarray | None = None
    singular_values: np.ndarray | None = None
    residuals: np.ndarray
    converged: int | np.ndarray
    n: int
    products: int
    dense: bool
    which: str
    structural_zeros: int = 0
    t: float = 0.0
    tolerance: float = 1e-6
    remark: str = ""

    axes: ClassVar = {"eigenvalues": ("k",), "singular_values": ("k",), "residuals": ("k",), "converged": ()}
    units: ClassVar = {"eigenvalues": "1/t", "singular_values": "1/t", "residuals": "1/t", "t": "t"}


@dataclass(frozen=True, kw_only=True, eq=False)
class ValueReport(Report):
    """One number (or one per sample) with the side from which it approximates the quantity called `name`.

    Attributes:
        value, residual: the number and the residual ||S v - value v|| (0 where dense; a standard error where `side` says so).
        side: "exact", "lower" (a Ritz value), "upper" or "estimate +- standard error".
        products: J v and J^T u spent.   t: time.   remark: one line, '' where all is well.
    """

    name: str
    value: float | np.ndarray
    residual: float | np.ndarray = 0.0
    side: str
    products: int = 0
    t: float = 0.0
    remark: str = ""

    axes: ClassVar = {"value": (), "residual": ()}
    units: ClassVar = {"value": "1/t", "residual": "1/t", "t": "t"}

    def __float__(self) -> float:
        return float(self.value)


@dataclass(frozen=True, kw_only=True, eq=False)
class RatesReport(Report):
    """Four rates of J(t, x), contraction <= abscissa <= logarithmic_norm <= norm.

    Attributes:
        norm: ||J||.   logarithmic_norm: mu(J).   abscissa: largest Re lambda.   contraction: -mu(-J).
        residuals: (4,) of ||J||, mu(J), mu(-J) and the abscissa; 0 or NaN where dense.
        dense: exact, by LAPACK; else Ritz values: ||J||, mu(J) and mu(-J) from below, the abscissa from no side.
        tolerance: asked for, relative.   products: J v and J^T u spent.   remark: what did not converge, '' where all did.
    """

    norm: float | np.ndarray
    logarithmic_norm: float | np.ndarray
    abscissa: float | np.ndarray
    contraction: float | np.ndarray
    residuals: np.ndarray
    dense: bool
    products: int
    tolerance: float = 1e-4
    t: float = 0.0
    remark: str = ""

    axes: ClassVar = {"residuals": ("rate",)} | dict.fromkeys(("norm", "logarithmic_norm", "abscissa", "contraction"), ())
    units: ClassVar = {"t": "t"} | dict.fromkeys(
        ("norm", "logarithmic_norm", "abscissa", "contraction", "residuals"), "1/t"
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class RangeReport(Report):
    """The numerical range W(J) = {v* J v : |v| = 1} between two polygons.

    Attributes:
        angles: (angle,) directions theta.   support: (angle,) h(theta) = max over W of Re(e^{-i theta} z).
        points: (angle,) complex boundary points; their polygon lies inside W.
        outer: (angle,) complex corners of the polygon around W, cut by neighbouring support lines.
        radius: numerical radius max |z| over W, between `radius` and `radius_upper`.
        residual: largest residual of the eigenpairs behind it; the support is a lower bound by at most this for a simple value.
    """

    angles: np.ndarray
    support: np.ndarray
    points: np.ndarray
    outer: np.ndarray
    radius: float
    radius_upper: float
    residual: float
    products: int
    t: float = 0.0

    axes: ClassVar = {"angles": ("angle",), "support": ("angle",), "points": ("angle",), "outer": ("angle",)}
    units: ClassVar = {"angles": "rad"} | dict.fromkeys(("support", "points", "outer", "radius", "radius_upper"), "1/t")


@dataclass(frozen=True, kw_only=True, eq=False)
class InfluenceReport(Report):
    """How token j moves token i: block norms of J.

    Attributes:
        influence: (to, from) ||J_ij||.   norm: "spectral" or "frobenius".   method: "closed form", "dense" or "hutchinson".
        error: (to, from) standard error of a Hutchinson estimate, else None.
        bound: ||(B_ij)||_2 of the spectral block norms B, an upper bound of ||J||; None for estimates.
    """

    influence: np.ndarray
    norm: str
    method: str
    error: np.ndarray | None = None
    bound: float | np.ndarray | None = None
    products: int = 0
    t: float = 0.0

    axes: ClassVar = {"influence": ("to", "from"), "error": ("to", "from"), "bound": ()}
    units: ClassVar = {"influence": "1/t", "error": "1/t", "bound": "1/t", "t": "t"}


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightSpectraReport(Report):
    """Spectra of the attention weights, per block and head (Tong et al. 2025, 2503.01329); complex values kept.

    Attributes:
        qk: (block, head, d) non-zero eigenvalues of W_q^T W_k / sqrt(d).   ov: (block, head, d) those of W_o^h W_v^h.
    """

    qk: np.ndarray
    ov: np.ndarray
    attention: str

    axes: ClassVar = {"qk": ("block", "head", "d"), "ov": ("block", "head", "d")}
