"""lipschitz(): lower <= true <= local <= upper on every kind of field, what its parts say, and what it refuses."""

import warnings

import numpy as np
import pytest
import torch
from problems import Case, lorenz, nan_field, quantile_line, random_case, randomise

from analysis.lipschitz import lipschitz
from analysis.lipschitz.heads import read_heads
from analysis.operators import as_float64, jacobian
from analysis.reports import LipschitzReport, Report
from odevit.config import ViTConfig
from odevit.errors import NonFiniteError, UserError
from odevit.field import VectorField

SLACK = 1 + 1e-9


def true_norms(case: Case, x: torch.Tensor, t: float = 0.0) -> np.ndarray:
    return torch.linalg.matrix_norm(jacobian(case.field, x, t, batch_dims=1).dense(), ord=2).numpy()


def vit_case(seed: int, **config) -> Case:
    """A random discrete layer stack, read as a field; T = 2 layers."""
    defaults = {"embed_dim": 6, "num_heads": 2, "mlp_ratio": 1.5, "registers": 0, "depth": 2}
    generator = torch.Generator().manual_seed(seed)
    field = VectorField(ViTConfig(**(defaults | config)), blocks=2, horizon=2.0)
    randomise(field, 0.8, generator)
    return Case(as_float64(field), torch.randn(1, 4, 6, generator=generator, dtype=torch.float64), seed, 0.8, True)


FIELDS = {
    "dot": lambda: random_case(1),
    "dot, no norm": lambda: random_case(2, norm="none"),
    "dot, LayerNorm": lambda: random_case(3, norm="layer"),
    "l2": lambda: random_case(4, attention="l2"),
    "cosine": lambda: random_case(5, attention="cosine"),
    "two blocks": lambda: random_case(6, blocks=2, horizon=2.0),
    "moving shift": lambda: random_case(7, time_frequencies=2, horizon=2.0),
    "sequential": lambda: vit_case(8, norm="center"),
    "sequential, LayerNorm, LayerScale": lambda: vit_case(9, layer_scale=True),
    "parallel, LayerScale, tanh": lambda: vit_case(
        10, norm="center", block="parallel", layer_scale=True, activation="gelu_tanh"
    ),
    "sequential, quick GELU, no norm": lambda: vit_case(11, norm="none", activation="quick_gelu"),
}


@pytest.mark.parametrize("name", FIELDS)
def test_lower_true_local_and_upper_are_in_order(name):
    case, t = FIELDS[name](), 1.3
    x = torch.cat([case.x, 0.2 * case.x, 2 * case.x.flip(1)])
    report, true = lipschitz(case.field, x, t=t, ascent_steps=4), true_norms(case, x, t)
    assert bool((report.lower <= true * SLACK).all())
    assert bool((true <= report.local * SLACK).all())
    assert bool((report.local <= report.upper).all())
    assert report.lower.max() / SLACK <= report.ascent <= report.upper
    assert bool((report.residual < 0.02).all()) and report.lower == pytest.approx(true, rel=1e-2)
    assert report.vacuous == ("LayerNorm" in name)
    assert report.radius == pytest.approx(float(x.norm(dim=-1).max()))


@pytest.mark.parametrize("name", FIELDS)
def test_the_mlp_is_exact_at_the_state_that_it_sees(name):
    """Biases, beta, LayerScale, the time shift and the state after attention all enter: J_F of the model itself, dense."""
    case, t = FIELDS[name](), 1.3
    block, x = case.field.block_at(t), case.x
    with torch.no_grad():
        seen = x + case.field.attention_part(x, t) if block.sequential else x
    dense = jacobian(lambda s, y: case.field.mlp_part(y, t), seen, batch_dims=1).dense()
    found = lipschitz(case.field, x, t=t, ascent_steps=0).parts["F exact per token"].value
    assert found == pytest.approx(float(torch.linalg.matrix_norm(dense, ord=2)), rel=1e-10)


def test_layer_scale_belongs_to_the_bounds_of_attention():
    case = vit_case(9, layer_scale=True)
    before = lipschitz(case.field, case.x, ascent_steps=0).parts
    with torch.no_grad():
        case.field.blocks[0].scale1.mul_(3.0)
    after = lipschitz(case.field, case.x, ascent_steps=0).parts
    for name in ("G block norm", "G attention map, exact", "G ball"):
        assert after[name].value == pytest.approx(3 * before[name].value)
    heads = read_heads(case.field.blocks[0])
    assert torch.allclose(
        torch.cat(list(heads.out), 1), case.field.blocks[0].scale1[:, None] * case.field.blocks[0].attn.proj.weight
    )


def test_whole_field_is_bounded_and_the_block_map_is_the_tightest():
    ratios: dict[str, list[float]] = {"local": [], "upper": [], "F + G": []}
    for case in (random_case(seed) for seed in range(100, 120)):
        report, true = lipschitz(case.field, case.x, ascent_steps=0), float(true_norms(case, case.x)[0])
        parts = {name: part.value for name, part in report.parts.items()}
        assert true <= parts["J block influence"] * SLACK
        attention = min(value for name, value in parts.items() if name.startswith("G "))
        ratios["F + G"].append((parts["F exact per token"] + attention) / true)
        ratios["local"].append(report.local[0] / true)
        ratios["upper"].append(report.upper / true)
    for name, found in ratios.items():
        print(quantile_line(name, found))
        assert min(found) * SLACK >= 1
    assert np.median(ratios["local"]) < 1.6 < np.median(ratios["F + G"]) < 6 < np.median(ratios["upper"]) < 100


def test_parts_name_published_and_own_bounds_side_by_side():
    case = random_case(1, bias=False)
    parts = lipschitz(case.field, case.x, ascent_steps=1).parts
    assert {"G ball", "G ball, norm folded", "G Castin et al.", "F product", "F centred"} <= set(parts)
    assert "Castin" in parts["G Castin et al."].reference and parts["G Castin et al."].region.startswith("ball max_i |x_i| <= ")
    assert (parts["lower"].status, parts["F centred"].status, parts["F centred"].side) == ("measured", "proven", "upper")
    whole = min(parts["F exact per token"].value, parts["F centred"].value)
    assert parts["local"].value <= whole + parts["G block norm"].value + 1e-12
    assert parts["upper"].value == pytest.approx(parts["F centred"].value + parts["G ball, norm folded"].value)


def test_castin_is_not_claimed_with_a_query_bias():
    case = random_case(1, bias=True)
    assert "G Castin et al." not in lipschitz(case.field, case.x, ascent_steps=0).parts


def test_layer_norm_is_bounded_at_the_state_and_called_vacuous_beyond():
    case = random_case(3, norm="layer")
    report = lipschitz(case.field, case.x, ascent_steps=0)
    status = {name: part.status for name, part in report.parts.items()}
    assert status["upper"] == status["F centred"] == status["G ball"] == "vacuous"
    assert status["local"] == status["F exact per token"] == status["G block norm"] == "proven"
    assert report.upper > 1000 * report.local[0]


def test_a_single_state_gives_floats_and_equals_its_batch_entry():
    case = random_case(2)
    alone, batch = (lipschitz(case.field, x, ascent_steps=0) for x in (case.x[0], case.x))
    assert isinstance(alone.local, float) and batch.local.shape == (1,)
    assert (alone.lower, alone.local, alone.upper) == pytest.approx((batch.lower[0], batch.local[0], batch.upper))


def test_one_token_and_a_zero_field_keep_the_order_where_all_are_equal():
    case = random_case(5, norm="none")
    for scale in (1.0, 0.0):
        with torch.no_grad():
            for name, weight in case.field.named_parameters():
                weight.mul_(scale if "mlp" in name else 0.0)
        report = lipschitz(case.field, case.x[:, :1], ascent_steps=2)
        assert report.lower <= report.local <= report.upper and report.ascent <= report.upper
        assert report.lower == pytest.approx(true_norms(case, case.x[:, :1]), rel=1e-3)
        assert report.local == pytest.approx(true_norms(case, case.x[:, :1]), rel=1e-9)


def test_a_ball_without_states_has_an_upper_bound_and_an_ascent_only():
    case = random_case(2)
    report = lipschitz(case.field, radius=1.5, tokens=4, ascent_steps=3, seed=1)
    assert np.isnan(report.lower) and np.isnan(report.local)
    assert 0 < report.ascent <= report.upper == lipschitz(case.field, radius=1.5, tokens=4, ascent_steps=0).upper
    assert "lower" not in report.parts and "local" not in report.parts


def test_a_larger_ball_has_a_larger_bound_and_l2_needs_no_ball():
    for kind, factor in (("dot", 100.0), ("l2", 1.0)):
        case = random_case(2, attention=kind, norm="none", bias=False)
        near, far = (lipschitz(case.field, radius=r, tokens=4, ascent_steps=0).upper for r in (1e3, 1e4))
        assert far / near == pytest.approx(factor, rel=0.05)


def test_a_piece_is_bounded_as_its_block():
    case = random_case(6, blocks=2, horizon=2.0)
    whole = [lipschitz(case.field, case.x, t=t, ascent_steps=0).local[0] for t in (0.5, 1.5)]
    pieces = [lipschitz(case.field.piece(t), case.x, ascent_steps=0).local[0] for t in (0.5, 1.5)]
    assert pieces == pytest.approx(whole) and abs(whole[0] - whole[1]) > 1e-3


def test_of_a_callable_no_bound_is_known():
    x = torch.tensor([1.0, 2.0, 20.0], dtype=torch.float64)
    report = lipschitz(lorenz, x, ascent_steps=5)
    true = float(torch.linalg.matrix_norm(jacobian(lorenz, x).dense(), ord=2))
    assert report.lower == pytest.approx(true, rel=1e-3) and report.lower <= true * SLACK
    assert report.local == report.upper == np.inf and report.vacuous
    assert report.lower <= report.ascent < np.inf
    assert report.parts["upper"].status == "vacuous"


def test_report_survives_its_file(tmp_path):
    case = random_case(2)
    report = lipschitz(case.field, case.x, ascent_steps=1)
    again = Report.load(report.save(tmp_path / "bounds"))
    assert isinstance(again, LipschitzReport)
    assert {n: (p.value, p.side, p.status) for n, p in again.parts.items()} == {
        n: (p.value, p.side, p.status) for n, p in report.parts.items()
    }
    assert "G block norm" in report.to_csv(tmp_path / "bounds").read_text()


def test_single_precision_and_training_mode_are_bounded_in_double():
    case = random_case(2)
    single = case.field.float().train().requires_grad_(True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = lipschitz(single, case.x.float(), ascent_steps=0)
    assert report.provenance.dtype == "float64"
    assert report.lower[0] <= report.local[0] and single.training


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": None}, "lipschitz: give states x, or radius and tokens"),
        ({"x": None, "radius": 1.0}, "tokens"),
        ({"radius": -1.0}, "radius: -1.0 must be a finite number"),
        ({"radius": float("nan")}, "radius: nan must be"),
        ({"radius": 0.1}, "radius: 0.1 is smaller than the largest token"),
        ({"x": torch.zeros(2, 5)}, r"state x: shape \(2, 5\); this field takes"),
    ],
)
def test_what_it_cannot_use_is_named_in_one_line(given, message):
    case = random_case(2, dim=4)
    with pytest.raises(UserError, match=message) as error:
        lipschitz(case.field, **({"x": case.x} | given))
    assert "\n" not in str(error.value)


def test_numbers_that_are_not_finite_are_named():
    case = random_case(2)
    with pytest.raises(NonFiniteError, match="state x"):
        lipschitz(case.field, case.x * float("nan"))
    with pytest.raises(NonFiniteError, match="f"):
        lipschitz(nan_field, torch.ones(3, dtype=torch.float64))
    with torch.no_grad():
        case.field.blocks[0].attn.q.weight[0, 0] = float("nan")
    with pytest.raises(NonFiniteError, match=r"blocks\.0\.attn\.q\.weight is NaN"):
        lipschitz(case.field, case.x)


def test_a_callable_without_a_state_is_refused():
    with pytest.raises(UserError, match="no bound is known of a plain callable"):
        lipschitz(lorenz, radius=1.0, tokens=3)
