"""The certificate: its inequalities are true, what is vacuous is called so, and a bad step is found."""

import math

import numpy as np
import problems
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import analysis
from analysis.operators import as_float64
from analysis.reports import CertificateReport, Report
from analysis.wellposed.growth import Growth, growth_constants, reach
from odevit import ODEViT, ODEViTConfig, SolverConfig, TimeGrid, UserError, ViT, ViTConfig, integrate
from odevit.errors import NonFiniteError

SMALL = {"img_size": 8, "patch_size": 4, "in_chans": 1, "embed_dim": 8, "num_heads": 2, "registers": 1, "num_classes": 3}
KINDS = [
    {}, {"norm": "layer"}, {"norm": "none"}, {"attention": "l2"}, {"attention": "cosine"},
    {"blocks": 3, "horizon": 1.5}, {"time_frequencies": 2},
]  # fmt: skip


def model_of(config=None, **solver) -> ODEViT:
    torch.manual_seed(0)
    made = ODEViT(ODEViTConfig(**SMALL, **(config or {})), SolverConfig(**({"horizon": 1.5, "steps": 3} | solver)))
    problems.randomise(made.field, 0.6, torch.Generator().manual_seed(0))
    return made.eval()


def images(count: int = 2) -> torch.Tensor:
    return torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(1))


def linear_model(rate: float, **solver) -> ODEViT:
    """A field that is exactly x' = -rate (x - mean x): gelu(z) - gelu(-z) = z, and attention is off."""
    made = model_of(**solver)
    (block,), dim = made.field.blocks, SMALL["embed_dim"]
    eye = torch.eye(dim)
    with torch.no_grad():
        for norm in (block.norm1, block.norm2):
            norm.gamma.fill_((dim - 1) / dim)
            norm.beta.zero_()
        block.attn.proj.weight.zero_()
        hidden = block.mlp.fc1.weight.shape[0]
        assert hidden >= 2 * dim
        block.mlp.fc1.weight.zero_()
        block.mlp.fc2.weight.zero_()
        block.mlp.fc1.weight[: 2 * dim] = torch.cat([eye, -eye])
        block.mlp.fc2.weight[:, : 2 * dim] = -rate * torch.cat([eye, -eye], 1)
    return made


# growth


@given(st.integers(0, 10_000), st.sampled_from(KINDS), st.booleans())
@settings(max_examples=30, deadline=None, derandomize=True)
def test_speed_never_exceeds_the_growth_bound(seed, kind, bias):
    """|f_i(t, x)| <= a max_j |x_j| + b at random states of any size and at all times."""
    case = problems.random_case(seed, bias=bias, **kind)
    constants = growth_constants(case.field)
    generator = torch.Generator().manual_seed(seed)
    for size in (0.01, 1.0, 30.0):
        x = size * torch.randn(8, case.tokens, case.dim, generator=generator, dtype=torch.float64)
        for t in np.linspace(0, case.field.horizon, 5):
            g = constants[case.field.index_at(t)]
            speed, radius = case.field(t, x).norm(dim=-1).amax(1), x.norm(dim=-1).amax(1)
            assert bool((speed <= (g.a * radius + g.b) * (1 + 1e-12)).all())


def test_growth_constants_of_a_linear_field():
    """x' = -3 (x - mean x) by W_1 = [I; -I], W_2 = -3 W_1^T: a = ||W_2|| ||W_1|| = 3 sqrt(2) sqrt(2), b = 0."""
    field = as_float64(linear_model(3.0).field)
    (found,) = growth_constants(field)
    assert found.a == pytest.approx(6.0) and found.b == 0
    x = torch.randn(1, 3, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = x - x.mean(-1, keepdim=True)
    assert torch.allclose(field(0.0, x), -3 * x, atol=1e-12)


@given(st.integers(0, 10_000), st.sampled_from(KINDS))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_trajectories_stay_inside_the_bound(seed, kind):
    case = problems.random_case(seed, tokens=4, **kind)
    span = case.field.horizon
    grid = TimeGrid(0.0, span, 24)
    path = integrate(case.field, case.x, grid, "rk4").x.norm(dim=-1).amax((1, 2)).numpy()
    bound = np.array(reach(growth_constants(case.field), float(path[0]), grid.times, steps=False))
    assert (path <= bound * (1 + 1e-9)).all()
    euler = integrate(case.field, case.x, grid, "euler").x.norm(dim=-1).amax((1, 2)).numpy()
    steps = np.array(reach(growth_constants(case.field), float(euler[0]), grid.times, steps=True))
    assert (euler <= steps * (1 + 1e-9)).all() and (steps <= bound * (1 + 1e-12)).all()


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "quick_gelu"])
@pytest.mark.parametrize("block", ["sequential", "parallel"])
def test_growth_bound_of_layers(activation, block):
    """Discrete ViT with every activation, LayerScale and LayerNorm or CenterNorm."""
    for norm in ("layer", "center"):
        config = ViTConfig(**SMALL, depth=2, block=block, activation=activation, layer_scale=True, norm=norm)
        torch.manual_seed(0)
        net = as_float64(ViT(config))
        problems.randomise(net.field, 1.5, torch.Generator().manual_seed(3))
        constants = growth_constants(net.field)
        x = 5 * torch.randn(20, 6, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        for layer, g in enumerate(constants):
            speed = net.field(float(layer), x).norm(dim=-1).amax(1)
            assert bool((speed <= g.a * x.norm(dim=-1).amax(1) + g.b).all())


def test_growth_over_pieces_and_overflow():
    slow, fast = Growth(0.0, 1.0), Growth(1.0, 0.0)
    assert reach([slow, fast], 1.0, [0.0, 1.0, 2.0], steps=False) == pytest.approx([1.0, 2.0, 2 * math.e])
    assert reach([slow, fast], 1.0, [0.0, 1.0, 2.0], steps=True) == pytest.approx([1.0, 2.0, 4.0])
    assert Growth(1e3, 1.0).after(1.0, 1.0) == math.inf


# the certificate


@pytest.mark.parametrize("kind", [{}, {"norm": "layer"}, {"norm": "none"}, {"blocks": 3}, {"time_frequencies": 1}])
def test_inequalities_of_the_certificate(kind):
    """sigma_1 <= product of the step norms <= .., lower <= local, radius <= bound, alpha <= mu <= ||J||: all as reported."""
    found = analysis.certificate(model_of(kind), images())
    assert (found.sigma <= found.sigma_bound * (1 + 1e-9)).all()
    assert (found.radius <= found.radius_bound * (1 + 1e-12)).all()
    assert (found.jacobian_norm <= found.local * (1 + 1e-9)).all()
    assert (found.abscissa <= found.logarithmic_norm + 1e-9).all()
    assert (found.logarithmic_norm <= found.jacobian_norm + 1e-9).all()
    assert found.verdict("existence").status == "proven"
    assert {v.status for v in found.verdicts} <= {"proven", "measured", "vacuous"}


def test_flow_bound_of_a_fine_solve():
    """sigma_1 of a fine rk4 flow is at most exp int mu dt within the error of the quadrature."""
    found = analysis.certificate(model_of(method="rk4", steps=12, horizon=0.5), images())
    integral = np.exp(np.trapezoid(found.logarithmic_norm, found.time, axis=0))
    assert (found.sigma <= integral * (1 + 1e-3)).all()
    assert (found.sigma_bound == pytest.approx(integral)) and len(found.step_time) < 12
    assert found.verdict("ODE").holds and found.verdict("error").value < 1e-5


def test_layer_norm_is_called_vacuous():
    found = analysis.certificate(model_of({"norm": "layer"}), images(1))
    constant = found.verdict("Lipschitz")
    assert constant.status == "vacuous" and "LayerNorm" in constant.answer and constant.value > 1e3
    assert "vacuous" in found.verdict("existence").answer and found.verdict("existence").holds
    assert found.verdict("growth").status == "proven"  # a bounded field grows linearly


@pytest.mark.parametrize("rate, steps, good", [(0.9, 4, True), (5.0, 4, False), (5.0, 16, True)])
def test_stability_of_a_contracting_field(rate, steps, good):
    """x' = -rate (x - mean): the one decaying eigenvalue is -rate, so Euler is stable up to h = 2 / rate."""
    found = analysis.certificate(linear_model(rate, steps=steps, horizon=2.0), images(1))
    h = 2.0 / steps
    stability, step = found.verdict("stability"), found.verdict("step")
    assert stability.value == pytest.approx(2 / rate, rel=1e-6)
    assert stability.holds == good == (h <= 2 / rate)
    assert step.holds == (h * rate < 1) and step.value >= h * rate * (1 - 1e-6)
    assert found.verdict("rates").value == pytest.approx(0.0, abs=1e-9)  # CenterNorm's zeros: never below 0
    assert np.allclose(found.jacobian_norm, rate, rtol=1e-6)


def test_long_unstable_flow_is_vacuous_and_short_small_one_is_not():
    long = analysis.certificate(model_of(horizon=60.0, steps=12), images(1))
    assert long.verdict("growth").status == "vacuous" and long.verdict("Lipschitz").status == "vacuous"
    mild = model_of({"attention": "l2"}, horizon=0.5, steps=2)
    with torch.no_grad():
        for weight in mild.field.parameters():
            weight.mul_(0.3)
    short = analysis.certificate(mild, images(1))
    assert short.verdict("growth").status == "proven" and short.verdict("Lipschitz").status == "proven"
    step = short.verdict("step")
    assert (step.status, step.side, step.holds) == ("proven", "upper", True)


def test_a_net_that_is_no_ode_is_found():
    """A stiff oscillation solved by too large steps: answers change when the steps are doubled."""
    wild = model_of(horizon=6.0, steps=2)
    problems.randomise(wild.field, 3.0, torch.Generator().manual_seed(2))
    found = analysis.certificate(wild, images(6)).verdict("ODE")
    assert found.holds is False and found.answer.startswith("No")


@pytest.mark.parametrize("config", [{}, {"block": "parallel", "norm": "center"}])
def test_discrete_vit(config):
    """Layers as steps: statements on an ODE are left out, and this is said; the product of layer norms bounds the net's."""
    torch.manual_seed(0)
    net = ViT(ViTConfig(**SMALL, depth=3, **config))
    found = analysis.certificate(net, images(2))
    assert {reason.partition(":")[0] for reason in found.skipped} >= {"existence", "Lipschitz", "stability", "error"}
    assert "discrete" in found.skipped[0] and "left out" in found.to_text()
    assert (found.sigma <= found.sigma_bound * (1 + 1e-9)).all() and len(found.step_norm) == 3
    assert ("structure" in [v.name for v in found.verdicts]) == (config.get("norm") == "center")


@pytest.mark.parametrize("method", ["dopri5", "strang:midpoint"])
def test_solvers_without_a_stability_function(method):
    found = analysis.certificate(model_of(method=method), images(1))
    reasons = {reason.partition(":")[0]: reason for reason in found.skipped}
    assert "stability" in reasons and ("step" in reasons) == (method == "dopri5")
    assert found.verdict("sensitivity").value > 0


def test_words_and_files(tmp_path):
    """One screen, markdown with every question, JSON and npz that come back as they were."""
    found = analysis.certificate(model_of(), images(3), seed=5)
    lines = found.to_text().splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 100
    assert "3 images" in lines[1] and "seed 5" in lines[1] and "float64" in lines[1]
    text = found.to_markdown()
    assert all(v.question.replace("|", "\\|") in text and v.formula in text for v in found.verdicts)
    assert found.provenance.model in text
    again = Report.load(found.save(tmp_path / "c"))
    assert isinstance(again, CertificateReport) and again.to_markdown() == text and again.verdicts == found.verdicts
    assert np.array_equal(again.eigenvalues, found.eigenvalues, equal_nan=True)
    assert found.to_json(tmp_path / "d").stat().st_size > 1000 and found.to_csv(tmp_path / "d").stat().st_size > 1000


def test_same_seed_same_numbers_and_progress():
    told: list[str] = []
    first, second = (analysis.certificate(model_of(), images(1), progress=told.append) for _ in range(2))
    assert first.verdicts == second.verdicts and np.array_equal(first.sigma, second.sigma)
    assert "Jacobian at t = 0.5" in told and len(told) == len(set(told)) * 2


def test_bad_input():
    model = model_of()
    with pytest.raises(UserError, match=r"images: shape \(0, 1, 8, 8\)"):
        analysis.certificate(model, images(1)[:0])
    with pytest.raises(UserError, match=r"images: expected \(B, 1, 8, 8\), got \(1, 1, 9, 9\)"):
        analysis.certificate(model, torch.zeros(1, 1, 9, 9))
    with pytest.raises(UserError, match="needs an ODEViT or a ViT"):
        analysis.certificate(lambda t, x: x, images(1))
    with pytest.raises(NonFiniteError, match="images is NaN at"):
        analysis.certificate(model, images(1) * math.nan)
    with torch.no_grad():
        model.field.blocks[0].mlp.fc1.weight[0, 0] = math.inf
    with pytest.raises(NonFiniteError, match="weight field.blocks.0.mlp.fc1.weight is infinite"):
        analysis.certificate(model, images(1))


def test_half_precision_is_cast_and_said():
    with pytest.warns(UserWarning, match="cast a torch.bfloat16 model to float64"):
        found = analysis.certificate(model_of().to(torch.bfloat16), images(1))
    assert found.provenance.dtype == "float64"
