"""The objective: checkpointing changes nothing, and JaSMin moves what makes the attention maps."""

from dataclasses import replace

import pytest
import torch
from test_trainer import MODEL, SOLVER

from odevit import losses
from odevit.config import LossConfig
from odevit.errors import UserError
from odevit.model import build
from odevit.objective import Objective
from odevit.trajectory import TimeGrid


@pytest.mark.parametrize("loss", [LossConfig(), LossConfig(curvature=0.0, jasmin=0.5, jasmin_k=2)], ids=["curvature", "jasmin"])
def test_checkpointed_segments_give_the_same_loss_and_gradients(loss):
    torch.manual_seed(0)
    model = build(MODEL, replace(SOLVER, steps=6))
    images, targets = torch.randn(5, 1, 8, 8), torch.arange(5)
    found = []
    for segments in (0, 1, 3, 6):
        objective = Objective(model, loss, segments)
        terms = objective(images, targets, TimeGrid(0.0, 2.0, 6, None if objective.needs_states else 1))
        found.append((terms["loss"].detach(), torch.autograd.grad(terms["loss"], list(model.parameters()))))
    for loss_value, gradients in found[1:]:
        assert float((loss_value - found[0][0]).abs()) < 1e-6
        assert max(float((a - b).abs().max()) for a, b in zip(gradients, found[0][1])) < 1e-6


@pytest.mark.parametrize("k", [0, 3])
def test_jasmin_is_the_loss_of_the_maps_and_its_gradient_reaches_queries_and_keys(k):
    torch.manual_seed(0)
    model = build(MODEL, SOLVER)
    config = LossConfig(label_smoothing=0.0, curvature=0.0, jasmin=1.0, jasmin_k=k, jasmin_window=0.6)
    images, targets = torch.randn(4, 1, 8, 8), torch.arange(4)
    terms = Objective(model, config)(images, targets, TimeGrid(0.0, 2.0, 3, 1))
    states = model.trajectory(images).x  # the window holds 0.6 of 3 steps: the evaluations at t = 4/3
    maps = torch.stack([model.field.attention(t, states[i]) for i, t in [(2, 4 / 3)]])
    assert float(terms["jasmin"].detach()) == pytest.approx(float(losses.jasmin(maps, k).detach()), abs=1e-6)
    attention = model.field.blocks[0].attn
    for gradient in torch.autograd.grad(terms["jasmin"], [attention.q.weight, attention.k.weight, model.tokenizer.cls]):
        assert float(gradient.abs().max()) > 0


def test_jasmin_needs_a_method_that_calls_the_whole_field():
    with pytest.raises(UserError, match="loss.jasmin.*strang"):
        Objective(build(MODEL, replace(SOLVER, method="strang")), LossConfig(jasmin=0.1))
