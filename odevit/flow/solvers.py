"""Solvers as data: fixed-step Runge-Kutta tableaux of ours, adaptive ones read from the installed torchdiffeq, two splittings.

R(z) = 1 + z b^T (I - zA)^-1 1 is the stability function of a tableau (Hairer, Norsett, Wanner, Solving ODEs I, II).
"""

from dataclasses import dataclass
from typing import Any

from torchdiffeq._impl.odeint import SOLVERS

from ..config import nearest
from ..errors import UserError


@dataclass(frozen=True)
class Tableau:
    """An explicit Runge-Kutta method: x1 = x + h sum_i b_i k_i, k_i = f(t + c_i h, x + h sum_j<i a_ij k_j)."""

    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    c: tuple[float, ...]

    def stability(self, z):
        """R(z) = 1 + z b^T (I - zA)^-1 1, the factor of one step on dx/dt = lambda x with z = h lambda (NumPy, any shape)."""
        stages: list[Any] = []
        for row in self.a:
            stages.append(1 + z * sum((w * s for w, s in zip(row, stages)), 0 * z))
        return 1 + z * sum(w * s for w, s in zip(self.b, stages))


@dataclass(frozen=True)
class Method:
    """A solver as data.

    Attributes:
        name: torchdiffeq's, or a splitting's with its sub-step ("strang:midpoint").
        order: order of convergence.
        kind: "fixed", "adaptive" or "splitting".
        tableau: coefficients; None for a splitting, which has its `substep` instead.
    """

    name: str
    order: int
    kind: str
    tableau: Tableau | None = None
    substep: "Method | None" = None


_FIXED = {
    "euler": Method("euler", 1, "fixed", Tableau(((),), (1.0,), (0.0,))),
    "midpoint": Method("midpoint", 2, "fixed", Tableau(((), (0.5,)), (0.0, 1.0), (0.0, 0.5))),
    "heun2": Method("heun2", 2, "fixed", Tableau(((), (1.0,)), (0.5, 0.5), (0.0, 1.0))),
    "heun3": Method("heun3", 3, "fixed", Tableau(((), (1 / 3,), (0.0, 2 / 3)), (0.25, 0.0, 0.75), (0.0, 1 / 3, 2 / 3))),
    "rk4": Method(
        "rk4", 4, "fixed",
        Tableau(((), (1 / 3,), (-1 / 3, 1.0), (1.0, -1.0, 1.0)), (1 / 8, 3 / 8, 3 / 8, 1 / 8), (0.0, 1 / 3, 2 / 3, 1.0)),
    ),
}  # fmt: skip  # rk4 is torchdiffeq's: Kutta's 3/8 rule
_SPLITTINGS = ("lie_trotter", "strang")


def _adaptive() -> dict[str, Method]:
    found = {}
    for name, solver in SOLVERS.items():
        raw = getattr(solver, "tableau", None)
        if raw is not None and hasattr(solver, "order"):
            rows = ((), *(tuple(row.tolist()) for row in raw.beta))
            tableau = Tableau(rows, tuple(raw.c_sol.tolist()), (0.0, *raw.alpha.tolist()))
            found[name] = Method(name, int(solver.order), "adaptive", tableau)
    return found


def _one_step() -> dict[str, Method]:
    return {name: method for name, method in _FIXED.items() if name in SOLVERS} | _adaptive()


def methods() -> dict[str, Method]:
    """The solvers that work here, by name: one-step methods of the installed torchdiffeq, and our splittings.

    >>> {name: method.order for name, method in methods().items() if method.kind == "fixed"}
    {'euler': 1, 'midpoint': 2, 'heun2': 2, 'heun3': 3, 'rk4': 4}
    """
    return _one_step() | {name: find_method(name) for name in _SPLITTINGS}


def unsupported() -> dict[str, str]:
    """Solvers of the installed torchdiffeq that are not offered, each with the reason."""
    reasons = {"scipy_solver": "runs in SciPy and returns no gradient"}
    known, other = _one_step(), "multistep or implicit: no one-step stability function"
    return {name: reasons.get(name, other) for name in SOLVERS if name not in known}


def find_method(name: str) -> Method:
    """The Method of this name; splittings take a sub-step method after a colon ("strang:midpoint", Euler unless given).

    Raises UserError with the nearest name and the list of those that work.

    >>> find_method("strang").order, find_method("strang:midpoint").order
    (1, 2)
    """
    base, _, sub = name.partition(":")
    if base in _SPLITTINGS:
        return _splitting(name, base, find_method(sub or "euler"))
    if name in _FIXED and name in SOLVERS:
        return _FIXED[name]
    known = _one_step()
    if name in known:
        return known[name]
    if name in SOLVERS:
        raise UserError(f"method: {name!r} is not supported ({unsupported()[name]}; installed: {', '.join(methods())})")
    names = [*known, *_SPLITTINGS]
    raise UserError(f"method: unknown {name!r}{nearest(name, names)} (installed: {', '.join(names)})")


def _splitting(name: str, base: str, substep: Method) -> Method:
    if substep.kind != "fixed":
        raise UserError(f"method: {name!r} needs a fixed-step sub-step, not {substep.name!r}")
    return Method(name, min(substep.order, 1 if base == "lie_trotter" else 2), "splitting", None, substep)


def calls_per_step(method: Method) -> int:
    """Calls of the field in one step; for a splitting, of the part that is called more often."""
    if method.substep is not None and method.substep.tableau is not None:
        return len(method.substep.tableau.b) * (1 if method.name.startswith("lie_trotter") else 2)
    assert method.tableau is not None
    return len(method.tableau.b)
