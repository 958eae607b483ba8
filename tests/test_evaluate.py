"""Evaluation: scores do not depend on the batch size, MACs equal a count by torch, calibration has its closed form."""

import math
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from odevit.config import InputConfig, ODEViTConfig, SolverConfig, ViTConfig
from odevit.data import ImageSet
from odevit.errors import NonFiniteError
from odevit.evaluate import calibration_error, confusion, evaluate, macs, predict, scores, sweep, trained_nfe
from odevit.model import build
from odevit.tables import table
from odevit.trajectory import TimeGrid

MODEL = ODEViTConfig(img_size=8, patch_size=4, in_chans=1, embed_dim=16, num_heads=2, registers=1)
SOLVER = SolverConfig(horizon=2.0, steps=3)


def random_set(n: int, seed: int = 0) -> ImageSet:
    draw = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (n, 1, 8, 8), generator=draw, dtype=torch.uint8)
    return ImageSet(images, torch.randint(0, 10, (n,), generator=draw), tuple("abcdefghij"), "val", "random")


def model_of(config=MODEL, solver=SOLVER, scale: float = 20.0):
    """A model whose head is large enough to tell images apart."""
    torch.manual_seed(0)
    model = build(config, solver, InputConfig((0.5,), (0.25,)))
    with torch.no_grad():
        model.head.weight.mul_(scale)
    return model


@pytest.mark.parametrize("stem", ["patch", "conv"])
def test_scores_do_not_depend_on_the_batch_size_and_count_every_image(stem):
    model, data = model_of(replace(MODEL, stem=stem)).train(), random_set(65)
    found = {size: evaluate(model, data, batch_size=size) for size in (64, 7, 65, 100, 1)}
    for one in found.values():
        assert one.n == 65
        assert one.top1 == found[65].top1 and one.top5 == found[65].top5
        assert one.loss == pytest.approx(found[65].loss, abs=1e-6) and one.ece == pytest.approx(found[65].ece, abs=1e-6)
    counts = [confusion(predict(model, data.images, batch_size=size)[0], data.labels) for size in found]
    assert all(torch.equal(c, counts[0]) for c in counts) and int(counts[0].sum()) == 65
    assert torch.equal(counts[0].sum(1), torch.bincount(data.labels, minlength=10))  # rows are the true classes
    assert float(counts[0].trace()) / 65 == found[65].top1
    assert model.training  # the mode is as it was


def test_scores_of_logits_with_known_answers():
    logits = -100.0 - torch.arange(7).repeat(4, 1)
    logits[torch.arange(3), torch.arange(3)] = 100.0
    logits[3] = torch.tensor([6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0])  # the true class 4 is fifth
    found = scores(logits, torch.tensor([0, 1, 6, 4]), split="val", nfe=3, seconds=2.0)
    assert (found.top1, found.top5, found.images_per_second) == (0.5, 0.75, 2.0)
    total = sum(math.exp(k) for k in range(7))
    assert found.loss == pytest.approx((0 + 0 + 206 + math.log(total) - 2) / 4, abs=1e-9)


def test_calibration_error_is_the_gap_between_confidence_and_accuracy_in_each_bin():
    def rows(*confidences):
        return torch.tensor([[c, 1 - c] for c in confidences], dtype=torch.float64)

    right = torch.tensor([0, 0, 0, 0])
    assert calibration_error(rows(1.0, 1.0, 1.0, 1.0), right) == 0.0
    assert calibration_error(rows(1.0, 1.0, 1.0, 1.0), 1 - right) == 1.0
    # bins are 1/15 wide: .62 and .64 share one (accuracy 1/2), .8 and .9 have their own (accuracy 1 and 0)
    labels = torch.tensor([0, 1, 0, 1])
    expected = (abs(1 - (0.62 + 0.64)) + abs(1 - 0.82) + abs(0 - 0.9)) / 4
    assert calibration_error(rows(0.62, 0.64, 0.82, 0.9), labels) == pytest.approx(expected, abs=1e-12)
    # gaps of different bins do not cancel, those within a bin do
    assert calibration_error(rows(0.75, 0.75, 0.75, 0.75), torch.tensor([0, 0, 0, 1])) == pytest.approx(0.0, abs=1e-12)


CASES = {
    "patch": MODEL,
    "conv": replace(MODEL, img_size=(16, 32), patch_size=8, stem="conv", in_chans=3),
    "conv, patch 1": replace(MODEL, patch_size=1, stem="conv"),
    "l2": replace(MODEL, attention="l2", registers=0),
    "cosine": replace(MODEL, attention="cosine", mlp_ratio=1.5),
    "vit": ViTConfig(img_size=8, patch_size=2, in_chans=1, embed_dim=16, num_heads=2, registers=2, depth=3),
    "vit, parallel": ViTConfig(img_size=8, patch_size=2, in_chans=1, embed_dim=16, num_heads=2, depth=2, block="parallel"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_macs_are_half_of_the_flops_that_torch_counts(name, method):
    config = CASES[name]
    if isinstance(config, ViTConfig) and method != "euler":
        pytest.skip("the layers of a discrete ViT are its steps")
    model = build(config, replace(SOLVER, method=method)).eval()
    flops = []
    for batch in (1, 2):  # the difference leaves out products of weights with weights, which no image costs
        images = torch.zeros(batch, config.in_chans, *config.image_shape)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(images)
        flops.append(counter.get_total_flops())
    assert macs(model) == (flops[1] - flops[0]) / 2
    assert macs(model, 2 * trained_nfe(model)) > macs(model)


def test_asking_for_the_nfe_leaves_the_model_as_it_was():
    model = model_of(replace(MODEL, stem="conv")).train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    assert trained_nfe(model) == 3 and model.training
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert trained_nfe(model_of(solver=SolverConfig(method="dopri5", horizon=2.0))) > 6


def test_a_sweep_finds_no_change_for_the_trained_solver_and_the_change_of_others():
    model, data = model_of(), random_set(50)
    rows = sweep(model, data, ["euler", "rk4", "dopri5"], [3, 12])
    same = rows[0]
    assert (same["method"], same["steps"], same["nfe"]) == ("euler", 3, 3)
    assert (same["change"], same["flips"], same["max_dlogit"]) == (0.0, 0.0, 0.0)
    assert [row["steps"] for row in rows] == [3, 12, 3, 12, None]
    base, other = predict(model, data.images)[0], predict(model, data.images, grid=TimeGrid(0.0, 2.0, 12), method="rk4")[0]
    row = rows[3]
    assert row["max_dlogit"] == float((base - other).abs().max()) > 0
    assert row["flips"] == float((base.argmax(1) != other.argmax(1)).double().mean())
    assert row["change"] == pytest.approx(row["top1"] - same["top1"]) and row["nfe"] == 48
    assert rows[4]["max_dlogit"] == pytest.approx(row["max_dlogit"], abs=1e-3)  # both are the exact flow to that
    assert "dopri5" in table(rows) and "problem" not in table(rows)


def test_a_solver_that_blows_up_is_a_row_with_its_cause_and_without_numbers():
    model, data = model_of(solver=SolverConfig(horizon=1e13, steps=8)), random_set(4)
    with torch.no_grad():  # x' = F(x) with products near 1e-13 for the trained steps, 1e38 and more for a single one
        model.field.blocks[0].mlp.fc1.weight.fill_(1e12)
        model.field.blocks[0].mlp.fc2.weight.fill_(1e12)
    with pytest.raises(NonFiniteError, match=r"state blows up: not finite at t = .*image 0 of the batch"):
        predict(model, data.images)
    calm = model_of(solver=SOLVER)
    with torch.no_grad():
        for layer in (calm.field.blocks[0].mlp.fc1, calm.field.blocks[0].mlp.fc2):
            layer.weight.mul_(3e4)  # growth of 1e9 a step: three steps stay below 1e38, thirty do not
    rows = sweep(calm, data, ["euler"], [3, 30])
    assert rows[0]["problem"] == "" and rows[0]["change"] == 0.0
    assert "blows up" in rows[1]["problem"] and rows[1]["top1"] is None and rows[1]["n"] == 4
    assert "blows up" in table(rows)


@pytest.mark.parametrize("method", ["euler", "dopri5"])
def test_broken_weights_are_named_whatever_the_solver(method):
    model = model_of(solver=replace(SOLVER, method=method))
    with torch.no_grad():
        model.tokenizer.stem.weight[0, 0, 0, 0] = math.nan
    with pytest.raises(NonFiniteError, match=r"weights hold NaN or infinite values: tokenizer\.stem\.weight$"):
        predict(model, random_set(3).images)
