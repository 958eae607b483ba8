"""Images that the app offers, without network or dataset; pictures of every mode as the model sees them."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from app import image_sources, loading
from odevit import create_model
from odevit.data import photographs
from odevit.errors import UserError


@pytest.fixture
def ode(models, monkeypatch):
    monkeypatch.setenv(loading.FOLDERS, str(models))
    return next(e for e in loading.models() if e.name == "ode")


def test_a_model_of_digits_starts_with_digits(ode, monkeypatch, tmp_path):
    model = loading.open_model(ode).model
    monkeypatch.setenv(image_sources.DATA, str(tmp_path))
    assert list(image_sources.offered(model, ode)) == ["digits", "given", "upload"]


def test_a_cifar_model_starts_without_a_network(ode, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    model = create_model("odevit_tiny_patch4_32")
    entry = replace(ode, config={"data": {"source": "cifar10"}})
    assert list(image_sources.offered(model, entry)) == ["samples", "cifar10", "upload"]
    assert image_sources.needs_download("cifar10")
    (tmp_path / "data" / "cifar-10-batches-py").mkdir(parents=True)
    assert list(image_sources.offered(model, entry)) == ["cifar10", "samples", "upload"]
    assert not image_sources.needs_download("cifar10")


def test_a_dataset_given_at_start_is_read_with_the_classes_of_the_model(ode, monkeypatch, tmp_path):
    model = loading.open_model(ode).model
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (40, 8, 8), dtype=np.uint8)
    labels = np.arange(40) % 10
    parts = {f"{s}_{what}": value for s in ("train", "val", "test") for what, value in (("images", images), ("labels", labels))}
    np.savez(tmp_path / "own.npz", **parts)
    monkeypatch.setenv(image_sources.DATA, str(tmp_path / "own.npz"))
    found = image_sources.images("given", "val", model, ode)
    assert torch.equal(found.images[:, 0], torch.from_numpy(images))
    assert found.classes == model.inputs.classes


def test_labels_of_other_classes_are_not_known_to_a_model_without_names(ode):
    model = create_model("odevit_digits", num_classes=2)
    found = image_sources.images("digits", "val", model, ode)
    assert set(found.labels.tolist()) == {-1} and found.classes == ()
    same = image_sources.images("digits", "val", create_model("odevit_digits"), ode)
    assert set(same.labels.tolist()) == set(range(10))


def test_photographs_are_six_different_squares_without_labels():
    found = photographs((32, 32), 3)
    assert found.images.shape == (6, 3, 32, 32) and found.images.dtype == torch.uint8
    assert set(found.labels.tolist()) == {-1}
    flat = found.images.flatten(1).float()
    assert (torch.cdist(flat, flat) + torch.eye(6) * 1e9).min() > 100


MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16")


def picture(mode: str) -> io.BytesIO:
    ramp = np.linspace(0, 255, 256).reshape(16, 16).astype(np.uint8)
    image = Image.fromarray(ramp.astype(np.uint16) * 257) if mode == "I;16" else Image.fromarray(ramp).convert(mode)
    file = io.BytesIO()
    image.save(file, format="TIFF" if mode == "CMYK" else "PNG")
    return file


@pytest.mark.parametrize("mode", MODES)
def test_a_picture_of_any_mode_is_seen_alike(ode, mode):
    model = loading.open_model(ode).model
    seen = image_sources.uploaded(picture(mode), "x.png", model)
    plain = image_sources.uploaded(picture("L"), "x.png", model)
    assert seen.labels.tolist() == [-1]
    gap = (seen.images.float() - plain.images.float()).abs().mean()
    assert gap < (60 if mode == "1" else 3)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"just text", "not an image"), (b"", "not an image"), (b"\x89PNG\r\n\x1a\n" + b"0" * 40, "notes.png: ")],
)
def test_what_is_no_picture_is_refused_by_name(ode, content, said):
    with pytest.raises(UserError, match=said) as caught:
        image_sources.uploaded(io.BytesIO(content), "notes.png", loading.open_model(ode).model)
    assert str(caught.value).startswith("notes.png: ") and "\n" not in str(caught.value)


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(ode):
    file = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(file, format="PNG")
    with pytest.raises(UserError, match="limit of 64,000,000 pixels"):
        image_sources.uploaded(file, "bomb.png", loading.open_model(ode).model)
