"""Sources and splits: what is loaded is what is in the source, and bad input is named."""

import hashlib
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import RNG, message, noise, small
from torchvision.datasets import CIFAR10

from odevit.config.training import DataConfig
from odevit.data import ImageSet, load, normalise
from odevit.data.splits import stratified
from odevit.errors import UserError


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
