"""Attention along t: entropy, distance, mass, rollout in the right order, and what is kept in memory."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import randomise

import odevit
from analysis import attention_maps
from analysis.attention_maps import (
    attention_along,
    attention_distance,
    attention_entropy,
    attention_rows,
    patch_distances,
    rollout,
)
from odevit import NonFiniteError, TokenLayout, UserError
from odevit.config import ODEViTConfig, SolverConfig, ViTConfig

SMALL = {"img_size": 8, "patch_size": 4, "embed_dim": 8, "num_heads": 2, "registers": 2, "num_classes": 5}


def tiny(solver=None, **config):
    """A float64 model of 1 + 4 + 2 tokens with weights of size 1."""
    torch.manual_seed(0)
    model = odevit.ODEViT(ODEViTConfig(**(SMALL | config)), solver or SolverConfig("euler", 1.0, 4))
    randomise(model.field, 1.0, torch.Generator().manual_seed(0))
    return model.double().eval()


def images(count=3):
    """Random images of the tiny model."""
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def stochastic(*shape, seed=0):
    """Random row-stochastic matrices."""
    return (2 * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)).softmax(-1)


def test_uniform_and_one_hot_rows():
    layout = TokenLayout(registers=3, grid=(8, 8))
    uniform = torch.full((68, 68), 1 / 68, dtype=torch.float64)
    assert attention_entropy(uniform)[0] == pytest.approx(math.log(68))
    assert float(attention_distance(uniform, layout).mean()) == pytest.approx(4.136483, abs=5e-7)
    corner = torch.zeros(68, 68, dtype=torch.float64)
    corner[:, 64] = 1.0  # everyone looks at the last patch
    assert attention_entropy(corner)[5] == 0
    distance = attention_distance(corner, layout)
    assert distance[0] == pytest.approx(7 * math.sqrt(2)) and distance[63] == 0 and distance[62] == 1


def test_distance_on_an_oblong_grid_goes_row_by_row():
    away = patch_distances(TokenLayout(grid=(2, 3)))
    assert away[0, 2] == 2 and away[0, 3] == 1 and away[0, 5] == pytest.approx(math.sqrt(5))


def test_distance_ignores_cls_and_registers():
    layout = TokenLayout(registers=1, grid=(2, 2))
    p = stochastic(6, 6)
    more = torch.cat([p[:, :1] + 1, p[:, 1:5], p[:, 5:] + 2], 1) / 4  # the same share among patches
    np.testing.assert_allclose(attention_distance(more, layout), attention_distance(p, layout), rtol=1e-13)
    assert attention_distance(torch.eye(6).double()[[0] * 6], layout).isnan().all()  # looks at CLS only


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(2, 9))
def test_entropy_range_and_softmax_norm(seed, n):
    p = stochastic(4, n, seed=seed)
    entropy = attention_entropy(p)
    assert (entropy >= 0).all() and (entropy <= math.log(n) + 1e-12).all()
    norm = torch.linalg.eigvalsh(torch.diag_embed(p) - p[:, :, None] * p[:, None, :])[:, -1]
    assert (norm <= torch.minimum(entropy, torch.tensor(0.5)) + 1e-12).all()
    assert (norm <= attention_maps.softmax_gap(p) + 1e-12).all() and (attention_maps.softmax_gap(p) <= 0.5 + 1e-12).all()


def test_rollout_order_by_hand():
    """Layer 1: CLS reads patch 1. Layer 2: patch 1 reads patch 2. So CLS after layer 2 holds nothing of patch 2."""
    first, second = torch.eye(3).double(), torch.eye(3).double()
    first[0] = torch.tensor([0.0, 1.0, 0.0])
    second[1] = torch.tensor([0.0, 0.0, 1.0])
    right = rollout(torch.stack([first, second]))
    np.testing.assert_allclose(right[1, 0], [0.5, 0.5, 0.0])
    np.testing.assert_allclose(right[1, 1], [0.0, 0.5, 0.5])
    np.testing.assert_allclose(right.sum(-1), 1)
    a, b = ((torch.eye(3).double() + p) / 2 for p in (first, second))
    np.testing.assert_allclose(right[1], b @ a)
    for wrong in ((a @ b)[0], (b @ a)[:, 0], (a @ b)[:, 0]):  # reversed, transposed, both
        assert not np.allclose(wrong, [0.5, 0.5, 0.0])


def test_rollout_of_uniform_layers_forgets_the_origin():
    products = rollout(torch.full((20, 5, 5), 0.2, dtype=torch.float64))
    np.testing.assert_allclose(products[0, 2], [0.1, 0.1, 0.6, 0.1, 0.1])
    np.testing.assert_allclose(products[-1], 0.2, atol=1e-5)


def test_a_model_without_queries_attends_evenly():
    model = tiny()
    with torch.no_grad():
        model.field.blocks[0].attn.q.weight.zero_()
    report = attention_along(model, model.trajectory(images()))
    np.testing.assert_allclose(report.entropy, math.log(7), rtol=1e-12)
    np.testing.assert_allclose(report.mass, np.broadcast_to([1 / 7, 4 / 7, 2 / 7], (5, 3, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(report.cls_maps, 1 / 7, rtol=1e-12)
    np.testing.assert_allclose(report.distance, (2 + math.sqrt(2)) / 4, rtol=1e-12)
    np.testing.assert_allclose(report.softmax_bound, 1 / 7, rtol=1e-12)


def test_maps_masses_and_rollout_of_a_model():
    model, batch = tiny(), images()
    trajectory = model.trajectory(batch)
    report = attention_along(model, trajectory, full=True)
    with torch.no_grad():
        maps = torch.stack([model.field.attention(t, x) for t, x in zip(trajectory.t, trajectory.x)])
    np.testing.assert_allclose(report.maps, maps, atol=1e-14)
    assert report.row_sum_error < 1e-14
    np.testing.assert_allclose(report.mass.sum(-1), 1)
    np.testing.assert_allclose(report.cls_mass[..., 2], maps[..., 0, 5:].sum(-1))
    np.testing.assert_allclose(report.cls_mean[2, 1], maps[2, 1, :, 0, 1:5].mean(0).reshape(2, 2))
    products = rollout(maps.mean(2)[:, 1])
    np.testing.assert_allclose(report.rollout[:, 1], products[:-1, 0])  # the map at T is used by no step
    assert report.rollout_time.tolist() == [0.25, 0.5, 0.75, 1.0]
    np.testing.assert_allclose(report.rollout_maps[3, 1].ravel(), products[3, 0, 1:5])


def test_images_in_turn_give_the_same_numbers(monkeypatch):
    model = tiny()
    trajectory = model.trajectory(images(5))
    whole = attention_along(model, trajectory, full=True)
    monkeypatch.setattr(attention_maps, "CHUNK", 2 * 2 * 7 * 7)  # two images at a time
    parts = attention_along(model, trajectory, full=True)
    for name in ("entropy", "rollout", "maps", "distance"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), atol=1e-14)
    assert attention_along(model, trajectory).maps is None


def test_full_maps_beyond_the_limit_are_refused_with_their_size(monkeypatch):
    model = tiny()
    monkeypatch.setattr(attention_maps, "FULL_LIMIT", 1000)
    with pytest.raises(UserError, match=r"5 times, 3 images, 2 heads, 7\^2\) are 1.1e-05 GiB"):
        attention_along(model, model.trajectory(images()), full=True)


def test_a_discrete_net_has_one_map_a_layer():
    torch.manual_seed(0)
    vit = odevit.ViT(ViTConfig(**SMALL, depth=3)).double()
    trajectory = vit.trajectory(images())
    report = attention_along(vit, trajectory, full=True)
    assert report.time.tolist() == [0, 1, 2] and report.rollout_time.tolist() == [1, 2, 3]
    with torch.no_grad():
        last = vit.field.blocks[2].maps(trajectory.x[2])
    np.testing.assert_allclose(report.maps[2], last, atol=1e-14)


def test_bad_input():
    model = tiny()
    trajectory = model.trajectory(images())
    with pytest.raises(UserError, match="attention: it needs a model with attention maps"):
        attention_along(lambda t, x: x, trajectory)
    with pytest.raises(NonFiniteError, match="trajectory is NaN"):
        attention_along(model, odevit.Trajectory(trajectory.t, trajectory.x * math.nan, "euler", 0.25, 4, trajectory.layout))


@pytest.mark.parametrize("query", [0, 2, 6])
def test_the_rows_of_one_query_are_those_of_the_full_maps(query):
    model = tiny()
    trajectory = model.trajectory(images())
    everything, rows = attention_along(model, trajectory, full=True), attention_rows(model, trajectory, query)
    np.testing.assert_allclose(rows.rows, everything.maps[..., query, :], rtol=1e-13)
    products = rollout(torch.from_numpy(everything.maps[:-1]).mean(2))
    np.testing.assert_allclose(rows.rollout, products[:, :, query].numpy(), rtol=1e-12)
    assert rows.query == query and np.array_equal(rows.rollout_time, everything.rollout_time)


def test_a_query_that_is_no_token_is_refused():
    model = tiny()
    with pytest.raises(UserError, match="query: 7 is outside 0 to 6"):
        attention_rows(model, model.trajectory(images(1)), 7)
