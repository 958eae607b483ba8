"""Sources, splits, folders and pixels: what is read is what is there, and bad input is named."""

import hashlib
import io
import logging
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision.datasets import CIFAR10

from odevit.config.training import DataConfig
from odevit.data import ImageSet, check_folder, describe, load, normalise, read_pixels, to_pixels
from odevit.data.pixels import fit_pixels
from odevit.data.splits import stratified
from odevit.errors import UserError

RNG = np.random.default_rng(0)


def noise(size: int = 12, channels: int = 3) -> np.ndarray:
    return RNG.integers(0, 256, (size, size, channels), dtype=np.uint8)


def save(path, array=None, **options):
    """Write an image (random unless given), making its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise() if array is None else array).save(path, **options)
    return path


def small(source, splits=("train", "val", "test"), classes=None, **options):
    options = {"val_fraction": 0.25} | options
    return load(DataConfig(source=str(source), **options), image_shape=(8, 8), channels=3, splits=splits, classes=classes)


def message(*args, **options) -> str:
    """The one line with which `small` refuses."""
    with pytest.raises(UserError) as caught:
        small(*args, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ------------------------------------------------------------------ splits


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=80), st.integers(0, 3), st.sampled_from([(0.6, 0.2, 0.2), (0.9, 0.1)]))
def test_stratified_parts_partition_the_set_and_keep_the_shares(labels, seed, shares):
    labels = np.array(labels)
    parts = stratified(labels, shares, seed)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    for label in np.unique(labels):
        total = (labels == label).sum()
        for part, share in zip(parts, shares):
            assert abs((labels[part] == label).sum() - share * total) <= 1
    again = stratified(labels, shares, seed)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again))


def test_the_split_of_the_digits_is_frozen():
    """The shipped model was selected on this split: another one would put its training images into the test set."""
    sets = load(DataConfig(), image_shape=(8, 8), channels=1, splits=("train", "val", "test"))
    assert [len(s) for s in sets.values()] == [1078, 360, 359]
    assert stratified(np.zeros(10, dtype=int), (0.6, 0.4), 0)[1].tolist() == [4, 6, 7, 8]
    assert not np.array_equal(stratified(np.zeros(50), (0.5, 0.5), 0)[0], stratified(np.zeros(50), (0.5, 0.5), 1)[0])


def test_digits_are_sklearns_scaled_to_255():
    from sklearn.datasets import load_digits

    sets = load(DataConfig(), image_shape=(8, 8), channels=1, splits=("train", "val", "test"))
    levels = torch.cat([s.images for s in sets.values()]).flatten(1) * (16 / 255)
    rows = torch.cat([levels.round().int(), torch.cat([s.labels for s in sets.values()])[:, None]], 1).tolist()
    bunch = load_digits()
    assert sorted(rows) == sorted([*map(int, image), int(label)] for image, label in zip(bunch.data, bunch.target))
    assert max(int(s.images.max()) for s in sets.values()) == 255
    assert sets["val"].classes == tuple("0123456789")


# ------------------------------------------------------------------ ImageSet


def test_statistics_and_normalise_give_zero_mean_and_unit_deviation():
    images = torch.from_numpy(RNG.integers(0, 256, (9000, 3, 2, 2), dtype=np.uint8)) // torch.tensor([1, 2, 5]).view(3, 1, 1)
    data = ImageSet(images.byte(), torch.zeros(9000, dtype=torch.int64), ("a", "b"), "train", "x")
    mean, std = data.statistics()
    exact = images.double() / 255
    assert torch.allclose(torch.tensor(mean).double(), exact.mean((0, 2, 3)))
    assert torch.allclose(torch.tensor(std).double(), exact.std((0, 2, 3), correction=0))
    out = normalise(data.images, mean, std).double()
    assert out.mean((0, 2, 3)).abs().max() < 1e-6 and (out.std((0, 2, 3), correction=0) - 1).abs().max() < 1e-6


def test_a_constant_channel_stays_finite():
    data = ImageSet(torch.full((3, 1, 2, 2), 7, dtype=torch.uint8), torch.zeros(3), ("a",), "train", "x")
    assert normalise(data.images, *data.statistics()).abs().max() < 1e-6


def test_normalise_refuses_floats_and_wrong_channels():
    with pytest.raises(UserError, match=r"torch.float32 instead of uint8"):
        normalise(torch.zeros(1, 3, 2, 2), (0.0,) * 3, (1.0,) * 3)
    with pytest.raises(UserError, match="1 channels, but 3 means"):
        normalise(torch.zeros(1, 1, 2, 2, dtype=torch.uint8), (0.0,) * 3, (1.0,) * 3)


def test_subset_keeps_images_with_their_labels():
    data = load(DataConfig(), image_shape=(8, 8), channels=1)["val"]
    part = data.subset([5, 2])
    assert torch.equal(part.images, torch.stack([data.images[5], data.images[2]]))
    assert part.labels.tolist() == [int(data.labels[5]), int(data.labels[2])] and len(part) == 2


# ------------------------------------------------------------------ pixels


def grey_levels() -> np.ndarray:
    return np.arange(256, dtype=np.uint8).reshape(16, 16)


def pixels(image: Image.Image, channels: int = 3) -> np.ndarray:
    return to_pixels(image, (image.height, image.width), channels).numpy()


def test_16_bit_grey_is_scaled_to_8():
    deep = Image.fromarray(grey_levels().astype(np.uint16) * 257)
    assert deep.mode == "I;16"
    assert np.array_equal(pixels(deep, 1)[0], grey_levels())
    assert np.array_equal(pixels(deep), np.stack([grey_levels()] * 3))


def test_grey_is_repeated_and_colour_weighed():
    assert np.array_equal(pixels(Image.fromarray(grey_levels())), np.stack([grey_levels()] * 3))
    rgb = noise()
    luma = rgb @ np.array([0.299, 0.587, 0.114])
    assert np.abs(pixels(Image.fromarray(rgb), 1)[0] - luma).max() <= 1
    bits = grey_levels() > 99
    assert np.array_equal(pixels(Image.fromarray(bits), 1)[0], np.where(bits, 255, 0))


def test_alpha_is_composited_on_white():
    rgba = noise(channels=4)
    alpha = rgba[..., 3:] / 255
    expected = rgba[..., :3] * alpha + 255 * (1 - alpha)
    assert np.abs(pixels(Image.fromarray(rgba)).transpose(1, 2, 0) - expected).max() <= 1
    la = noise(channels=2)
    expected = la[..., 0] * (la[..., 1] / 255) + 255 * (1 - la[..., 1] / 255)
    assert np.abs(pixels(Image.fromarray(la, "LA"), 1)[0] - expected).max() <= 1


@pytest.mark.parametrize("mode", ["L", "RGB", "P", "1"])
def test_a_transparent_colour_shows_white(mode):
    """PNG's tRNS chunk: one level, colour or palette entry is see-through."""
    image = Image.new("RGB", (4, 4), (200, 10, 10)).convert(mode, dither=Image.Dither.NONE)
    key = image.getpixel((0, 0))
    image.putpixel((1, 1), tuple(255 - k for k in key) if mode == "RGB" else 255 - key)
    file = io.BytesIO()
    image.save(file, "PNG", transparency=key)
    file.seek(0)
    out = read_pixels(file, (4, 4), 3).numpy()
    plain = np.asarray(image.convert("RGB"))[1, 1]
    assert np.array_equal(out[:, 1, 1], plain)
    assert (np.delete(out.reshape(3, -1), 5, axis=1) == 255).all()


def test_cmyk_and_hsv_are_converted():
    cmyk = np.zeros((2, 2, 4), np.uint8)
    cmyk[0, 0] = (0, 0, 0, 255)
    cmyk[0, 1] = (255, 0, 0, 0)
    out = pixels(Image.fromarray(cmyk, "CMYK"))
    assert out[:, 0, 0].tolist() == [0, 0, 0] and out[:, 0, 1].tolist() == [0, 255, 255] and out[:, 1, 1].tolist() == [255] * 3
    rgb = Image.fromarray(noise())
    assert np.abs(pixels(rgb.convert("HSV")).astype(int) - pixels(rgb)).max() < 12  # 8-bit hues


@pytest.mark.parametrize("mode", ["I", "F"])
def test_modes_without_a_known_white_are_refused_by_name(mode):
    with pytest.raises(UserError, match=f"image mode {mode}: "):
        to_pixels(Image.new(mode, (4, 4)), (4, 4), 3)


def test_channels_other_than_1_and_3_are_refused():
    with pytest.raises(UserError, match="in_channels: 4"):
        to_pixels(Image.new("RGB", (4, 4)), (4, 4), 4)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation_shows_the_scene_upright(orientation):
    """The stored array is the scene under the inverse of what the tag (EXIF 2.3, Orientation) asks for."""
    scene = np.stack([np.arange(12, dtype=np.uint8).reshape(3, 4) * 20] * 3, axis=-1)
    stored = {
        1: scene,
        2: scene[:, ::-1],
        3: scene[::-1, ::-1],
        4: scene[::-1],
        5: scene.swapaxes(0, 1),
        6: np.rot90(scene, 1),
        7: scene[::-1, ::-1].swapaxes(0, 1),
        8: np.rot90(scene, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(stored)).save(file, "PNG", exif=exif)
    file.seek(0)
    assert np.array_equal(read_pixels(file, (3, 4), 3).permute(1, 2, 0).numpy(), scene)


def test_resizing_crops_the_centre_and_keeps_the_aspect():
    bands = np.zeros((10, 30, 3), np.uint8)
    bands[:, :10, 0] = bands[:, 10:20, 1] = bands[:, 20:, 2] = 255
    green = torch.tensor([0, 255, 0])
    assert (to_pixels(Image.fromarray(bands), (5, 5), 3)[:, :, 1:4] == green.view(3, 1, 1)).all()
    tall = Image.fromarray(bands.swapaxes(0, 1).copy())
    assert (to_pixels(tall, (5, 5), 3)[:, 1:4] == green.view(3, 1, 1)).all()
    assert to_pixels(Image.fromarray(bands), (4, 12), 3)[:, :, [0, 11]].flatten(1).max(1).values.tolist() == [255, 0, 255]


def test_resizing_is_antialiased_and_exact_on_ramps():
    board = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)
    assert (to_pixels(Image.fromarray(board), (8, 8), 1).float() - 127.5).abs().max() <= 1.5
    ramp = np.tile(np.arange(64, dtype=np.uint8) * 4, (64, 1))
    middle = to_pixels(Image.fromarray(ramp), (16, 16), 1)[0, 8, 4:12]
    assert torch.allclose(middle.float(), torch.arange(4, 12) * 16 + 6.0, atol=1.0)


def test_a_strip_of_one_pixel_height_survives():
    assert to_pixels(Image.new("RGB", (3000, 1), (9, 9, 9)), (8, 8), 3).unique().tolist() == [9]


def test_array_file_and_upload_give_the_same_bits(tmp_path):
    array = noise(40)
    from_file = read_pixels(save(tmp_path / "a.png", array), (8, 8), 3)
    assert torch.equal(from_file, to_pixels(Image.fromarray(array), (8, 8), 3))
    assert torch.equal(from_file, fit_pixels(array[None], (8, 8), 3)[0])
    assert torch.equal(fit_pixels(array[None], (40, 40), 3)[0], torch.from_numpy(array).permute(2, 0, 1))


# ------------------------------------------------------------------ .npz


def arrays(n: int = 24, classes: int = 3, splits=("train", "val", "test")) -> dict:
    made = {}
    for split in splits:
        made[f"{split}_images"] = RNG.integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)
        made[f"{split}_labels"] = (np.arange(n, dtype=np.uint8) % classes)[:, None]
    return made


def npz(tmp_path, **content):
    path = tmp_path / "data.npz"
    np.savez(path, **content)
    return path


def test_npz_round_trip(tmp_path):
    content = arrays()
    sets = small(npz(tmp_path, **content, class_names=np.array(["x", "y", "z"])))
    for split, data in sets.items():
        assert np.array_equal(data.images.permute(0, 2, 3, 1).numpy(), content[f"{split}_images"])
        assert np.array_equal(data.labels.numpy(), content[f"{split}_labels"][:, 0]) and data.classes == ("x", "y", "z")


def test_npz_grey_flat_labels_and_no_names(tmp_path):
    content = {"train_images": RNG.integers(0, 256, (8, 8, 8), dtype=np.uint8), "train_labels": np.arange(8) % 2}
    sets = small(npz(tmp_path, **content), splits=("train", "val"))
    assert sets["train"].classes == ("0", "1") and len(sets["train"]) == 6 and len(sets["val"]) == 2
    both = torch.cat([sets["train"].images, sets["val"].images])
    assert sorted(both[:, 1].flatten(1).tolist()) == sorted(content["train_images"].reshape(8, -1).tolist())


def test_training_reads_neither_test_images_nor_test_labels(tmp_path):
    content = arrays() | {"test_images": np.zeros(1), "test_labels": np.array([[99]])}
    path = npz(tmp_path, **content)
    assert len(small(path, splits=("train", "val"))["val"]) == 24
    assert "test_images is float64, not uint8" in message(path)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"val_labels": None}, "no array val_labels (found: train_images, train_labels, val_images"),
        ({"train_images": None, "train_labels": None}, "no array train_labels"),
        ({"train_images": np.array([{}] * 24, dtype=object)}, "train_images is an object array"),
        ({"train_labels": np.array([None] * 24, dtype=object)}, "train_labels is an object array"),
        ({"train_images": np.zeros((24, 8, 8, 3))}, "train_images is float64, not uint8"),
        ({"train_images": np.zeros((24, 8, 8, 8), np.uint8)}, "train_images has shape (24, 8, 8, 8), not (n, H, W)"),
        ({"train_images": np.zeros((23, 8, 8, 3), np.uint8)}, "23 train_images, but 24 train_labels"),
        ({"val_labels": np.full(24, 3)}, "val_labels has 3, out of range for 3 classes (0 to 2)"),
        ({"train_labels": np.arange(24) - 1}, "train_labels has -1, out of range"),
        ({"train_labels": np.zeros(24)}, "train_labels is float64, not an integer type"),
        ({"train_labels": np.zeros((24, 5), int)}, "train_labels has shape (24, 5), not (n,) or (n, 1): one label per image"),
        ({"train_labels": np.zeros(24, int), "val_labels": np.zeros(24, int)}, "only one class (0)"),
        ({"val_images": np.zeros((0, 8, 8, 3), np.uint8), "val_labels": np.zeros(0, int)}, "no images in split val"),
    ],
)
def test_a_bad_npz_is_named(tmp_path, change, expected):
    content = {name: array for name, array in (arrays() | change).items() if array is not None}
    assert expected in message(npz(tmp_path, **content), splits=("train", "val"))


def test_broken_npz_files_are_named(tmp_path):
    path = npz(tmp_path, **arrays())
    whole = path.read_bytes()
    for broken in (b"", b"<html>", whole[:-200], whole[:3000]):
        path.write_bytes(broken)
        assert f"{path}: not an .npz file" in message(path)
    middle = bytearray(whole)
    middle[2000:2100] = bytes(100)
    path.write_bytes(middle)
    assert "train_images is damaged" in message(path)
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    assert "a single array" in message(path)


def test_labels_follow_the_names_of_the_checkpoint(tmp_path):
    path = npz(tmp_path, **arrays(), class_names=np.array(["x", "y", "z"]))
    sets = small(path, classes=("z", "w", "y", "x"))
    assert sets["test"].labels[:3].tolist() == [3, 2, 0] and sets["test"].classes == ("z", "w", "y", "x")
    assert "class 'y' is none of the 2 known classes (x, z)" in message(path, classes=("x", "z"))


# ------------------------------------------------------------------ folders


def tree(root, classes=("a", "b"), n=8):
    for name in classes:
        for i in range(n):
            save(root / name / f"{i}.png")
    return root


def warnings_of(caplog) -> str:
    return "\n".join(r.getMessage() for r in caplog.records if r.levelno == logging.WARNING)


def test_one_tree_is_split_without_overlap(tmp_path):
    sets = small(tree(tmp_path))
    assert [len(s) for s in sets.values()] == [8, 4, 4]
    images = torch.cat([s.images for s in sets.values()]).flatten(1)
    assert len(images.unique(dim=0)) == 16
    for data in sets.values():
        assert data.labels.bincount().tolist() == [len(data) // 2] * 2
        for image, label in zip(data.images, data.labels):
            files = sorted((tmp_path / data.classes[label]).iterdir())
            assert any(torch.equal(image, read_pixels(f, (8, 8), 3)) for f in files)


def test_split_folders_are_used_and_val_is_drawn_when_missing(tmp_path):
    tree(tmp_path / "Train", n=8)
    tree(tmp_path / "test", n=3)
    sets = small(tmp_path)
    assert [len(s) for s in sets.values()] == [12, 4, 6]
    tree(tmp_path / "valid", n=2)
    assert [len(s) for s in small(tmp_path).values()] == [16, 4, 6]
    assert "no folder test (found: train, val)" in message(_without(tmp_path, "test"))


def _without(root, name):
    for file in (root / name).rglob("*.*"):
        file.unlink()
    for folder in sorted((root / name).rglob("*"), reverse=True):
        folder.rmdir()
    (root / name).rmdir()
    return root


def test_a_class_called_train_is_a_class(tmp_path):
    assert small(tree(tmp_path, ("bus", "car", "train")))["val"].classes == ("bus", "car", "train")


def test_only_the_splits_asked_for_are_decoded(tmp_path):
    tree(tmp_path / "train")
    tree(tmp_path / "test")
    (tmp_path / "test" / "a" / "broken.png").write_bytes(b"x")
    assert len(small(tmp_path, splits=("train", "val"))["train"]) == 12
    assert "broken.png (class a)" in message(tmp_path, splits=("test",))


def test_classes_agree_across_splits_by_name(tmp_path):
    tree(tmp_path / "train", ("a", "b", "c"), n=4)
    tree(tmp_path / "test", ("c",), n=4)
    assert small(tmp_path)["test"].labels.tolist() == [2] * 4
    assert small(tmp_path, splits=("test",), classes=("c", "x"))["test"].labels.tolist() == [0] * 4
    tree(tmp_path / "test", ("dog",), n=1)
    assert "class 'dog' is none of the 3 known classes (a, b, c)" in message(tmp_path)


def test_leavings_of_other_programs_are_no_classes_and_no_images(tmp_path, caplog):
    """The folder of trial T21."""
    root = tmp_path / "root" / "root"
    tree(root, ("Кот", "a b"), n=8)
    save(root / ".ipynb_checkpoints" / "x.png")
    (root / ".git").mkdir()
    for junk in ("__MACOSX", "@eaDir", "lost+found"):
        save(root / junk / "x.png")
    (root / "empty").mkdir()
    (root / "a b" / "Thumbs.db").write_bytes(b"x")
    (root / "a b" / "._0.png").write_bytes(b"x")
    (root / "a b" / "notes.txt").write_text("x")
    save(root / "a b" / "X.JPEG")
    save(root / "a b" / "y.webp")
    save(root / "a b" / "deeper" / "z.png")
    (root / "Кот" / "link.png").symlink_to(root / "Кот" / "0.png")
    (root / "a b" / "loop").symlink_to(root)
    with caplog.at_level(logging.INFO, logger="odevit"):
        sets = small(tmp_path / "root")
    assert sets["train"].classes == ("a b", "Кот")
    assert sum(len(s) for s in sets.values()) == 8 + 3 + 8 + 1
    text = warnings_of(caplog)
    for name in (".ipynb_checkpoints", ".git", "__MACOSX", "@eaDir", "lost+found", "Thumbs.db", "._0.png", "notes.txt", "loop"):
        assert name in text
    assert f"{root / 'empty'}: class folder without images, dropped" in text
    assert "classes a b, Кот" in caplog.text


def broken_folder(root):
    """The five files of trial T08 among 16 good ones, and the reasons."""
    tree(root)
    good = save(root / "a" / "good.jpg", noise(64)).read_bytes()
    (root / "a" / "good.jpg").unlink()
    (root / "a" / "cut.jpg").write_bytes(good[: len(good) // 2])
    (root / "a" / "empty.png").write_bytes(b"")
    (root / "b" / "text.jpg").write_text("not an image")
    save(root / "b" / "float.tif", np.zeros((4, 4), np.float32))
    Image.new("1", (20_000, 20_000)).save(root / "b" / "bomb.png")
    return {
        "cut.jpg": "truncated",
        "empty.png": "empty file (0 bytes)",
        "text.jpg": "not an image",
        "float.tif": "image mode F",
        "bomb.png": "more than the limit of 64,000,000 pixels",
    }


def test_unreadable_files_by_policy(tmp_path, caplog):
    reasons = broken_folder(tmp_path)
    found = {bad.path.name: bad for bad in check_folder(tmp_path)}
    assert found.keys() == reasons.keys()
    assert all(reasons[name] in bad.reason and bad.path.parent.name == bad.name for name, bad in found.items())

    splits = ("train", "val", "test")
    sets = small(tmp_path, splits, bad_images="skip")
    skipped = dict(pair for s in sets.values() for pair in s.skipped)
    assert {Path(path).name for path in skipped} == reasons.keys()
    assert sum(len(s) for s in sets.values()) == 16 and f"{len(sets['train'].skipped)} unreadable" in describe(sets)

    caplog.clear()
    assert "5 image files cannot be read" in message(tmp_path, splits, bad_images="report")
    assert all(f"{name} (class " in warnings_of(caplog) for name in reasons)

    text = message(tmp_path, splits, bad_images="stop")
    assert any(f"{name} (class {found[name].name}): " in text and reasons[name] in text for name in reasons)


def test_a_bomb_below_pillows_own_limit_is_refused_before_decoding():
    file = io.BytesIO()
    Image.new("1", (8001, 8000)).save(file, "PNG")
    whole = file.getvalue()
    for content in (whole, whole[:100]):  # cut after the header: the size alone is looked at
        with pytest.raises(UserError, match="8001 x 8000 pixels: more than the limit of 64,000,000"):
            read_pixels(io.BytesIO(content), (8, 8), 1)


def test_folders_without_classes_or_images_are_refused(tmp_path):
    assert "has no images; expected one folder per class" in message(tmp_path)
    save(tmp_path / "loose.png")
    assert "has images but no class folders" in message(tmp_path)
    tree(tmp_path, ("only",))
    assert "has only one class (only)" in message(tmp_path)


# ------------------------------------------------------------------ names of sources


def test_unknown_sources_are_named(tmp_path):
    assert "data.source: 'digts' is neither digits, cifar10, cifar100 nor" in message("digts")
    assert message("digts").endswith("did you mean digits?")
    (tmp_path / "a.zip").write_bytes(b"PK")
    assert "unpack it and give the folder" in message(tmp_path / "a.zip")
    (tmp_path / "a.csv").write_bytes(b"1")
    assert "is a .csv file; give a folder of images or an .npz file" in message(tmp_path / "a.csv")
    assert "split: unknown 'trian', did you mean train?" in message("digits", splits=("trian",))


def test_cifar_without_files_names_both_ways_out(tmp_path, monkeypatch):
    text = message("cifar10", root=tmp_path / "none", download=False)
    for part in ("download is off", "cifar-10-batches-py", "under data.root", ".npz file as data.source"):
        assert part in text
    monkeypatch.setattr(CIFAR10, "url", "http://127.0.0.1:9/cifar.tar.gz")
    text = message("cifar10", root=tmp_path, download=True)
    assert "could not be downloaded (" in text and ".npz file as data.source" in text


def cifar_folder(root, monkeypatch) -> dict[str, tuple[np.ndarray, list[int]]]:
    """A small folder in torchvision's CIFAR-10 format, with its checksums entered into torchvision's own list."""
    base = root / CIFAR10.base_folder
    base.mkdir()
    content = {name: (noise(32, 3 * n).reshape(n, 3, 32, 32), [i % 10 for i in range(n)]) for name, n in (("a", 80), ("t", 20))}
    pickles = {name: {"data": images.reshape(len(images), -1), "labels": labels} for name, (images, labels) in content.items()}
    pickles["meta"] = {"label_names": [f"class{i}" for i in range(10)]}
    sums = {}
    for name, value in pickles.items():
        data = pickle.dumps(value)
        (base / name).write_bytes(data)
        sums[name] = hashlib.md5(data).hexdigest()
    monkeypatch.setattr(CIFAR10, "train_list", [["a", sums["a"]]])
    monkeypatch.setattr(CIFAR10, "test_list", [["t", sums["t"]]])
    monkeypatch.setattr(CIFAR10, "meta", {"filename": "meta", "key": "label_names", "md5": sums["meta"]})
    return content


def test_cifar_in_torchvisions_format(tmp_path, monkeypatch):
    content = cifar_folder(tmp_path, monkeypatch)
    options = {"source": "cifar10", "root": tmp_path, "download": False, "val_fraction": 0.25}
    sets = load(DataConfig(**options), image_shape=(32, 32), channels=3, splits=("train", "val", "test"))
    assert np.array_equal(sets["test"].images.numpy(), content["t"][0]) and sets["test"].labels.tolist() == content["t"][1]
    assert sets["val"].labels.bincount().tolist() == [2] * 10 and len(sets["train"]) == 60
    drawn = {(i.tobytes(), int(l)) for s in ("train", "val") for i, l in zip(sets[s].images.numpy(), sets[s].labels)}
    assert drawn == {(image.tobytes(), label) for image, label in zip(*content["a"])}
    assert sets["train"].classes == tuple(f"class{i}" for i in range(10))
