"""Linear stability of a solver: one step on dx/dt = lambda x multiplies by R(h lambda).

A mode that decays (Re lambda < 0) must not grow in the solver: |R(h lambda)| <= 1. One that grows must grow at its own rate:
|R(h lambda) e^{-h lambda} - 1| small. Reference: Hairer & Wanner, Solving Ordinary Differential Equations II, ch. IV.2.
Eigenvalues say nothing sharp about a non-normal Jacobian: read these together with ||I + hJ|| (`euler_error`).
"""

from functools import cache

import numpy as np
from numpy.polynomial import Polynomial

from odevit.errors import NonFiniteError, UserError
from odevit.flow import Method, find_method

from ..reports import RegionReport, StabilityReport

REAL_ROOT = 1e-7  # a root of |R|^2 - 1 with a relative imaginary part below this is a crossing


def _with_tableau(method: str) -> Method:
    solver = find_method(method)
    if solver.tableau is None:
        raise UserError(f"method: {method!r} is a splitting: its factor needs both parts, not one eigenvalue of F + G")
    return solver


def stability_function(method: str, z) -> np.ndarray:
    """R(z), the factor of one step of `method` on dx/dt = lambda x at z = h lambda.

    Args:
        method: a Runge-Kutta method, fixed or adaptive.
        z: complex, any shape.

    Returns:
        Complex array of the shape of z.

    Raises:
        UserError: unknown method, or a splitting, which has no function of one eigenvalue.

    >>> float(stability_function("euler", -0.5).real)
    0.5
    """
    tableau = _with_tableau(method).tableau
    assert tableau is not None
    return np.asarray(tableau.stability(np.asarray(z, dtype=np.complex128)))


@cache
def _polynomial(method: str) -> np.ndarray:
    """Coefficients of R, constant term first; real, shared by all callers."""
    tableau = _with_tableau(method).tableau
    assert tableau is not None
    found = tableau.stability(Polynomial([0.0, 1.0])).coef
    found.setflags(write=False)
    return found


def largest_step(eigenvalue: complex, method: str) -> float:
    """The step size up to which |R(h lambda)| <= 1: the first exit from the stability region along the ray of lambda.

    |R(s u)|^2 - 1 with u = lambda / |lambda| is a polynomial in s with a root at 0; its smallest positive root over |lambda| is
    the answer. For Euler that is -2 Re(lambda) / |lambda|^2.

    Args:
        eigenvalue: lambda with Re lambda < 0, unit 1/t.
        method: a Runge-Kutta method.

    Returns:
        h_max, unit t; inf for lambda = 0 and 0 for Re lambda >= 0, where no step makes the factor stable.

    >>> round(largest_step(-0.1 + 2j, "euler"), 6)
    0.049875
    """
    size = abs(eigenvalue)
    if size == 0:
        return float("inf")
    if eigenvalue.real >= 0:
        return 0.0
    r = _polynomial(method) * (complex(eigenvalue) / size) ** np.arange(len(_polynomial(method)))
    squared = np.convolve(r, r.conj()).real
    roots = np.roots(np.trim_zeros(squared[1:][::-1], "f"))  # without the constant term |R(0)|^2 - 1 = 0
    crossings = sorted(z.real for z in roots if z.real > 0 and abs(z.imag) <= REAL_ROOT * abs(z))
    return float(crossings[0] / size) if crossings else float("inf")


def step_stability(eigenvalues, method: str = "euler", h: float = 1.0, tolerance: float = 0.1) -> StabilityReport:
    """Whether a step of size h keeps what the Jacobian's eigenvalues say.

    Args:
        eigenvalues: complex, shape (k,), unit 1/t.
        method: a Runge-Kutta method.
        h: step size, unit t, positive.
        tolerance: largest acceptable |R(h lambda) e^{-h lambda} - 1| of modes that do not decay.

    Returns:
        StabilityReport: per eigenvalue the factor |R(h lambda)|, h_max (NaN for modes that do not decay), the exponent
        log|R(h lambda)| / h that the solver shows instead of Re lambda, the growth error (NaN for modes that decay), and
        whether the mode passes its test; h_max over all decaying modes.

    Raises:
        UserError: a splitting, a step that is not positive. NonFiniteError: eigenvalues that are not finite.
    """
    values = np.atleast_1d(np.asarray(eigenvalues, dtype=np.complex128))
    if not np.isfinite(values).all():
        raise NonFiniteError(f"eigenvalues: {int((~np.isfinite(values)).sum())} of {values.size} are not finite")
    if not (np.isfinite(h) and h > 0):
        raise UserError(f"h: {h} must be a positive step size")
    factor = stability_function(method, h * values)
    decays = values.real < 0
    limits = np.array([largest_step(v, method) if d else np.nan for v, d in zip(values, decays)])
    growth_error = np.where(decays, np.nan, np.abs(factor * np.exp(-h * values) - 1))
    with np.errstate(divide="ignore"):
        exponents = np.log(np.abs(factor)) / h
    passes = np.where(decays, np.abs(factor) <= 1 + 1e-12, growth_error <= tolerance)
    return StabilityReport(
        method=method, h=float(h), tolerance=float(tolerance), eigenvalues=values, factor=np.abs(factor), passes=passes,
        h_max=limits, discrete_exponents=exponents, growth_error=growth_error,
        h_max_all=float(np.nanmin(limits)) if decays.any() else float("inf"),
        note="eigenvalues are a heuristic where J is far from normal: see ||I + hJ||",
    )  # fmt: skip


def stability_region(method: str = "euler", re=None, im=None) -> RegionReport:
    """|R(z)| on a grid of the complex plane z = h lambda, for figures; the region is where it is at most 1.

    Args:
        method: a Runge-Kutta method.
        re, im: axes, shapes (n,) and (m,); [-5, 1] and [-4, 4] unless given.

    Returns:
        RegionReport with modulus of shape (m, n).
    """
    re = np.linspace(-5.0, 1.0, 241) if re is None else np.asarray(re, dtype=float)
    im = np.linspace(-4.0, 4.0, 321) if im is None else np.asarray(im, dtype=float)
    modulus = np.abs(stability_function(method, re[None, :] + 1j * im[:, None]))
    return RegionReport(method=method, re=re, im=im, modulus=modulus)
