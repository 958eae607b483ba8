"""Splittings of F + G: orders, leading local errors and the commutator, against exact flows."""

import numpy as np
import problems
import pytest
import torch

from analysis.discretization import local_error_terms, observed_order, splitting_error
from odevit import TimeGrid, UserError, integrate


class Split:
    """F + G of a random linear pair, or of two nonlinear fields; parts are called as (x, t)."""

    def __init__(self, mlp, attention):
        self.mlp, self.attention = mlp, attention

    def __call__(self, t, x):
        return self.mlp(x) + self.attention(x)

    def mlp_part(self, x, t=0.0):
        return self.mlp(x)

    def attention_part(self, x, t=0.0):
        return self.attention(x)


def matrices(n: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, n, n, dtype=torch.float64, generator=generator) / n**0.5
    return a, b


def linear_pair(a: torch.Tensor, b: torch.Tensor) -> Split:
    return Split(lambda x: x @ a.T, lambda x: x @ b.T)


def nonlinear_pair() -> tuple[Split, torch.Tensor]:
    a, b = matrices()
    f = Split(lambda x: torch.tanh(x @ a.T), lambda x: torch.sin(x @ b.T + 0.3))
    return f, torch.linspace(-1, 1, 4, dtype=torch.float64)


def our_field() -> tuple:
    made = problems.random_case(11, tokens=4, dim=8, scale=0.8)
    return made.field, made.x


ORDERS = [("euler", 1), ("lie_trotter", 1), ("lie_trotter:rk4", 1), ("strang", 1), ("strang:midpoint", 2), ("strang:rk4", 2)]


@pytest.mark.parametrize(("method", "order"), [*ORDERS, ("midpoint", 2), ("rk4", 4)])
@pytest.mark.parametrize("problem", [nonlinear_pair, our_field])
def test_orders(problem, method, order):
    """Macaron, Strang with Euler sub-steps, is of order 1: the commutator is gone, the error of the sub-flows is not."""
    f, x0 = problem()
    found = observed_order(f, x0, TimeGrid(0.0, 1.0, 24), method)
    assert found.expected == order and abs(found.observed - order) < 0.12


@pytest.mark.parametrize("method", ["lie_trotter:rk4", "strang:rk4"])
def test_commuting_parts_split_exactly(method):
    a, _ = matrices()
    f = linear_pair(a, 0.3 * a @ a + a)
    x0 = torch.linspace(-1, 1, 4, dtype=torch.float64)
    split = integrate(f, x0, TimeGrid(0.0, 1.0, 64, save=1), method).x[-1]
    exact = torch.linalg.matrix_exp(2 * a + 0.3 * a @ a) @ x0
    assert float((split - exact).norm()) < 1e-8
    assert splitting_error(f, x0).commutator < 1e-14


@pytest.mark.parametrize("problem", [nonlinear_pair, our_field])
@pytest.mark.parametrize(
    ("method", "term"),
    [("euler", "euler"), ("lie_trotter:rk4", "lie_trotter_exact"), ("lie_trotter", "lie_trotter"), ("strang", "strang")],
)
def test_leading_local_errors(problem, method, term):
    """One step minus the exact flow is h^2 times the term, up to O(h): the miss halves with h."""
    f, x0 = problem()
    predicted = local_error_terms(f, x0)[term]
    misses = []
    for h in (0.02, 0.01):
        grid = TimeGrid(0.0, h, 1)
        step = integrate(f, x0, grid, method).x[-1]
        exact = integrate(f, x0, TimeGrid(0.0, h, 16, save=1), "rk4").x[-1]
        misses.append(float(((step - exact) / h**2 - predicted).norm() / predicted.norm()))
    assert misses[1] < 0.05 and 0.4 < misses[1] / misses[0] < 0.6


def test_sequential_minus_parallel_layer_is_the_gap():
    f, x0 = our_field()
    gap = local_error_terms(f, x0)["gap"]
    misses = []
    for h in (0.02, 0.01):
        sequential, parallel = (integrate(f, x0, TimeGrid(0.0, h, 1), m).x[-1] for m in ("lie_trotter", "euler"))
        misses.append(float(((sequential - parallel) / h**2 - gap).norm() / gap.norm()))
    assert misses[1] < 0.05 and 0.4 < misses[1] / misses[0] < 0.6


def test_strang_of_a_linear_pair_has_the_known_third_order_term():
    """log of one step = h(A+B) - h^3 ([A,[A,B]]/24 + [B,[A,B]]/12) + O(h^5), with A the part that acts twice."""
    a, b = matrices()
    f, h = linear_pair(a, b), 0.05
    columns = integrate(f, torch.eye(4, dtype=torch.float64), TimeGrid(0.0, h, 1), "strang:rk4").x[-1].T
    exact = torch.linalg.matrix_exp(h * (a + b))

    def bracket(p, q):
        return p @ q - q @ p

    term = -(bracket(a, bracket(a, b)) / 24 + bracket(b, bracket(a, b)) / 12)
    assert float(((columns - exact) / h**3 - term).norm() / term.norm()) < 0.1


def test_report_of_a_linear_pair_is_the_matrix_commutator():
    a, b = matrices()
    x = torch.linspace(-1, 1, 4, dtype=torch.float64)
    found = splitting_error(linear_pair(a, b), x, h=0.5)
    commutator, total = float(((a @ b - b @ a) @ x).norm()), float(((a + b) @ (a + b) @ x).norm())
    assert found.commutator == pytest.approx(commutator) and found.total == pytest.approx(total)
    assert found.ratio == pytest.approx(commutator / total)
    assert found.architecture_gap == pytest.approx(float((a @ b @ x).norm()))
    assert found.terms["lie_trotter_exact"] == pytest.approx(commutator / 2)
    assert found.relative["euler"] == pytest.approx(0.5 * total / 2 / float(((a + b) @ x).norm()))


def test_samples_and_blocks():
    made = problems.random_case(2, tokens=3, dim=4, blocks=2, horizon=2.0)
    x = torch.randn(3, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    together = splitting_error(made.field, x, 1.5, batch_dims=1)
    for i in range(3):
        alone = splitting_error(made.field.piece(1.5), x[i : i + 1], 1.5)
        assert together.ratio[i] == pytest.approx(alone.ratio)
        assert together.terms["strang"][i] == pytest.approx(alone.terms["strang"])
    assert not np.allclose(splitting_error(made.field, x, 0.5, batch_dims=1).ratio, together.ratio)
    waves = problems.random_case(2, tokens=3, dim=4, time_frequencies=1)
    assert "frozen" in splitting_error(waves.field, waves.x).notes[0]


def test_a_field_without_parts_is_refused():
    with pytest.raises(UserError, match="nothing to split"):
        splitting_error(problems.lorenz, torch.ones(3, dtype=torch.float64))


def test_still_states_have_no_ratio():
    f = Split(lambda x: 0 * x, lambda x: 0 * x)
    found = splitting_error(f, torch.ones(3, dtype=torch.float64))
    assert np.isnan(found.ratio) and found.commutator == 0.0
