"""Interventions along t: nothing changes nothing, everything changes everything, small changes follow the flow Jacobian."""

import math

import numpy as np
import pytest
import torch
from problems import randomise

import analysis
import odevit
from analysis.interventions import Change, KnockOut, KnockOutHead, Patch, Perturb, effect_map, effect_maps, intervene, joined
from analysis.interventions.restart import Moment, factual, moment
from odevit import NonFiniteError, TimeGrid, UserError
from odevit.config import ODEViTConfig, SolverConfig, ViTConfig

SMALL = {"img_size": 8, "patch_size": 4, "embed_dim": 8, "num_heads": 2, "registers": 2, "num_classes": 5}


def loud(model, seed=0):
    """The model in float64 with weights of size 1 and a head that tells states apart."""
    generator = torch.Generator().manual_seed(seed)
    randomise(model.field, 0.7, generator)
    with torch.no_grad():
        model.head.weight.normal_(generator=generator)
        for weight in model.tokenizer.parameters():
            weight.normal_(std=0.5, generator=generator)
    return model.double().eval()


def tiny(method="euler", horizon=1.0, steps=3, **config):
    """1 + 4 + 2 tokens; h = 1/3 is not exact in binary."""
    return loud(odevit.ODEViT(ODEViTConfig(**(SMALL | config)), SolverConfig(method, horizon, steps)))


def discrete(**config):
    """The discrete twin with three sequential layers."""
    return loud(odevit.ViT(ViTConfig(**SMALL, depth=3, **config)))


def images(count=3, seed=1):
    """Random images of the tiny model."""
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


MODELS = [tiny, lambda: tiny("rk4"), lambda: tiny("dopri5"), lambda: tiny("strang"), lambda: tiny(blocks=3), discrete]


@pytest.mark.parametrize("make", MODELS)
def test_no_change_has_exactly_no_effect(make):
    model = make()
    for t in model.grid.times:
        for change in (Change(), Perturb(0.0), Perturb(0.0, "most_sensitive")):
            report = intervene(model, images(), t, change)
            assert not report.delta_logits.any() and not report.distance.any() and not report.kl.any()
            adaptive = model.solver.method == "dopri5"  # restarted, it chooses other steps
            assert not report.flipped.any() and report.restart_gap < (1e-3 if adaptive else 1e-12)


@pytest.mark.parametrize("make", MODELS)
def test_patching_everything_gives_exactly_the_source(make):
    model, a, b = make(), images(), images(seed=2)
    for t in model.grid.times:
        report, other = intervene(model, a, t, Patch(b)), intervene(model, b, t, Change())
        assert np.array_equal(report.logits_after, other.logits_before) and report.delta_logits.any()


def test_one_source_image_for_all():
    model, a, b = tiny(), images(), images(1, seed=2)
    report = intervene(model, a, 0.0, Patch(b))
    np.testing.assert_allclose(report.logits_after, model(b).detach().expand(3, -1), atol=1e-12)


def test_at_the_end_only_cls_matters():
    model = tiny()
    for tokens in ("patches", "registers", 3):
        report = intervene(model, images(), 1.0, KnockOut(tokens))
        assert not report.delta_logits.any() and report.size.all() and report.time.tolist() == [1.0]
    report = intervene(model, images(), 1.0, KnockOut("cls"))
    np.testing.assert_allclose(report.logits_after, model.head.bias.detach().expand(3, -1), atol=1e-14)


def test_knocked_out_tokens_reach_cls_only_later():
    report = intervene(tiny(), images(), 0.0, KnockOut("registers"))
    np.testing.assert_allclose(report.time, [0, 1 / 3, 2 / 3, 1])
    assert not report.token_distance[0, :, :5].any() and report.token_distance[1, :, 0].all()
    np.testing.assert_allclose(report.token_distance[0, :, 5:], tiny().initial_state(images())[:, 5:].detach().norm(dim=-1))
    np.testing.assert_allclose(report.distance, np.sqrt((report.token_distance**2).sum(-1)))


def test_kl_is_of_the_distribution_before_against_that_after():
    report = intervene(tiny(), images(), 1 / 3, KnockOut("cls"))
    p, q = (np.exp(z) / np.exp(z).sum(1, keepdims=True) for z in (report.logits_before, report.logits_after))
    np.testing.assert_allclose(report.kl, (p * np.log(p / q)).sum(1), rtol=1e-10)
    assert not np.allclose(report.kl, (q * np.log(q / p)).sum(1), rtol=1e-3)
    assert np.array_equal(report.flipped, p.argmax(1) != q.argmax(1))


def test_mean_is_over_images():
    model = tiny()
    report = intervene(model, images(), 0.0, KnockOut("all", mode="mean"))
    np.testing.assert_allclose(report.logits_after - report.logits_after[:1], 0, atol=1e-12)  # all images are now the same
    with pytest.raises(UserError, match="needs at least 2"):
        intervene(model, images(1), 0.0, KnockOut("all", mode="mean"))


@pytest.mark.parametrize("kind", ["dot", "l2", "cosine"])
def test_heads_are_removed_one_by_one(kind):
    """Without head 0 and without head 1, the two attention branches sum to the whole one (there is no bias)."""
    model = tiny(attention=kind)
    now = moment(*factual(model, images())[::2], 0.0)
    x, parts = now.x, [KnockOutHead(h).field(now).attention_part(now.x) for h in (0, 1)]
    np.testing.assert_allclose(parts[0] + parts[1], now.model.field.attention_part(x), atol=1e-12)
    assert not torch.allclose(parts[0], parts[1])
    if kind == "dot":  # what is left without head 0 is W_o^1 P_1 v_1
        attn, y = now.model.field.blocks[0].attn, now.model.field.blocks[0].norm1(x)
        head = now.model.field.attention(0.0, x)[:, 1] @ (y @ attn.v.weight[4:].T)
        np.testing.assert_allclose(parts[0], head @ attn.proj.weight[:, 4:].T, atol=1e-12)
    report = intervene(model, images(), 0.0, KnockOutHead(1))
    assert report.delta_logits.any() and not report.distance[0].any() and not report.size.any()


def test_the_model_itself_is_left_alone():
    model = tiny().float()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    intervene(model, images(), 0.0, KnockOutHead(0))
    effect_map(model, images(), [0.0], Perturb(0.1, "most_sensitive"), regions=["cls"])
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert model.head.weight.dtype == torch.float32 and all(w.grad is None for w in model.parameters())


@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_small_perturbations_follow_the_flow_jacobian(method):
    model, batch = tiny(method), images()
    t = model.grid.times[1]
    x = model.trajectory(batch).x[1].detach()
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    unit = direction / direction.flatten(1).norm(dim=1)[:, None, None]
    flow = analysis.flow_jacobian(model.field, x, TimeGrid(t, 1.0, steps=2), method, batch_dims=1)
    first_order = flow.matvec(unit)[:, 0] @ model.head.weight.detach().T
    errors = []
    for size in (1e-3, 1e-4):
        report = intervene(model, batch, t, Perturb(size, direction))
        np.testing.assert_allclose(report.size, size, rtol=1e-9)
        errors.append(np.abs(report.delta_logits / size - first_order.numpy()).max())
    assert errors[0] < 0.1 and errors[0] / errors[1] == pytest.approx(10, rel=0.1)


def margin(logits, of):
    """Lead of the classes `of` over the best other."""
    rows = np.arange(len(of))
    others = logits.copy()
    others[rows, of] = -np.inf
    return logits[rows, of] - others.max(1)


def test_most_sensitive_is_the_steepest_descent_of_the_margin():
    model, batch, size = tiny(), images(), 1e-5
    report = intervene(model, batch, 0.0, Perturb(size, "most_sensitive"))
    best = report.logits_before.argmax(1)
    slope = (margin(report.logits_after, best) - margin(report.logits_before, best)) / size
    now = moment(*factual(model, batch)[::2], 0.0)
    np.testing.assert_allclose(slope, -now.margin_gradient.flatten(1).norm(dim=1), rtol=1e-3)
    for seed in range(5):
        other = intervene(model, batch, 0.0, Perturb(size, "random", seed=seed))
        assert (np.abs(margin(other.logits_after, best) - margin(report.logits_before, best)) <= -slope * size * 1.001).all()


def test_random_directions_have_a_seed_and_stay_on_their_tokens():
    model = tiny()
    runs = [intervene(model, images(), 0.0, Perturb(0.5, tokens="patches", seed=s)) for s in (0, 0, 1)]
    assert np.array_equal(runs[0].logits_after, runs[1].logits_after) and runs[2].delta_logits.any()
    assert not np.allclose(runs[0].logits_after, runs[2].logits_after)
    assert not runs[0].token_distance[0][:, [0, 5, 6]].any() and runs[0].provenance.seed == 0


def test_no_direction_is_most_sensitive_where_nothing_matters():
    report = intervene(tiny(), images(), 1.0, Perturb(1.0, "most_sensitive", tokens="patches"))
    assert not report.size.any() and not report.delta_logits.any()


def test_effects_are_equivariant_to_permutations_of_the_tokens():
    """Positions live in x(0) only: knocking out token j of the state is knocking out its image in a permuted state."""
    model, _, trajectory = factual(tiny(), images())
    now = moment(model, trajectory, 1 / 3)
    order = torch.tensor([0, 3, 1, 4, 2, 6, 5])  # CLS stays
    permuted = Moment(model, now.t, now.x[:, order], now.rest)
    for j in range(7):
        a = now.logits(KnockOut(int(order[j])).state(now))
        b = permuted.logits(KnockOut(j).state(permuted))
        np.testing.assert_allclose(a.detach(), b.detach(), atol=1e-12)


@pytest.mark.parametrize("make", [tiny, discrete])
@pytest.mark.parametrize("chunk", [2**24, 1])
def test_effect_map_equals_single_interventions(make, chunk, monkeypatch):
    monkeypatch.setattr(effect_maps, "CHUNK", chunk)
    model, batch = make(), images()
    times = model.grid.times[::2]
    for change, regions in (
        (KnockOut(), [0, "patches", [5, 6]]),
        (Perturb(0.3, "most_sensitive"), None),
        (Patch(images(seed=2)), ["cls", "patches"]),
        (KnockOutHead(), None),
    ):
        report = effect_map(model, batch, times, change, regions)
        where = list(range(2) if isinstance(change, KnockOutHead) else range(7)) if regions is None else regions
        assert report.kl.shape == (len(times), len(where), 3) and report.regions == tuple(str(r) for r in where)
        for i, t in enumerate(times):
            for j, region in enumerate(where):
                one = intervene(model, batch, t, change.at(region))
                best, rows = one.logits_before.argmax(1), np.arange(3)
                np.testing.assert_allclose(report.kl[i, j], one.kl, atol=1e-10)
                np.testing.assert_allclose(report.size[i, j], one.size, atol=1e-12)
                np.testing.assert_allclose(report.logit_change[i, j], one.delta_logits[rows, best], atol=1e-11)
                lead = margin(one.logits_after, best) - margin(one.logits_before, best)
                np.testing.assert_allclose(report.margin_change[i, j], lead, atol=1e-11)
                assert np.array_equal(report.flipped[i, j], one.flipped)


def test_parts_of_a_map_join_to_the_whole():
    model, batch, regions = tiny(), images(), ["cls", 3, "registers"]
    whole = effect_map(model, batch, [0.0, 1.0], KnockOut(), regions)
    parts = [effect_map(model, batch, [t], KnockOut(), some) for some in (regions[:2], regions[2:]) for t in (1.0, 0.0)]
    for name, values in joined(parts).values().items():
        if name not in ("change", "regions"):
            np.testing.assert_allclose(values, getattr(whole, name), atol=1e-13, err_msg=name)
    assert joined(parts).regions == whole.regions == ("cls", "3", "registers") and joined(parts).flipped.dtype == bool
    with pytest.raises(UserError, match="maps: 1 of 6 pairs of time and region are missing"):
        joined(parts[:3])
    with pytest.raises(UserError, match="maps: 'tokens all to zero' in 1 images is not 'tokens all to zero' in 3"):
        joined([whole, effect_map(model, batch[:1], [0.0], KnockOut())])


def test_reports_come_back_from_their_files(tmp_path):
    report = effect_map(tiny(), images(), [0.0, 1.0], KnockOut())
    loaded = analysis.reports.Report.load(report.save(tmp_path / "map"))
    assert np.array_equal(loaded.kl, report.kl) and loaded.regions == report.regions
    assert "kl [nat]" in report.to_csv(tmp_path / "map").read_text().splitlines()[0]


@pytest.mark.parametrize(
    ("t", "change", "message"),
    [
        (0.3, Change(), "t: 0.3 is not a step of the grid; the nearest is 0.333333"),
        (math.nan, Change(), "t: nan is not a step"),
        (0.0, KnockOut(7), "tokens: 7 is outside 0 to 6"),
        (0.0, KnockOutHead(2), "head: 2 is outside 0 to 1"),
        (0.0, Patch(images(2)), "source_images: 2 for 3 images"),
        (0.0, Patch(torch.zeros(1, 3, 4, 4)), r"images: expected \(B, 3, 8, 8\)"),
        (0.0, Perturb(1.0, torch.zeros(7, 8)), "direction: it is 0"),
        (0.0, Perturb(1.0, torch.ones(6, 8)), "direction: shape"),
    ],
)
def test_bad_input_is_one_line(t, change, message):
    with pytest.raises(UserError, match=message) as caught:
        intervene(tiny(), images(), t, change)
    assert "\n" not in str(caught.value)


def test_bad_settings_and_models():
    for make, message in (
        (lambda: KnockOut(mode="median"), "mode: 'median'"),
        (lambda: Perturb(-1.0), "size: -1.0"),
        (lambda: Perturb(1.0, "sideways"), "direction: 'sideways'"),
        (lambda: intervene(torch.nn.Linear(2, 2), images(), 0.0, Change()), "a Linear has not all of them"),
        (lambda: effect_map(tiny(), images(), [], Change()), "times: none given"),
    ):
        with pytest.raises(UserError, match=message):
            make()
    with pytest.raises(NonFiniteError, match="images is NaN"):
        intervene(tiny(), images() * math.nan, 0.0, Change())
