"""Jacobians, their transposes, flows and second derivatives against central differences, forward mode and dense twins."""

import numpy as np
import pytest
import torch
from problems import lorenz, nan_field, random_case, transient, zero
from torch.func import jacfwd

from analysis.operators import as_float64, flow_jacobian, jacobian, linearize, provenance, second_derivative, tangent_flow
from analysis.references import dense_flow_jacobian, dense_jacobian
from odevit.errors import NonFiniteError, UserError
from odevit.flow import integrate
from odevit.trajectory import TimeGrid

X2 = torch.tensor([0.3, -1.2], dtype=torch.float64)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("attention", ["dot", "l2", "cosine"])
def test_products_agree_with_forward_mode(seed, attention):
    case = random_case(seed, attention=attention, time_frequencies=1, horizon=2.0)
    matrix = dense_jacobian(case.field, case.x, 0.7)
    operator = jacobian(case.field, case.x, 0.7)
    scale = np.abs(matrix).max()
    assert np.abs(operator.dense().numpy() - matrix).max() <= 1e-12 * scale
    u = torch.randn(3, *case.x.shape, dtype=torch.float64)
    back = u.flatten(1).numpy() @ matrix
    assert np.abs(operator.rmatvec(u).flatten(1).numpy() - back).max() <= 1e-11 * scale
    mixed = u.flatten(1).numpy() @ (matrix + matrix.T) / 2
    assert np.abs(operator.symmetric(u).flatten(1).numpy() - mixed).max() <= 1e-11 * scale
    assert operator.products == operator.n + 3 + 6


def test_products_agree_with_central_differences():
    case = random_case(3)
    v, e = torch.randn_like(case.x), 1e-5
    difference = (case.field(0.0, case.x + e * v) - case.field(0.0, case.x - e * v)) / (2 * e)
    assert torch.allclose(jacobian(case.field, case.x).matvec(v), difference, atol=1e-8 * float(difference.norm()))


def test_fused_attention_is_differentiated():
    """T01: a float32 field that was trained with the fused kernel, as it comes."""
    exact = random_case(1)
    field = random_case(1).field.to(torch.float32).train().requires_grad_(True)
    for block in field.blocks:
        block.attn.fused = True
    double = as_float64(field)
    expected = jacfwd(lambda y: double(0.0, y))(exact.x).reshape(exact.x.numel(), -1)
    assert torch.allclose(jacobian(field, exact.x.float()).dense(), expected, atol=1e-5)
    assert field.blocks[0].attn.fused, "the model itself is left alone"

    def sdpa(t, x):
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)

    x = torch.randn(1, 2, 5, 4, dtype=torch.float64)
    twin = jacfwd(lambda y: (y @ y.transpose(-1, -2) / 2).softmax(-1) @ y)(x).reshape(40, 40)
    assert torch.allclose(jacobian(sdpa, x).dense(), twin, atol=1e-12)


def test_samples_do_not_mix_and_are_done_in_one_pass():
    case = random_case(5)
    x = torch.cat([case.x, 0.5 * case.x + 1.0, case.x.flip(1)])
    operator = jacobian(case.field, x, batch_dims=1)
    dense = operator.dense()
    assert operator.products == operator.n == case.x.numel()
    for b in range(3):
        assert torch.allclose(dense[b], jacobian(case.field, x[b : b + 1]).dense(), atol=1e-12)


def test_field_without_a_path_from_the_state_has_jacobian_zero():
    assert not jacobian(zero, X2).dense().any()
    assert not jacobian(lambda t, x: torch.sign(x), X2).dense().any()


@pytest.mark.parametrize("method", ["euler", "midpoint", "heun3", "rk4"])
def test_differentiating_a_solver_is_solving_the_augmented_system(method):
    """The derivative of a Runge-Kutta solve is the same method applied to (x, Phi), to rounding."""
    case, grid = random_case(2, scale=0.6, blocks=2, horizon=1.0), TimeGrid(0.0, 1.0, 4)
    twin = dense_flow_jacobian(case.field, case.x, grid, method)
    operator = flow_jacobian(case.field, case.x, grid, method)
    scale = np.abs(twin).max()
    assert np.abs(operator.dense().numpy() - twin).max() <= 1e-13 * scale * len(twin)
    eye = torch.eye(operator.n, dtype=torch.float64).reshape(-1, *case.x.shape)
    assert np.abs(operator.rmatvec(eye).flatten(1).numpy() - twin).max() <= 1e-13 * scale * len(twin)
    end, tangents = tangent_flow(case.field, case.x, eye, grid, method)
    assert np.abs(tangents.flatten(1).T.numpy() - twin).max() <= 1e-13 * scale * len(twin)
    assert torch.equal(end, integrate(case.field, case.x, grid, method).x[-1])


@pytest.mark.parametrize("method", ["strang:midpoint", "lie_trotter"])
def test_tangents_go_through_splittings(method):
    case, grid = random_case(4, scale=0.5), TimeGrid(0.0, 1.0, 3)
    v = torch.randn(2, *case.x.shape, dtype=torch.float64)
    assert torch.allclose(
        tangent_flow(case.field, case.x, v, grid, method)[1],
        flow_jacobian(case.field, case.x, grid, method).matvec(v), atol=1e-12,
    )  # fmt: skip


def test_linear_flow_is_the_exponential():
    field, grid = transient(), TimeGrid(0.0, 0.7, 10)
    exact = torch.linalg.matrix_exp(0.7 * field.matrix)
    for method in ("rk4", "dopri5"):
        assert torch.allclose(flow_jacobian(field, X2, grid, method).dense(), exact, atol=1e-4)
    assert torch.allclose(flow_jacobian(field, X2, grid, "dopri5").rmatvec(X2), exact.T @ X2, atol=1e-4)


def test_tangent_along_the_field_stays_along_it():
    """Autonomous flow: Phi f(x0) = f(x(T)); exact for the ODE, here within the order of rk4 on a fine grid."""
    case, grid = random_case(7, scale=0.5), TimeGrid(0.0, 1.0, 40)
    end, moved = tangent_flow(case.field, case.x, case.field(0.0, case.x)[None], grid, "rk4")
    assert torch.allclose(moved[0], case.field(0.0, end), atol=1e-6 * float(moved.norm()))


def test_constant_directions_pass_unchanged():
    """CenterNorm: J (a (x) 1) = 0 and Phi (a (x) 1) = a (x) 1."""
    for seed in range(5):
        case = random_case(seed)
        a = torch.randn(1, case.tokens, 1, dtype=torch.float64).expand_as(case.x)
        assert float(jacobian(case.field, case.x).matvec(a).abs().max()) <= 1e-11 * (1 + case.scale) ** 2 * float(a.norm())
        flow = flow_jacobian(case.field, 0.1 * case.x, TimeGrid(0.0, 0.2, 4), "rk4")
        assert torch.allclose(flow.matvec(a), a, atol=1e-9)


def test_second_derivative_is_jacobian_times_velocity_plus_time_derivative():
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    assert torch.allclose(second_derivative(lorenz, x), torch.from_numpy(dense_jacobian(lorenz, x)) @ lorenz(0.0, x))
    assert torch.allclose(second_derivative(lambda t, y: torch.sin(3 * t) * y, X2, 0.4),
                          (3 * np.cos(1.2) + np.sin(1.2) ** 2) * X2)  # fmt: skip
    case, e = random_case(2, blocks=2, horizon=2.0, time_frequencies=2), 1e-5
    v = case.field(0.3, case.x)
    difference = (case.field(0.3 + e, case.x + e * v) - case.field(0.3 - e, case.x - e * v)) / (2 * e)
    assert torch.allclose(second_derivative(case.field, case.x, 0.3), difference, atol=1e-7 * float(difference.norm()))


def test_half_precision_is_cast_and_said():
    case = random_case(0)
    half = random_case(0).field.to(torch.bfloat16)
    with pytest.warns(UserWarning, match="bfloat16"):
        found = jacobian(half, case.x.to(torch.bfloat16)).value
    assert found.dtype == torch.float64 and float((found - case.field(0.0, case.x)).norm() / found.norm()) < 0.05


def test_provenance_is_one_for_a_model_and_its_copy_and_another_for_another():
    case = random_case(0)
    single = random_case(0).field.to(torch.float32)
    assert provenance(single, case.x).model == provenance(as_float64(single), case.x).model
    assert provenance(single, case.x).model != provenance(random_case(1).field, case.x).model


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: jacobian(nan_field, X2, 0.5), NonFiniteError, r"f\(t, x\) is NaN at \[0\] at t = 0.5"),
        (lambda: jacobian(zero, X2 * float("inf")), NonFiniteError, "state x is infinite"),
        (lambda: jacobian(zero, torch.zeros(2100, dtype=torch.float64)).dense(), UserError, "2100 x 2100.*limit of 2000"),
        (lambda: jacobian(zero, X2, batch_dims=2), UserError, "batch_dims: 2"),
        (lambda: jacobian(lambda t, x: x[:1], X2), UserError, "shape"),
        (lambda: jacobian(zero, X2).matvec(torch.zeros(3)), UserError, "tangents"),
        (lambda: jacobian(lambda t, x: x.abs().sqrt(), 0 * X2).dense(), NonFiniteError, "Jacobian is"),
        (lambda: tangent_flow(zero, X2, X2, TimeGrid(0.0, 1.0, 2)), UserError, "tangents"),
    ],
)
def test_bad_input_is_named_in_one_line(call, error, words):
    with pytest.raises(error, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_nan_weight_is_named():
    field = random_case(0).field.to(torch.float32)
    with torch.no_grad():
        field.blocks[0].mlp.fc1.weight[1, 2] = float("nan")
    with pytest.raises(NonFiniteError, match=r"blocks.0.mlp.fc1.weight is NaN at \[1, 2\]"):
        jacobian(field, random_case(0).x)


def test_linearize_takes_several_arguments():
    value, push, pull = linearize(lambda a, b: a * b, torch.tensor(2.0), torch.tensor(3.0))
    assert (float(value), float(push(torch.tensor(1.0), torch.tensor(1.0))), float(pull(torch.tensor(1.0)))) == (6.0, 5.0, 2.0)
