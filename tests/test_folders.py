"""Folders of images: classes, splits and policies by rule, and everything passed over is named."""

import logging
import unicodedata
from pathlib import Path

import numpy as np
import torch
from pictures import message, noise, save, small, tree
from PIL import Image

from odevit.data import check_folder, describe, read_pixels


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
    for data in sets.values():
        for image, label in zip(data.images, data.labels):  # the labels of what is left stay with their images
            files = [f for f in (tmp_path / data.classes[label]).iterdir() if f.name not in reasons]
            assert any(torch.equal(image, read_pixels(f, (8, 8), 3)) for f in files)
    skipped = dict(pair for s in sets.values() for pair in s.skipped)
    assert {Path(path).name for path in skipped} == reasons.keys()
    assert sum(len(s) for s in sets.values()) == 16 and f"{len(sets['train'].skipped)} unreadable" in describe(sets)

    caplog.clear()
    assert "5 image files cannot be read" in message(tmp_path, splits, bad_images="report")
    assert all(f"{name} (class " in warnings_of(caplog) for name in reasons)

    text = message(tmp_path, splits, bad_images="stop")
    assert any(f"{name} (class {found[name].name}): " in text and reasons[name] in text for name in reasons)


def test_one_class_in_two_unicode_forms_is_one_class(tmp_path):
    """macOS writes e and an accent where Linux writes one letter."""
    for split, form in (("train", "NFC"), ("val", "NFD")):
        tree(tmp_path / split, (unicodedata.normalize(form, "caf\u00e9"), "x"), n=2)
    assert small(tmp_path, splits=("train", "val"))["val"].labels.tolist() == [0, 0, 1, 1]


def test_folders_without_classes_or_images_are_refused(tmp_path):
    assert "has no images; expected one folder per class" in message(tmp_path)
    save(tmp_path / "loose.png")
    assert "has images but no class folders" in message(tmp_path)
    tree(tmp_path, ("only",))
    assert "has only one class (only)" in message(tmp_path)
