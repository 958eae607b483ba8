"""Reports on the solver: error of a step size, order, linear stability, swaps of solver and steps, splittings."""

from dataclasses import dataclass

import numpy as np

from .base import Report


@dataclass(frozen=True, kw_only=True, eq=False)
class DiscretizationReport(Report):
    """Global error of Euler's method along a trajectory, estimated in four ways; samples first where there are several.

    Attributes:
        h, steps, horizon: the trajectory's.
        time: the K grid times.
        jacobian_norm: ||J|| at each time; step_norm: ||I + hJ|| of each step (values found, accurate to `residual`).
        acceleration: ||x''|| at each time.
        lipschitz, gamma, curvature: largest ||J||, (||I + hJ|| - 1) / h and ||x''|| along the trajectory (L, gamma_h, M).
        classical: h M (e^{LT} - 1) / (2L).  logarithmic: the same sum with gamma_h for L.
        stepwise: at each time, E <- ||I + hJ|| E + h^2 M / 2 with the values of each step.
        principal: at each time, h ||e||, e' = Je - x''/2: an estimate, not a bound. direction: h e(T), the shape of x.
        logits_shift: change of the logits along h e(T); empty without a model.
        true_error: at each time, against a fine solve; empty unless asked for. reference_error: of that solve at T.
        cosine: of h e(T) and the true error, NaN unless asked for.
        vacuous: True where LT > 50 makes `classical` meaningless.
        residual: largest relative residual of the norms. notes: on which grounds the numbers stand.
    """

    h: float
    steps: int
    horizon: float
    time: np.ndarray
    jacobian_norm: np.ndarray
    step_norm: np.ndarray
    acceleration: np.ndarray
    lipschitz: float | np.ndarray
    gamma: float | np.ndarray
    curvature: float | np.ndarray
    classical: float | np.ndarray
    logarithmic: float | np.ndarray
    stepwise: np.ndarray
    principal: np.ndarray
    direction: np.ndarray
    logits_shift: np.ndarray
    true_error: np.ndarray
    reference_error: float | np.ndarray
    cosine: float | np.ndarray
    vacuous: bool | np.ndarray
    residual: float
    notes: tuple[str, ...] = ()

    axes = {
        "time": ("time",), "jacobian_norm": ("time",), "step_norm": ("step",), "acceleration": ("time",), "stepwise": ("time",),
        "principal": ("time",), "true_error": ("time",), "logits_shift": ("class",), "lipschitz": (), "gamma": (),
        "curvature": (), "classical": (), "logarithmic": (), "reference_error": (), "cosine": (), "vacuous": (),
    }  # fmt: skip
    units = {"h": "t", "horizon": "t", "time": "t", "jacobian_norm": "1/t", "lipschitz": "1/t", "gamma": "1/t"}


@dataclass(frozen=True, kw_only=True, eq=False)
class OrderReport(Report):
    """Observed order of a solver by Richardson's comparison of h, h/2 and h/4; samples first where there are several.

    Attributes:
        method, steps: solver and number of steps of the coarsest solve. expected: the method's order.
        observed: log2(||x_h - x_{h/2}|| / ||x_{h/2} - x_{h/4}||); NaN where the differences are rounding noise.
        difference: ||x_h - x_{h/2}||. error: estimated error of x_{h/2}, difference / (2^p - 1) with the expected p.
        in_ode_regime: True where observed is within 0.3 of expected, so that the net at this h behaves like the ODE.
        verdict: the same in words, for the worst sample.
    """

    method: str
    steps: int
    h: float
    expected: int
    observed: float | np.ndarray
    difference: float | np.ndarray
    error: float | np.ndarray
    in_ode_regime: bool | np.ndarray
    verdict: str

    axes = {"observed": (), "difference": (), "error": (), "in_ode_regime": ()}
    units = {"h": "t"}


@dataclass(frozen=True, kw_only=True, eq=False)
class StabilityReport(Report):
    """What one step of a solver makes of the eigenvalues of J.

    Attributes:
        method, h: solver and step size. tolerance: of the growth error.
        eigenvalues: lambda. factor: |R(h lambda)|. discrete_exponents: log|R(h lambda)| / h, seen for Re lambda.
        h_max: largest stable step of each decaying mode, NaN for the others; h_max_all: the smallest of them.
        growth_error: |R(h lambda) e^{-h lambda} - 1| of modes that do not decay, NaN for the others.
        passes: the mode does what it should. note: how far this reaches.
    """

    method: str
    h: float
    tolerance: float
    eigenvalues: np.ndarray
    factor: np.ndarray
    discrete_exponents: np.ndarray
    h_max: np.ndarray
    h_max_all: float
    growth_error: np.ndarray
    passes: np.ndarray
    note: str

    axes = dict.fromkeys(("eigenvalues", "factor", "discrete_exponents", "h_max", "growth_error", "passes"), ("k",))
    units = {"eigenvalues": "1/t", "discrete_exponents": "1/t", "h": "t", "h_max": "t", "h_max_all": "t"}


@dataclass(frozen=True, kw_only=True, eq=False)
class RegionReport(Report):
    """|R(z)| of a method on a grid of the complex plane z = h lambda; the stability region is where it is at most 1."""

    method: str
    re: np.ndarray
    im: np.ndarray
    modulus: np.ndarray

    axes = {"re": ("re",), "im": ("im",), "modulus": ("im", "re")}


@dataclass(frozen=True, kw_only=True, eq=False)
class SwapReport(Report):
    """What happens to the answers of a model under another solver or number of steps.

    Attributes:
        trained_method, trained_steps: what the others are compared with.
        method, steps, nfe: of each row; steps is 0 for adaptive methods.
        max_logit_change: largest |dlogit| over images and classes. max_shift: largest ||dx|| of the readout's input.
        flip_rate: share of images whose prediction changes. certain_rate: share for which ||dx|| < no-flip radius
            proves that it does not.
        accuracy, accuracy_change: NaN without labels; the change is against the trained solver.
        radius: no-flip radius of each image under the trained solver, in the readout's input (CLS after any final norm).
    """

    trained_method: str
    trained_steps: int
    images: int
    method: np.ndarray
    steps: np.ndarray
    nfe: np.ndarray
    max_logit_change: np.ndarray
    max_shift: np.ndarray
    flip_rate: np.ndarray
    certain_rate: np.ndarray
    accuracy: np.ndarray
    accuracy_change: np.ndarray
    radius: np.ndarray

    axes = {
        **dict.fromkeys(("method", "steps", "nfe", "max_logit_change", "max_shift", "flip_rate", "certain_rate"), ("row",)),
        "accuracy": ("row",), "accuracy_change": ("row",), "radius": ("image",),
    }  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class SplittingReport(Report):
    """How much it matters in which order F and G act: leading local errors of one step, divided by h^2; samples first.

    Attributes:
        commutator: ||F'G - G'F||. total: ||(F' + G')(F + G)||. ratio: the one over the other (0 = order does not matter).
        terms: by name of the step, the norm of the leading term of numerical minus exact solution over h^2.
        architecture_gap: ||F'G||, sequential minus parallel layer over h^2.
        relative: h times each term over ||f||: the share of the step that it makes.
        notes: where the statement holds.
    """

    time: float
    h: float
    commutator: float | np.ndarray
    total: float | np.ndarray
    ratio: float | np.ndarray
    architecture_gap: float | np.ndarray
    terms: dict[str, np.ndarray]
    relative: dict[str, np.ndarray]
    notes: tuple[str, ...] = ()

    axes = {"commutator": (), "total": (), "ratio": (), "architecture_gap": (), "terms": (), "relative": ()}
    units = {"time": "t", "h": "t"}
