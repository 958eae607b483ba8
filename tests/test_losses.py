"""Loss terms against closed forms and direct evaluation, with gradients that reach the weights."""

import math

import problems
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_fixed_steps import small

from odevit import TimeGrid, UserError, integrate, losses

few = settings(max_examples=25, deadline=None, derandomize=True)
EXAMPLE = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)


def maps(*rows) -> torch.Tensor:
    """Attention maps (1, 1, 1, N, N) whose rows are given, the others uniform."""
    n = len(rows[0])
    filled = [torch.as_tensor(r, dtype=torch.float64) for r in rows] + [torch.full((n,), 1 / n).double()] * (n - len(rows))
    return torch.stack(filled)[None, None, None]


def lambda_1(p: torch.Tensor) -> float:
    """Norm of the softmax's Jacobian diag(p) - p p^T."""
    return float(torch.linalg.matrix_norm(torch.diag(p) - p.outer(p), 2))


def test_jasmin_of_a_row_in_closed_form():
    """p = (.5, .3, .15, .05): g_1 = .4, g_2 = .255, g_3 = .135, g_4 = .0475; the Jacobian's norm is .3846262."""
    g = [0.4, 0.3 * 0.85, 0.15 * 0.9, 0.05 * 0.95]
    rows = EXAMPLE.expand(1, 1, 1, 4, 4)
    assert float(losses.jasmin(rows)) == pytest.approx(math.log(0.4), abs=1e-12)
    for k in (1, 2, 3, 4):
        assert float(losses.jasmin(rows, k)) == pytest.approx(math.log(0.4 / g[k - 1]), abs=1e-12)
    assert lambda_1(EXAMPLE) == pytest.approx(0.3846262, abs=1e-7)
    shuffled = rows[..., torch.tensor([2, 0, 3, 1])]
    assert float(losses.jasmin(shuffled, 2)) == pytest.approx(float(losses.jasmin(rows, 2)), abs=1e-14)


@pytest.mark.parametrize(("row", "g1"), [
    ([0.25] * 4, 0.25), ([0.7, 0.3, 0.0, 0.0], 0.42), ([0.5, 0.5, 0.0, 0.0], 0.5), ([0.4, 0.2, 0.2, 0.2], 0.32),
])  # fmt: skip
def test_the_bound_is_the_norm_where_the_rest_of_the_row_is_flat(row, g1):
    """Theory 2.1."""
    p = torch.tensor(row, dtype=torch.float64)
    assert math.exp(float(losses.jasmin(p.expand(1, 1, 1, 4, 4)))) == pytest.approx(g1, abs=1e-12)
    assert lambda_1(p) == pytest.approx(g1, abs=1e-12)


@given(st.integers(0, 10_000), st.integers(2, 9), st.floats(0.1, 8))
@few
def test_the_softmax_reacts_at_most_by_g1_and_at_most_by_half(seed, n, scale):
    p = (scale * torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)).softmax(0)
    g1 = math.exp(float(losses.jasmin(p.expand(1, 1, 1, n, n))))
    assert lambda_1(p) <= g1 * (1 + 1e-12) and g1 <= 0.5 + 1e-12


def test_k_1_is_identically_zero():
    p = torch.randn(3, 2, 2, 5, 5, dtype=torch.float64).softmax(-1)
    assert float(losses.jasmin(p, 1).abs()) == 0


def test_maximum_over_queries_and_mean_over_everything_else():
    """Not the sum over the batch (defect 5)."""
    flat, sharp = maps([0.25] * 4), maps(EXAMPLE)
    assert float(losses.jasmin(sharp)) == pytest.approx(math.log(0.4), abs=1e-12)  # the other three rows have g_1 = 1/4
    for axis in (0, 1, 2):
        both = torch.cat([flat, sharp], axis)
        assert float(losses.jasmin(both)) == pytest.approx((math.log(0.25) + math.log(0.4)) / 2, abs=1e-12)
        assert float(losses.jasmin(torch.cat([both, both], axis))) == pytest.approx(float(losses.jasmin(both)), abs=1e-12)


@pytest.mark.parametrize("k", [0, 2, 4])
@pytest.mark.parametrize("logits", [[80.0, 0, 0, 0], [500.0, 0, 0, 0], [0.0, 0, -500, -500], [40.0, 20, 0, -20]])
def test_one_hot_rows_give_finite_values_and_gradients(k, logits):
    for dtype in (torch.float32, torch.float64):
        z = torch.tensor(logits, dtype=dtype).expand(1, 1, 1, 4, 4).clone().requires_grad_()
        value = losses.jasmin(z.softmax(-1), k)
        value.backward()
        assert bool(torch.isfinite(value)) and bool(torch.isfinite(z.grad).all())


@pytest.mark.parametrize("k", [-1, 5])
def test_k_beyond_the_tokens_is_refused(k):
    with pytest.raises(UserError, match=rf"^jasmin: k = {k} is not between 0 and 4 tokens$"):
        losses.jasmin(maps(EXAMPLE), k)


@pytest.mark.parametrize("k", [0, 2])
def test_jasmin_moves_queries_and_keys(k):
    """Defect 1: the published code read detached maps."""
    model = small()
    field = model.field
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    solved = model.trajectory(x)
    attention = torch.stack([field.attention(t, s) for t, s in zip(solved.t.tolist(), solved.x.unbind())])
    losses.jasmin(attention, k).backward()
    block = field.blocks[0].attn
    for layer in (block.q, block.k, block.v, model.tokenizer.stem):  # v and the stem through the states
        assert float(layer.weight.grad.abs().max()) > 1e-8
    with torch.no_grad():  # a step against the gradient lowers it
        before = float(losses.jasmin(attention, k))
        for weight in field.parameters():
            weight -= 1e-3 * weight.grad / (weight.grad.norm() + 1e-30)
        states = model.trajectory(x).x
        assert float(losses.jasmin(torch.stack([field.attention(0.0, s) for s in states]), k)) < before


def test_curvature_of_euler_is_made_of_the_velocities_themselves():
    """R = sum_k mean over tokens of |f(x_{k+1}) - f(x_k)|^2, without an evaluation."""
    made = problems.random_case(3, tokens=5, dim=6)
    f, x0 = made.field, torch.cat([made.x, -0.5 * made.x, made.x.flip(1) * 2])
    solved = integrate(f, x0, TimeGrid(0.0, 2.0, 5), "euler")
    velocities = [f(0.0, x) for x in solved.x[:-1]]
    expected = sum((b - a).square().sum(-1).mean() for a, b in zip(velocities, velocities[1:]))
    assert float(losses.curvature(solved)) == pytest.approx(float(expected), rel=1e-11)
    assert solved.nfe == 5
    doubled = integrate(f, torch.cat([x0, x0]), TimeGrid(0.0, 2.0, 5), "euler")
    assert float(losses.curvature(doubled)) == pytest.approx(float(expected), rel=1e-11)  # a mean, whatever the batch


@pytest.mark.parametrize("method", ["euler", "midpoint", "rk4"])
def test_curvature_tends_to_h_times_the_integral_of_the_acceleration(method):
    """On the circle x'' = -x, so the integral of |x''|^2 over [0, T] is T; R / (h T) -> 1 at first order (n - 1 terms of n)."""
    x0 = torch.tensor([[[1.0, 0.0]]], dtype=torch.float64)
    gaps = []
    for n in (50, 100, 200):
        solved = integrate(problems.circle, x0, TimeGrid(0.0, 2.0, n), method)
        gaps.append(abs(float(losses.curvature(solved)) / (solved.h * 2.0) - 1))
    assert gaps[0] < 0.05 and gaps[2] < gaps[1] / 1.7 < gaps[0] / 2.8


def test_curvature_of_a_constant_velocity_is_zero():
    solved = integrate(lambda t, x: 0 * x + 2.0, torch.zeros(1, 2, 3, dtype=torch.float64), TimeGrid(0.0, 1.0, 4))
    assert float(losses.curvature(solved)) == 0


def test_curvature_reaches_every_weight_of_the_field():
    model = small()
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    losses.curvature(model.trajectory(x)).backward()
    assert all(float(p.grad.abs().max()) > 1e-10 for p in model.field.parameters())


NO_CURVATURE = [(None, 6, "dopri5"), (3, 6, "euler"), (12, 6, "euler"), (None, 1, "euler")]


@pytest.mark.parametrize(("save", "steps", "method"), NO_CURVATURE)
def test_curvature_needs_every_step(save, steps, method):
    """Adaptive, every other step, interpolated states, one step: each would give a number that is not R."""
    solved = integrate(problems.circle, torch.ones(1, 1, 2).double(), TimeGrid(0.0, 1.0, steps, save), method)
    with pytest.raises(UserError, match="^curvature: needs a fixed-step trajectory with every step saved "):
        losses.curvature(solved)


def test_curvature_refuses_times_that_lie_between_steps():
    shifted = TimeGrid(0.0, 1.0, 4, save=[0.125, 0.375, 0.625, 0.875])
    with pytest.raises(UserError, match="^curvature: needs"):
        losses.curvature(integrate(problems.circle, torch.ones(1, 1, 2).double(), shifted))


def test_cross_entropy_is_in_nats_and_smoothing_mixes_with_uniform():
    logits = torch.tensor([[2.0, 0.0, -1.0], [0.5, 0.5, 0.0]], dtype=torch.float64)
    logs, labels = logits.log_softmax(1), torch.tensor([0, 2])
    plain = -(logs[0, 0] + logs[1, 2]) / 2
    assert float(losses.cross_entropy(logits, labels)) == pytest.approx(float(plain), abs=1e-14)
    smooth = 0.9 * plain - 0.1 * logs.mean()
    assert float(losses.cross_entropy(logits, labels, 0.1)) == pytest.approx(float(smooth), abs=1e-14)
    mixed = torch.tensor([[0.3, 0.7, 0.0], [0.0, 0.5, 0.5]], dtype=torch.float64)
    assert float(losses.cross_entropy(logits, mixed)) == pytest.approx(float(-(mixed * logs).sum(1).mean()), abs=1e-14)
