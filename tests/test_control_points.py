"""Control points: every layer has a step, the steps add up, more time for layers in which the teacher moves more."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from odevit import TimeGrid, UserError, ViT, ViTConfig
from odevit.distillation.control_points import apportion, control_times, layer_distances, shares

DISTANCES = st.lists(st.floats(0.0, 500.0), min_size=1, max_size=16)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(DISTANCES, st.integers(0, 60), st.floats(0.1, 100.0))
def test_every_layer_gets_a_step_and_they_add_up(distances, more, temperature):
    steps = len(distances) + more
    counts = apportion(shares(distances, temperature), steps)
    assert sum(counts) == steps and min(counts) >= 1
    times = control_times(counts, TimeGrid(0.0, float(len(distances)), steps))
    assert all(a < b for a, b in zip((0.0, *times), times)) and times[-1] == len(distances)
    order = sorted(range(len(distances)), key=lambda i: distances[i])
    assert all(counts[a] <= counts[b] for a, b in zip(order, order[1:]) if distances[a] < distances[b])


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.floats(0.05, 1.0), min_size=2, max_size=8), st.integers(200, 400))
def test_with_many_steps_the_shares_are_met_within_a_step(weights, steps):
    parts = [w / sum(weights) for w in weights]
    counts = apportion(parts, steps)
    assert all(abs(count - part * steps) < 1 + 1e-6 for count, part in zip(counts, parts))


def test_known_placements():
    assert apportion([0.25] * 4, 4) == [1, 1, 1, 1]
    assert apportion([0.25] * 4, 10) == [3, 3, 2, 2]
    assert apportion([0.97, 0.01, 0.01, 0.01], 8) == [5, 1, 1, 1]
    assert apportion([0.6, 0.39, 0.01], 4) == [2, 1, 1]
    assert shares([0.0, 30.0], 30.0)[1] / shares([0.0, 30.0], 30.0)[0] == pytest.approx(2.718281828)
    assert shares([1.0, 900.0], 1e9) == pytest.approx([0.5, 0.5])
    assert control_times([2, 1, 1], TimeGrid(0.0, 3.0, 4)) == (1.5, 2.25, 3.0)
    with pytest.raises(UserError, match="solver.steps: 3 cannot hold 4 control points, one a layer; use 4 or more"):
        apportion([0.25] * 4, 3)


def test_distances_are_those_between_hidden_states():
    torch.manual_seed(0)
    teacher = ViT(ViTConfig(img_size=8, patch_size=4, in_chans=1, embed_dim=16, num_heads=2, registers=1, depth=3)).eval()
    images = torch.randn(5, 1, 8, 8)
    x = teacher.trajectory(images).x.detach()
    for tokens in (teacher.layout.cls, slice(0, 5)):
        expected = [float((x[l + 1] - x[l])[:, tokens].norm(dim=-1).mean()) for l in range(3)]
        assert layer_distances(teacher, images, tokens, batch_size=2) == pytest.approx(expected, rel=1e-5)
