"""integrate: the flow map as a whole. It composes, returns, counts, differentiates, and refuses what it cannot do."""

import problems
import pytest
import torch

from odevit import TimeGrid, UserError, integrate, methods

FIXED = [name for name, method in methods().items() if method.kind == "fixed"]


class Counting:
    """A field that counts its calls, apart from the solver's own count."""

    def __init__(self, f):
        self.f, self.calls = f, 0
        self.parts = {"attention_part": 0, "mlp_part": 0}

    def __call__(self, t, x):
        self.calls += 1
        return self.f(t, x)

    def attention_part(self, x, t=0.0):
        self.parts["attention_part"] += 1
        return self.f.attention_part(x, t)

    def mlp_part(self, x, t=0.0):
        self.parts["mlp_part"] += 1
        return self.f.mlp_part(x, t)


def doubles(*values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("name", [*FIXED, "strang", "lie_trotter:midpoint"])
def test_two_flows_on_a_shared_grid_compose_bitwise(name):
    made = problems.random_case(1, time_frequencies=1, horizon=2.0)
    whole = integrate(made.field, made.x, TimeGrid(0.0, 2.0, 8), name)
    first = integrate(made.field, made.x, TimeGrid(0.0, 0.75, 3), name)
    second = integrate(made.field, first.x[-1], TimeGrid(0.75, 2.0, 5), name)
    assert torch.equal(whole.x, torch.cat([first.x, second.x[1:]]))


@pytest.mark.parametrize(("name", "tolerance"), [("rk4", 1e-6), ("dopri5", 1e-5)])
def test_reverse_integration_returns_to_the_start(name, tolerance):
    """T11: forward, then backward from the end."""
    made = problems.random_case(2, scale=0.7, time_frequencies=1)
    there = integrate(made.field, made.x, TimeGrid(0.0, 1.0, 64), name)
    back = integrate(made.field, there.x[-1], TimeGrid(1.0, 0.0, 64), name)
    assert float((there.x[-1] - made.x).abs().max()) > 0.1  # it had gone somewhere
    assert float((back.x[-1] - made.x).abs().max()) < tolerance
    assert back.t.tolist() == there.t.flip(0).tolist()


def test_backward_euler_in_time_is_explicit_euler_with_a_negative_step():
    """T11: time is not reversed twice, and reverse is not a silent no-op."""
    solved = integrate(problems.linear([[2.0]]), doubles(1.0), TimeGrid(1.0, 0.0, 2), "euler")
    assert solved.x.flatten().tolist() == [1.0, 0.0, 0.0] and solved.h == -0.5


@pytest.mark.parametrize("name", sorted(set(methods()) - {"strang", "lie_trotter"}))
def test_nfe_is_the_number_of_calls(name):
    counting = Counting(problems.rotation())
    solved = integrate(counting, doubles(1.0, 0.0), TimeGrid(0.0, 1.0, 5), name, rtol=1e-4, atol=1e-5)
    assert solved.nfe == counting.calls > 0


def test_nfe_of_fixed_methods_is_stages_times_steps():
    stages = {name: integrate(problems.identity, doubles(1.0), TimeGrid(0.0, 1.0, 7), name).nfe / 7 for name in FIXED}
    assert stages == {"euler": 1, "midpoint": 2, "heun2": 2, "heun3": 3, "rk4": 4}


@pytest.mark.parametrize(("name", "attention", "mlp"), [("lie_trotter", 1, 1), ("strang", 1, 2), ("strang:midpoint", 2, 4)])
def test_nfe_of_a_splitting_counts_the_part_that_is_called_more_often(name, attention, mlp):
    made = problems.random_case(5)
    counting = Counting(made.field)
    solved = integrate(counting, made.x, TimeGrid(0.0, 1.0, 3), name)
    assert counting.parts == {"attention_part": 3 * attention, "mlp_part": 3 * mlp} and counting.calls == 0
    assert solved.nfe == 3 * max(attention, mlp)


@pytest.mark.parametrize("name", FIXED)
def test_differentiating_the_solve_is_solving_the_variational_equation(name):
    """Theory 1.3, exact for every Runge-Kutta method: tangents ride along as a tuple state."""
    made = problems.random_case(6, tokens=3, dim=4)
    f, x0, grid = made.field, made.x, TimeGrid(0.0, 1.0, 4, 1)
    v0 = torch.randn(x0.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    through = torch.func.jvp(lambda x: integrate(f, x, grid, name).x[-1], (x0,), (v0,))[1]

    def pair(t, state):
        return torch.func.jvp(lambda y: f(t, y), (state[0],), (state[1],))

    x, v = integrate(pair, (x0, v0), grid, name).x
    assert x.shape == v.shape == (2, *x0.shape)
    assert float((v[-1] - through).abs().max()) < 1e-13 * float(through.abs().max()) * 10


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["euler", "dopri5"])
def test_a_half_precision_state_is_refused(dtype, name):
    """T04: bf16 dopri5 returned .996 instead of .368."""
    for state in (torch.ones(2, dtype=dtype), (torch.ones(2), torch.ones(2, dtype=dtype))):
        with pytest.raises(UserError, match=rf"^state: {dtype} is too coarse for a solver; keep the state in "):
            integrate(lambda t, x: x, state, TimeGrid(0.0, 1.0, 2), name)


@pytest.mark.parametrize(("name", "segments"), [("dopri5", 2), ("euler", -1)])
def test_segments_that_cannot_be_are_refused(name, segments):
    with pytest.raises(UserError, match=rf"^segments: {segments} with {name}; needs 0 or more"):
        integrate(problems.identity, doubles(1.0), TimeGrid(0.0, 1.0, 2), name, segments=segments)


def test_a_splitting_needs_two_parts():
    with pytest.raises(UserError, match="^method: 'strang' splits F \\+ G, but this field has no attention_part and mlp_part$"):
        integrate(problems.identity, doubles(1.0), TimeGrid(0.0, 1.0, 2), "strang")


def test_the_state_may_have_any_shape_and_float32_stays_float32():
    for shape in ((), (3,), (2, 3, 4)):
        for name in ("euler", "dopri5"):
            solved = integrate(problems.identity, torch.ones(shape), TimeGrid(0.0, 1.0, 2), name)
            assert solved.x.shape == (3, *shape) and solved.x.dtype == torch.float32 and solved.t.dtype == torch.float64
