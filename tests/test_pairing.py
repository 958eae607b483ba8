"""Paths of two models on common axes: a rotated copy is recognised, shared axes keep distances, strangers are refused."""

import numpy as np
import pytest
import torch

from analysis.token_paths import principal_basis
from analysis.token_paths.pairing import mismatch, paired_paths
from odevit import TokenLayout, Trajectory, UserError

LAYOUT, BARE = TokenLayout(registers=1, grid=(1, 2)), TokenLayout(grid=(1, 3))


def randn(*shape, seed=0):
    """Gaussian float64 numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sampled(x, layout=LAYOUT, times=None):
    """A trajectory of states from elsewhere."""
    times = range(len(x)) if times is None else times
    return Trajectory(torch.as_tensor(times, dtype=torch.float64), x, "sampled", None, 0, layout)


def test_the_same_path_twice_is_at_distance_zero_on_pooled_axes():
    x = randn(4, 2, 4, 5)
    one, two = paired_paths(sampled(x), sampled(x), tokens="all")
    assert mismatch(one, two) == 0 and np.array_equal(one.coordinates, two.coordinates)
    assert np.allclose(one.coordinates, principal_basis(x, k=3).apply(x), atol=1e-12) and one.patch_grid == (1, 2)


def test_pooled_axes_keep_the_distance_of_paths_in_their_plane():
    flat = torch.cat([randn(4, 2, 4, 3), torch.zeros(4, 2, 4, 4, dtype=torch.float64)], -1)
    moved = flat + torch.eye(7, dtype=torch.float64)[0]
    one, two = paired_paths(sampled(flat), sampled(moved), tokens="all")
    assert np.allclose(np.linalg.norm(two.coordinates - one.coordinates, axis=-1), 1.0)


@pytest.mark.parametrize("width", [5, 8])
def test_a_turned_and_moved_copy_of_any_width_is_the_same_path_when_aligned(width):
    x = randn(4, 3, 4, 5)
    x[..., 3:] = 0  # three axes hold all of it
    turn = torch.linalg.qr(randn(width, width, seed=1))[0][:5]
    one, two = paired_paths(sampled(x), sampled(x @ turn + 3.0), tokens="all", aligned=True)
    assert mismatch(one, two) < 1e-12 and np.allclose(one.coordinates, two.coordinates, atol=1e-10)
    assert np.allclose(one.variances[:3], two.variances[:3])


def test_aligning_turns_and_does_not_stretch():
    x = randn(5, 2, 4, 6)
    one, two = paired_paths(sampled(x, BARE), sampled(2 * x, BARE), tokens="all", aligned=True)
    assert mismatch(one, two) == pytest.approx(1.0)
    assert np.linalg.norm(two.coordinates) == pytest.approx(2 * np.linalg.norm(one.coordinates))
    assert np.allclose(two.coordinates.reshape(-1, 3).var(0), two.variances[:3])
    assert np.allclose((2 * x.numpy() - two.basis_mean) @ two.basis_components.T, two.coordinates)


def test_no_turn_of_the_second_comes_closer():
    one, two = paired_paths(sampled(randn(5, 2, 4, 6)), sampled(randn(5, 2, 4, 7, seed=1)), tokens="all", aligned=True)
    patches = slice(0, 3)  # CLS and the two patches, which both have
    a, b = (r.coordinates[:, :, patches].reshape(-1, 3) for r in (one, two))
    best = np.linalg.norm(a - b)
    for seed in range(20):
        turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))[0]
        assert np.linalg.norm(a - b @ turn) >= best - 1e-12


def test_equal_shares_of_the_time_belong_together():
    line = torch.linspace(0, 1, 5, dtype=torch.float64)[:, None, None, None] * randn(1, 2, 4, 3) + randn(1, 2, 4, 3, seed=1)
    coarse = sampled(line[::4], times=[0.0, 10.0])
    assert mismatch(*paired_paths(sampled(line), coarse, tokens="all")) < 1e-12


def test_other_registers_are_left_out_of_the_match():
    x = randn(4, 2, 4, 3)
    other = torch.cat([x[:, :, :3], randn(4, 2, 3, 3, seed=2)], 2)
    one, two = paired_paths(sampled(x), sampled(other, TokenLayout(3, (1, 2))), tokens="all")
    assert mismatch(one, two) < 1e-12 and one.coordinates.shape[2] == 4 and two.coordinates.shape[2] == 6


def test_cls_alone_has_axes_of_its_own():
    one, two = paired_paths(sampled(randn(4, 2, 4, 5)), sampled(randn(6, 2, 4, 5, seed=1)))
    assert one.coordinates.shape == (4, 2, 1, 3) and two.coordinates.shape == (6, 2, 1, 3)
    assert np.array_equal(one.basis_components, two.basis_components)


@pytest.mark.parametrize(
    "change, said",
    [
        ({"second": sampled(randn(3, 2, 4, 6))}, "axes: widths 5 and 6 have no axes in common"),
        ({"second": sampled(randn(3, 1, 4, 5))}, "second: 1 images, the first has 2"),
        ({"tokens": "patches"}, "tokens: 'patches' is unknown"),
    ],
)
def test_what_cannot_be_paired_is_said(change, said):
    first, second = sampled(randn(4, 2, 4, 5)), sampled(randn(4, 2, 4, 5))
    with pytest.raises(UserError, match=said):
        paired_paths(**({"first": first, "second": second} | change))
