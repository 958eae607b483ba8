"""Solvers as data: order, stability function, agreement with torchdiffeq, and the list that the installed registry makes."""

import math
from dataclasses import replace

import numpy as np
import problems
import pytest
import torch
from torchdiffeq import odeint
from torchdiffeq._impl.odeint import SOLVERS

from odevit import TimeGrid, UserError, integrate, methods
from odevit.flow import find_method, step, unsupported

FIXED = ["euler", "midpoint", "heun2", "heun3", "rk4"]
ADAPTIVE = [name for name, method in methods().items() if method.kind == "adaptive"]


def doubles(*values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def forced(t, x):
    """x' = x^2 cos t, which is nonlinear and depends on time."""
    return x * x * torch.cos(torch.as_tensor(t))


def forced_solution(t: float) -> float:
    """With x(0) = 1/2."""
    return 1 / (2 - math.sin(t))


def slope(errors, steps) -> float:
    """Order seen: minus the slope of log error over log steps."""
    return -float(np.polyfit(np.log(steps), np.log(errors), 1)[0])


@pytest.mark.parametrize("name", FIXED)
def test_order_on_a_linear_flow(name):
    """Design page, section 6: euler .960, midpoint 1.977, heun2 1.977, heun3 2.979, rk4 3.980 for 32 to 512 steps."""
    field, x0, steps = problems.spread(4)[0], torch.ones(4, dtype=torch.float64), [32, 64, 128, 256, 512]
    exact = field.solution(1.0, x0)
    errors = [float((integrate(field, x0, TimeGrid(0.0, 1.0, n, 1), name).x[-1] - exact).norm()) for n in steps]
    assert slope(errors, steps) == pytest.approx(find_method(name).order, abs=0.06)


@pytest.mark.parametrize("name", FIXED)
def test_order_on_a_nonlinear_flow_that_depends_on_time(name):
    steps = [32, 64, 128, 256]
    ends = [float(integrate(forced, doubles(0.5), TimeGrid(0.0, 1.0, n, 1), name).x[-1]) for n in steps]
    errors = [abs(end - forced_solution(1.0)) for end in ends]
    assert slope(errors, steps) == pytest.approx(find_method(name).order, abs=0.1)


@pytest.mark.parametrize("name", FIXED)
def test_fixed_steps_are_torchdiffeqs(name):
    grid = TimeGrid(0.3, 1.7, 9)
    ours = integrate(forced, doubles(0.4, -0.7), grid, name).x
    theirs = odeint(forced, doubles(0.4, -0.7), doubles(*grid.times), method=name)
    assert float((ours - theirs).abs().max()) < 1e-12


@pytest.mark.parametrize("name", FIXED + ADAPTIVE)
@pytest.mark.parametrize("h", [0.1, 0.7, -0.4])
def test_stability_function_is_one_step_on_a_rotation(name, h):
    """Theory item 14: x' = (a + ib) x written as a 2x2 system; R(h (a + ib)) is the factor of one step."""
    a, b = -0.3, 1.7
    factor = find_method(name).tableau.stability(h * (a - 1j * b))
    after = step(problems.rotation(a, b), replace(find_method(name), kind="fixed"), 0.0, h, doubles(1.0, 0.0))
    assert complex(*after.tolist()) == pytest.approx(factor, abs=1e-14)


TAILS = {"euler": 1, "midpoint": 2, "heun2": 2, "heun3": 3, "rk4": 4, "dopri5": 5}


@pytest.mark.parametrize(("name", "tail"), TAILS.items())
def test_stability_functions_are_truncated_exponentials(name, tail):
    """Theory 3.2; dopri5 has z^6/600 on top."""
    z = np.linspace(-3, 1, 9) + 1j * np.linspace(-2, 3, 9)
    expected = sum(z**k / math.factorial(k) for k in range(tail + 1)) + (z**6 / 600 if name == "dopri5" else 0)
    assert np.allclose(find_method(name).tableau.stability(z), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ADAPTIVE)
def test_adaptive_tableaux_are_read_right(name):
    """Row sums are the nodes, weights sum to 1, and R(z) = e^z + O(z^(p+1)) with the order that is claimed."""
    method = find_method(name)
    assert [sum(row) for row in method.tableau.a] == pytest.approx(list(method.tableau.c), abs=1e-12)
    assert sum(method.tableau.b) == pytest.approx(1.0, abs=1e-12)
    z = np.array([0.5, 0.25])
    gaps = np.abs(method.tableau.stability(z) - np.exp(z))
    assert np.log2(gaps[0] / gaps[1]) > method.order + 0.5


def test_macaron_is_strang_with_euler_substeps():
    """Theory 6: half a step of F, a step of G, half a step of F; order 1, and 2 only with better sub-steps."""
    made = problems.random_case(3, attention="dot")
    f, x = made.field, made.x
    h = 0.25
    y = x + h / 2 * f.mlp_part(x)
    y = y + h * f.attention_part(y)
    y = y + h / 2 * f.mlp_part(y)
    solved = integrate(f, x, TimeGrid(0.0, h, 1), "strang")
    assert float((solved.x[-1] - y).abs().max()) < 1e-14
    assert [find_method(name).order for name in ("strang", "strang:midpoint", "lie_trotter:rk4")] == [1, 2, 1]


def test_lie_trotter_with_euler_is_a_sequential_block():
    made = problems.random_case(4)
    y = made.x + made.field.attention_part(made.x)
    y = y + made.field.mlp_part(y)
    assert float((integrate(made.field, made.x, TimeGrid(0.0, 1.0, 1), "lie_trotter").x[-1] - y).abs().max()) < 1e-14


@pytest.mark.parametrize(("name", "said"), [
    ("tsit5", "method: unknown 'tsit5' (installed: "),
    ("RK4", "method: unknown 'RK4', did you mean rk4? (installed: "),
    ("radauIIA5", "method: unknown 'radauIIA5' (installed: "),
    ("strnag", "method: unknown 'strnag', did you mean strang? (installed: "),
    ("rk4:euler", "method: unknown 'rk4:euler', did you mean "),
    ("strang:dopri5", "method: 'strang:dopri5' needs a fixed-step sub-step, not 'dopri5'"),
    ("strang:strang", "method: 'strang:strang' needs a fixed-step sub-step, not 'strang'"),
    ("explicit_adams", "method: 'explicit_adams' is not supported (multistep or implicit: no one-step stability function; "),
    ("scipy_solver", "method: 'scipy_solver' is not supported (runs in SciPy and returns no gradient; installed: "),
])  # fmt: skip
def test_names_that_do_not_work_say_which_do(name, said):
    """T24."""
    with pytest.raises(UserError) as error:
        integrate(forced, doubles(0.5), TimeGrid(0.0, 1.0, 2), name)
    message = str(error.value)
    assert message.startswith(said) and "\n" not in message
    if "substep" not in said.replace("-", ""):
        assert all(known in message for known in ("euler", "rk4", "dopri5", "strang"))


def test_the_list_comes_from_the_installed_registry(monkeypatch):
    """T24: a solver that this torchdiffeq lacks is not offered, one that it has and we cannot use is named with the reason."""
    assert set(methods()) | set(unsupported()) == set(SOLVERS) | {"lie_trotter", "strang"}
    assert not set(methods()) & set(unsupported())
    monkeypatch.delitem(SOLVERS, "rk4")
    monkeypatch.delitem(SOLVERS, "dopri8")
    monkeypatch.setitem(SOLVERS, "radauIIA5", object)
    assert "rk4" not in methods() and "dopri8" not in methods() and "radauIIA5" in unsupported()
    for name, said in (("rk4", "unknown 'rk4'"), ("dopri8", "unknown 'dopri8'"), ("radauIIA5", "'radauIIA5' is not supported")):
        with pytest.raises(UserError, match=f"^method: {said}"):
            find_method(name)
