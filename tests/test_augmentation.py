"""Augmentation: draws belong to samples, not batches; each option does what its paper says."""

import numpy as np
import pytest
import torch
from scipy.stats import beta, kstest

from odevit.config.training import DataConfig
from odevit.data import Augmenter
from odevit.data.draws import stream, uniforms
from odevit.errors import UserError

IDS = torch.arange(64) * 7 + 3


def coded(n: int = 64, size: int = 16) -> torch.Tensor:
    """Images in which every pixel tells its row (channel 0), column (channel 1) and image (channel 2)."""
    rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    return torch.stack([torch.stack([rows, columns, torch.full_like(rows, i)]) for i in range(n)]).to(torch.uint8)


def raw(**options) -> Augmenter:
    """An augmenter whose normalisation is the identity on 0..255."""
    return Augmenter(DataConfig(**options), (0.0,) * 3, (1 / 255,) * 3, num_classes=4, seed=5)


def test_the_hash_is_splitmix64():
    """Published outputs of SplitMix64 for the seeds 0 and 1234567."""
    words = stream(torch.tensor([0, 1234567]), 3)
    expected = [
        [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F],
        [6457827717110365317, 3203168211198807973, 9817491932198370423],
    ]
    assert [[int(w) % 2**64 for w in row] for row in words] == expected


def test_uniforms_are_uniform_and_independent_of_seed_epoch_and_column():
    ids = torch.arange(4000)
    draws = {key: uniforms(*key, ids, 4).numpy() for key in [(0, 0), (1, 0), (0, 1), (2**63, 0), (-1, 0)]}
    table = np.concatenate(list(draws.values()), axis=1)
    assert table.min() >= 0 and table.max() < 1
    assert min(kstest(column, "uniform").pvalue for column in table.T) > 1e-4
    correlation = np.corrcoef(table.T) - np.eye(table.shape[1])
    assert np.abs(correlation).max() < 5 / np.sqrt(len(ids))


@pytest.mark.parametrize("parts", [[64], [1] * 64, [30, 34], [33, 1, 30]])
def test_crop_flip_and_erasing_do_not_depend_on_the_batch(parts):
    augment = Augmenter(DataConfig(crop=3, flip=True, erasing=0.5), (0.4, 0.5, 0.6), (0.2, 0.3, 0.4), 4, seed=5)
    images, labels = coded(), torch.arange(64) % 4
    whole = augment(images, labels, IDS, 2)[0]
    pieces = [augment(*piece, 2)[0] for piece in zip(images.split(parts), labels.split(parts), IDS.split(parts))]
    assert torch.equal(torch.cat(pieces), whole)
    shuffled = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(augment(images[shuffled], labels[shuffled], IDS[shuffled], 2)[0], whole[shuffled])


def test_draws_change_with_epoch_and_seed():
    images, labels = coded(), torch.zeros(64, dtype=torch.int64)
    first = raw(crop=3)(images, labels, IDS, 0)[0]
    assert not torch.equal(first, raw(crop=3)(images, labels, IDS, 1)[0])
    other = Augmenter(DataConfig(crop=3), (0.0,) * 3, (1 / 255,) * 3, 4, seed=6)
    assert not torch.equal(first, other(images, labels, IDS, 0)[0])


def test_switching_an_option_on_leaves_the_other_draws():
    images, labels = coded(), torch.zeros(64, dtype=torch.int64)
    plain = raw(crop=3, flip=True)(images, labels, IDS, 0)[0]
    erased = raw(crop=3, flip=True, erasing=1.0)(images, labels, IDS, 0)[0]
    kept = erased[:, 2] > 0  # image 0 is 0 everywhere
    assert torch.equal(erased.movedim(1, 3)[kept], plain.movedim(1, 3)[kept])


def test_crop_is_a_window_of_the_reflected_image():
    """The twin: numpy.pad in reflect mode; every image equals one of the 49 windows, and all offsets occur."""
    images, labels = coded(n=200), torch.zeros(200, dtype=torch.int64)
    out = raw(crop=3)(images, labels, torch.arange(200), 0)[0].byte().numpy()
    padded = np.pad(images.numpy(), ((0, 0), (0, 0), (3, 3), (3, 3)), mode="reflect")
    offsets = []
    for i, image in enumerate(out):
        matches = [
            (y, x) for y in range(7) for x in range(7) if np.array_equal(padded[i, :, y : y + 16, x : x + 16], image)
        ]
        assert len(matches) == 1
        offsets += matches
    assert {y for y, _ in offsets} == {x for _, x in offsets} == set(range(7))


def test_flip_mirrors_half_of_the_images():
    images, labels = coded(n=200), torch.zeros(200, dtype=torch.int64)
    out = raw(flip=True)(images, labels, torch.arange(200), 0)[0].byte()
    flipped = (out == images.flip(3)).flatten(1).all(1)
    assert torch.equal(out[~flipped], images[~flipped])
    assert 70 < flipped.sum() < 130


def test_erasing_fills_one_rectangle_of_the_stated_area_with_the_mean():
    images, labels = torch.full((300, 3, 32, 32), 200, dtype=torch.uint8), torch.zeros(300, dtype=torch.int64)
    out = Augmenter(DataConfig(erasing=0.4), (0.5,) * 3, (0.25,) * 3, 4, seed=0)(images, labels, torch.arange(300), 0)[0]
    mask = (out == 0).all(1)
    assert torch.equal(mask, (out == 0).any(1))
    hit = mask.flatten(1).any(1)
    assert 0.3 < hit.float().mean() < 0.5
    rows, columns = mask.any(2), mask.any(1)
    assert torch.equal(mask, rows[:, :, None] & columns[:, None, :])  # a product of sets of rows and columns
    for side in (rows, columns):
        assert (side.int().diff(dim=1).abs().sum(1) <= 2).all()  # ... each of which is an interval
    share = mask[hit].double().mean((1, 2))
    assert share.min() > 0.01 and share.max() < 0.36 and abs(share.mean() - (0.02 + 1 / 3) / 2) < 0.03


def test_mixup_is_linear_in_the_image_and_the_next_one_and_so_are_the_targets():
    images, labels = coded(), torch.arange(64) % 4
    out, targets = raw(mixup=0.4)(images, labels, IDS, 0)
    own = torch.where(torch.arange(64) == 63, out[:, 2, 0, 0] / 63, torch.arange(64) + 1 - out[:, 2, 0, 0])
    weight = own[:, None, None, None]
    assert torch.allclose(out, weight * images + (1 - weight) * images.roll(-1, 0), atol=1e-3)
    expected = torch.zeros(64, 4)
    expected[torch.arange(64), labels] += own
    expected[torch.arange(64), labels.roll(-1)] += 1 - own
    assert torch.allclose(targets, expected, atol=1e-4)


@pytest.mark.parametrize("parameter", [0.2, 1.0, 4.0])
def test_mixup_weights_are_beta_distributed(parameter):
    labels = torch.arange(2000) % 2
    targets = raw(mixup=parameter)(coded(1, 2).expand(2000, -1, -1, -1), labels, torch.arange(2000), 0)[1]
    own = targets[torch.arange(2000), labels].double().numpy()
    assert kstest(own, beta(parameter, parameter).cdf).statistic < 1.63 / np.sqrt(2000)  # 1 % point


def test_cutmix_takes_one_box_and_weighs_targets_by_its_area():
    images, labels = coded(), torch.arange(64) % 4
    out, targets = raw(cutmix=1.0)(images, labels, IDS, 0)
    foreign = out[:, 2] != images[:, 2]
    assert torch.equal(out[:, 2][foreign], images.roll(-1, 0)[:, 2].float()[foreign])
    assert torch.equal(foreign, foreign.any(2)[:, :, None] & foreign.any(1)[:, None, :])
    own = 1 - foreign.float().mean((1, 2))
    assert torch.allclose(targets[torch.arange(64), labels], own, atol=1e-6)
    assert torch.allclose(targets.sum(1), torch.ones(64))
    assert 0 < own.min() < 0.5 < own.max() <= 1


def test_a_cutmix_box_inside_the_image_has_the_area_drawn():
    """With a = 10^4 every weight is 1/2 within a few per cent: the box is half of the image, less where the border cuts it."""
    images, labels = coded(500), torch.zeros(500, dtype=torch.int64)
    images[:, 2] = (torch.arange(500) % 2)[:, None, None]
    out = raw(cutmix=1e4)(images, labels, torch.arange(500), 0)[0]
    area = (out[:, 2] != images[:, 2]).float().mean((1, 2))
    assert area.max() == (11 / 16) ** 2  # 16 sqrt(1/2) = 11.3 pixels, rounded down
    assert area.min() < 0.25


def test_with_both_each_sample_draws_one_and_weights_ignore_the_batch():
    images, labels = coded(), torch.arange(64) % 4
    both = raw(mixup=0.4, cutmix=1.0)
    out, targets = both(images, labels, IDS, 0)
    cut = (out == raw(cutmix=1.0)(images, labels, IDS, 0)[0]).flatten(1).all(1)
    mixed = torch.isclose(out, raw(mixup=0.4)(images, labels, IDS, 0)[0]).flatten(1).all(1)
    assert (cut | mixed).all() and 15 < cut.sum() < 49
    half = both(images[:32], labels[:32], IDS[:32], 0)
    assert torch.equal(half[0][:31], out[:31]) and torch.equal(half[1][:31], targets[:31])


def test_a_crop_as_large_as_the_image_is_refused():
    with pytest.raises(UserError, match="data.crop: 16 must be below the image size 16 x 16"):
        raw(crop=16)(coded(2), torch.zeros(2, dtype=torch.int64), torch.arange(2), 0)


def test_without_options_the_batch_is_only_normalised():
    images, labels = coded(), torch.arange(64) % 4
    out, targets = Augmenter(DataConfig(), (0.1, 0.2, 0.3), (0.5, 0.6, 0.7), 4, 0)(images, labels, IDS, 0)
    mean, std = torch.tensor([0.1, 0.2, 0.3]).view(3, 1, 1), torch.tensor([0.5, 0.6, 0.7]).view(3, 1, 1)
    assert torch.allclose(out, (images / 255 - mean) / std, atol=1e-6)
    assert targets is labels
