"""Fixed-step solves: save times never change the answer, blocks change at their breaks, checkpointing changes nothing."""

import numpy as np
import problems
import pytest
import torch
from test_flow import Counting, doubles
from test_solvers import forced, forced_solution, slope

from odevit import ODEViT, ODEViTConfig, SolverConfig, TimeGrid, UserError, integrate
from odevit.flow import find_method


class Pieces:
    """x' = A_i x for t in [i, i + 1): a field that is smooth only piece by piece, with an exact answer for every method."""

    def __init__(self, *matrices):
        self.fields = [problems.linear(m) for m in matrices]
        self.breaks = tuple(float(i) for i in range(1, len(matrices)))
        self.seen: list[list[float]] = [[] for _ in matrices]

    def piece(self, t):
        index = min(max(int(t // 1), 0), len(self.fields) - 1)

        def inside(s, x):
            self.seen[index].append(float(s))
            return self.fields[index](s, x)

        return inside

    def __call__(self, t, x):
        return self.piece(t)(t, x)


MATRICES = ([[0.0, 2.0], [-1.0, 0.3]], [[-1.0, 0.4], [0.5, 0.1]], [[0.2, 0.0], [1.0, -0.7]])


def amplification(name: str, h: float, matrix) -> torch.Tensor:
    """R(hA) through the eigenvalues of A."""
    values, vectors = np.linalg.eig(np.asarray(matrix))
    factor = find_method(name).tableau.stability(h * values.astype(complex))
    return torch.from_numpy((vectors @ np.diag(factor) @ np.linalg.inv(vectors)).real)


@pytest.mark.parametrize("name", ["euler", "midpoint", "heun3", "rk4"])
@pytest.mark.parametrize("direction", [1, -1])
def test_a_stage_at_a_break_uses_the_block_of_its_own_step(name, direction):
    h, x0 = direction * 0.5, doubles(1.0, -0.6)
    ends = (0.0, 3.0) if direction > 0 else (3.0, 0.0)
    expected = x0
    for matrix in MATRICES[::direction]:
        power = torch.linalg.matrix_power(amplification(name, h, matrix), 2)
        expected = power @ expected
    solved = integrate(Pieces(*MATRICES), x0, TimeGrid(*ends, 6, 1), name)
    assert float((solved.x[-1] - expected).abs().max()) < 1e-13


def test_order_is_kept_across_breaks_and_in_between():
    x0, steps = doubles(1.0, -0.6), [12, 24, 48]
    exact = x0
    for matrix in MATRICES:
        exact = torch.linalg.matrix_exp(doubles(*matrix)) @ exact
    errors = [float((integrate(Pieces(*MATRICES), x0, TimeGrid(0.0, 3.0, n, 1), "rk4").x[-1] - exact).norm()) for n in steps]
    assert slope(errors, steps) == pytest.approx(4, abs=0.2)


def test_steps_must_end_where_the_field_changes_its_block():
    with pytest.raises(UserError, match="^steps: with 4 steps no step ends at t = 1, where the field changes its block$"):
        integrate(Pieces(*MATRICES), doubles(1.0, 0.0), TimeGrid(0.0, 3.0, 4), "euler")
    solved = integrate(Pieces(*MATRICES), doubles(1.0, 0.0), TimeGrid(0.0, 1.0, 4), "euler")  # ends before the break
    assert solved.nfe == 4


def small(blocks: int = 1, steps: int = 6, **config) -> ODEViT:
    torch.manual_seed(0)
    config = {"img_size": 8, "embed_dim": 8, "num_heads": 2, "registers": 1} | config
    return ODEViT(ODEViTConfig(**config, blocks=blocks), SolverConfig(steps=steps)).double().eval()


@torch.no_grad()
@pytest.mark.parametrize(("blocks", "method"), [(1, "euler"), (3, "rk4"), (1, "strang")])
def test_save_times_never_change_the_answer(blocks, method):
    """T09: 5, 50 and 333 saved times, which do not divide the steps."""
    model = small(blocks)
    images = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    solved = {k: model.trajectory(images, model.grid.with_save(k), method=method) for k in (None, 1, 5, 50, 333)}
    logits = {k: model.readout(s.x[-1]) for k, s in solved.items()}
    assert all(torch.equal(logits[k], logits[None]) for k in solved)
    for a in solved.values():
        for b in solved.values():
            shared = [(i, j) for i, s in enumerate(a.t.tolist()) for j, u in enumerate(b.t.tolist()) if abs(s - u) < 1e-9]
            assert len(shared) >= 2 and all(float((a.x[i] - b.x[j]).abs().max()) <= 1e-12 for i, j in shared)
    assert torch.equal(model(images), model.readout(model.trajectory(images).x[-1]))


def test_interpolated_states_are_marked_and_cost_two_calls_a_step():
    counting = Counting(forced)
    solved = integrate(counting, doubles(0.5), TimeGrid(0.0, 1.0, 4, save=6), "euler")
    assert solved.interpolated.tolist() == [False, True, True, False, True, True, False]
    assert solved.nfe == counting.calls == 4 + 2 * 4
    assert integrate(forced, doubles(0.5), TimeGrid(0.0, 1.0, 4, save=2), "euler").interpolated is None
    dense = integrate(counting, doubles(0.5), TimeGrid(0.0, 1.0, 4, save=333), "euler")
    assert dense.nfe == 12


def test_every_step_is_taken_wherever_the_last_saved_time_lies():
    counting = Counting(forced)
    solved = integrate(counting, doubles(0.5), TimeGrid(0.0, 1.0, 8, save=[0.25, 0.5]), "rk4")
    assert solved.nfe == counting.calls == 32 and len(solved.x) == 2


def test_interpolation_is_exact_for_cubics():
    def field(t, x):
        return (3 * t * t - 4 * t + 1) + 0 * x

    solved = integrate(field, doubles(0.7), TimeGrid(0.0, 2.0, 3, save=[0.0, 0.1, 0.9, 1.5, 2.0]), "rk4")
    exact = [t**3 - 2 * t**2 + t + 0.7 for t in solved.t.tolist()]
    assert solved.x.flatten().tolist() == pytest.approx(exact, abs=1e-14)


def test_interpolation_is_of_order_four():
    steps = [8, 16, 32]
    errors = []
    for n in steps:
        solved = integrate(forced, doubles(0.5), TimeGrid(0.0, 1.0, n, save=2 * n), "rk4")
        errors.append(max(abs(float(x) - forced_solution(t)) for t, x in zip(solved.t.tolist(), solved.x)))
    assert slope(errors, steps) == pytest.approx(4, abs=0.25)


def test_interpolation_inside_a_step_uses_the_block_of_the_step():
    x0 = doubles(1.0, -0.6)
    inner = integrate(Pieces(*MATRICES), x0, TimeGrid(0.0, 3.0, 48, save=[0.0, 0.97, 1.03, 3.0]), "rk4")
    exact = torch.linalg.matrix_exp(0.97 * doubles(*MATRICES[0])) @ x0
    assert float((inner.x[1] - exact).abs().max()) < 1e-5


@pytest.mark.parametrize("segments", [1, 2, 4, 9])
@pytest.mark.parametrize(("blocks", "method"), [(1, "euler"), (3, "rk4"), (1, "lie_trotter")])
def test_segments_change_neither_values_nor_gradients(segments, blocks, method):
    model = small(blocks)
    images = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def run(n):
        model.zero_grad()
        solved = model.trajectory(images, model.grid, method=method, segments=n)
        (model.readout(solved.x[-1]).square().sum() + solved.x.diff(dim=0).square().sum()).backward()
        return solved.x.detach(), [p.grad.clone() for p in model.parameters()]

    (x, gradients), (y, others) = run(0), run(segments)
    assert torch.equal(x, y)
    assert all(torch.allclose(a, b, rtol=1e-12, atol=1e-14) for a, b in zip(gradients, others))


def test_segments_evaluate_once_more_and_keep_one_state_each():
    """Activation checkpointing: memory grows by one state a segment, time by one forward pass."""
    made = problems.random_case(7, tokens=6, dim=8)
    kept = {}
    for segments in (0, 3):
        times: list[float] = []
        counting, held = Counting(lambda t, x, times=times: times.append(round(float(t) * 12)) or made.field(t, x)), []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, held=held: held.append(t.numel()) or t, lambda t: t):
            solved = integrate(counting, made.x.clone().requires_grad_(), TimeGrid(0.0, 1.0, 12, 1), "euler", segments=segments)
        assert solved.nfe == counting.calls == 12
        solved.x[-1].sum().backward()
        assert times == list(range(12)) + ([8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3] if segments else [])
        kept[segments] = sum(held)
    assert kept[3] <= 4 * made.x.numel() < kept[0] / 10
