"""Adaptive solves: accurate to their tolerance, restarted at breaks, and honest about why they stop."""

import problems
import pytest
import torch
from test_fixed_steps import MATRICES, Pieces, small
from test_flow import Counting, doubles
from test_solvers import ADAPTIVE, forced, forced_solution

from odevit import NonFiniteError, TimeGrid, integrate

GRID = TimeGrid(0.0, 2.0, 1)


@pytest.mark.parametrize("name", ADAPTIVE)
def test_the_error_follows_the_tolerance(name):
    errors, calls = [], []
    for tolerance in (1e-3, 1e-6):
        solved = integrate(forced, doubles(0.5), TimeGrid(0.0, 1.0, 1), name, rtol=tolerance, atol=tolerance)
        errors.append(abs(float(solved.x[-1]) - forced_solution(1.0)))
        calls.append(solved.nfe)
    assert errors[1] < 1e-5 and errors[0] < 2e-2 and calls[1] >= calls[0]


def test_a_solve_restarts_where_the_field_changes_its_block():
    """Each piece is asked only inside its own interval, and the answer is exact to the tolerance."""
    pieces, x0 = Pieces(*MATRICES), doubles(1.0, -0.6)
    solved = integrate(pieces, x0, TimeGrid(0.0, 3.0, 3), "dopri5", rtol=1e-9, atol=1e-10)
    x = x0
    for k, matrix in enumerate(MATRICES):
        x = torch.linalg.matrix_exp(doubles(*matrix)) @ x
        assert float((solved.x[k + 1] - x).abs().max()) < 1e-7
        assert k - 1e-9 <= min(pieces.seen[k]) and max(pieces.seen[k]) <= k + 1 + 1e-9
    assert solved.nfe == sum(map(len, pieces.seen))
    back = integrate(pieces, solved.x[-1], TimeGrid(3.0, 0.0, 3), "dopri5", rtol=1e-9, atol=1e-10)
    assert float((back.x[-1] - x0).abs().max()) < 1e-6
    blind = Counting(lambda t, y: pieces(float(t), y))  # the same field without its breaks takes many more calls
    assert integrate(blind, x0, TimeGrid(0.0, 3.0, 3), "dopri5", rtol=1e-9, atol=1e-10).nfe > 1.3 * solved.nfe


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_save_times_never_change_the_answer_and_may_be_as_close_as_they_like(dtype):
    """Break times and save times computed apart agree only to rounding; in float32 they collided."""
    f, x0 = problems.rotation(), torch.tensor([1.0, 0.5], dtype=dtype)

    def field(t, x):
        return x @ f.matrix.T.to(dtype)

    end = integrate(field, x0, TimeGrid(0.0, 1.0, 1), "dopri5").x[-1]
    for save in (5, 50, 333, [0.0, 0.5, 0.5 + 2e-9, 1.0], [0.3, 0.4]):
        solved = integrate(field, x0, TimeGrid(0.0, 1.0, 1, save), "dopri5")
        exact = torch.stack([f.solution(t, x0.double()) for t in solved.t.tolist()])
        assert float((solved.x - exact).abs().max()) < 2e-5
        assert solved.t[-1] != 1.0 or torch.equal(solved.x[-1], end)


@torch.no_grad()
def test_save_times_at_the_breaks_are_the_states_at_the_breaks():
    model = small(blocks=7, steps=7).float()
    images = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    seven, fourteen = (model.trajectory(images, model.grid.with_save(n), method="dopri5") for n in (7, 14))
    assert torch.equal(fourteen.x[::2], seven.x) and len(fourteen.x) == 15 and seven.h is None


def test_gradients_pass_through_an_adaptive_solve():
    x0 = doubles(0.5).requires_grad_()
    integrate(forced, x0, TimeGrid(0.0, 1.0, 1), "dopri5", rtol=1e-9, atol=1e-10).x[-1].backward()
    exact = (forced_solution(1.0) / 0.5) ** 2  # d/dx0 of 1 / (1/x0 - sin t)
    assert float(x0.grad) == pytest.approx(exact, rel=1e-6)


@torch.no_grad()
def test_forward_then_backward_on_a_model_returns_the_start_tokens():
    """T11: to 1e-3 with dopri5."""
    model = small().float()
    x0 = model.initial_state(torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)))
    there = model.flow(x0, TimeGrid(0.0, 2.0, 1), method="dopri5").x[-1]
    back = model.flow(there, TimeGrid(2.0, 0.0, 1), method="dopri5").x[-1]
    assert float((there - x0).abs().max()) > 0.1 and float((back - x0).abs().max()) < 1e-3


def failure(solve) -> str:
    """The message of a solve that cannot go on: one line."""
    with pytest.raises(NonFiniteError) as error:
        solve()
    message = str(error.value)
    assert "\n" not in message and message.startswith("dopri5 stopped at t = ") and "evaluations: " in message
    return message


@torch.no_grad()
def test_nan_weights_blow_up_and_nan_input_are_told_apart():
    """T03: 'underflow in dt 0.0' hid all three."""
    images = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    model = small().float()
    assert "the start state is not finite" in failure(lambda: model.trajectory(images * torch.nan, method="dopri5"))
    model.field.blocks[0].mlp.fc1.weight.mul_(1e4)
    message = failure(lambda: model.trajectory(images, method="dopri5"))
    assert "the field is too large, stiff or rough (|dx/dt| " in message and "NaN" not in message
    model.field.blocks[0].mlp.fc1.weight[0, 0] = torch.nan
    message = failure(lambda: model.trajectory(images, method="dopri5"))
    assert message.endswith("the field's weights hold NaN or infinite values")


def test_blow_up_in_finite_time_says_when():
    """x' = x^2 from 1 is infinite at t = 1."""
    message = failure(lambda: integrate(lambda t, x: x * x, doubles(1.0), TimeGrid(0.0, 2.0, 1), "dopri5"))
    assert message.startswith("dopri5 stopped at t = 1 after") and "the state blows up (from 1 to " in message


def test_a_field_that_is_not_finite_is_named():
    message = failure(lambda: integrate(lambda t, x: (x[1], x[0] / 0), (doubles(1.0), doubles(2.0)), GRID, "dopri5"))
    assert message.endswith("the field is not finite at the start state")


def test_a_hopeless_solve_is_given_up_early():
    """A stiff field that would take 10^5 calls is not called a blow-up, and stops after a few hundred."""
    counting = Counting(problems.linear([[-1e5]]))
    message = failure(lambda: integrate(counting, doubles(1.0), TimeGrid(0.0, 20.0, 1), "dopri5"))
    assert counting.calls < 1000
    assert "more than 20000 are needed; the field is too large, stiff or rough (|dx/dt| " in message
