"""Learning rate, moving average, weight groups and devices, against their closed forms."""

import math
from dataclasses import replace

import pytest
import torch
from test_trainer import MODEL, SOLVER, digits, tiny, trained

from odevit.checkpoint import load_model
from odevit.errors import UserError
from odevit.model import build
from odevit.optimisation import moving_average, parameter_groups, pick_device, schedule
from odevit.trainer import Trainer


@pytest.fixture(scope="module")
def data():
    """64 images to train on (4 batches of 16), 40 to validate on."""
    return digits()


def test_the_learning_rate_rises_linearly_and_falls_as_half_a_cosine(tmp_path, data):
    rates = [schedule(step, 100, 0.1) for step in range(101)]
    assert rates[:10] == pytest.approx([(k + 1) / 10 for k in range(10)])
    assert rates[10:] == pytest.approx([math.cos(math.pi * k / 180) ** 2 for k in range(91)])  # (1 + cos 2a) / 2 = cos^2 a
    assert schedule(0, 100, 0.0) == 1.0
    history = trained(tiny(tmp_path / "r", optim__warmup=0.0), data).progress.history  # 8 steps, the rate of an epoch's last
    assert [row["lr"] for row in history] == pytest.approx([5e-3 * schedule(3, 8, 0.0), 5e-3 * schedule(7, 8, 0.0)])


def test_the_moving_average_has_its_closed_form_and_is_what_is_judged_and_kept(tmp_path, data):
    update, a = moving_average(0.5), torch.tensor(0.0)
    for n in range(1, 40):  # x = 1: the distance to it is the product of the decays min(1/2, (1 + n) / (10 + n))
        a = update(a, torch.tensor(1.0), n)
    decays = [min(0.5, (1 + n) / (10 + n)) for n in range(1, 40)]
    assert 1 - float(a) == pytest.approx(math.prod(decays), abs=1e-6)
    config, kept = tiny(tmp_path / "r", optim__ema=0.99, optim__epochs=1), []
    trainer = Trainer(config, data)
    plain = trainer.optimizer.step

    def step():
        plain()
        kept.append(trainer.model.head.weight.detach().clone())

    trainer.optimizer.step = step
    trainer.fit()
    expected = kept[0]
    for n, weight in enumerate(kept[1:], 1):
        d = min(0.99, (1 + n) / (10 + n))
        expected = d * expected + (1 - d) * weight
    saved = load_model(config.out)
    assert torch.allclose(saved.head.weight, expected, atol=1e-7)
    assert not torch.allclose(saved.head.weight, trainer.model.head.weight, atol=1e-4)


def test_only_matrices_decay():
    model = build(replace(MODEL, time_frequencies=2, bias=True, stem="conv"), SOLVER)
    decayed, plain = parameter_groups(model, 0.3)
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.3, 0.0)
    names = {id(p): n for n, p in model.named_parameters()}
    assert len(decayed["params"]) + len(plain["params"]) == len(names)
    free = {names[id(p)] for p in plain["params"]}
    assert {"tokenizer.cls", "tokenizer.registers", "tokenizer.positions", "field.time_weight", "head.bias"} <= free
    assert all(n.endswith(".weight") and "norm" not in n for n in (names[id(p)] for p in decayed["params"]))


@pytest.mark.parametrize("name", ["cpux", "tpu", "cuda:99", "meta"])
def test_an_unknown_device_is_one_line(name):
    with pytest.raises(UserError, match="device: .*" + name):
        pick_device(name)
