"""Pixels: every mode, orientation and size of an image becomes what its format says, or is refused by name."""

import io

import numpy as np
import pytest
import torch
from pictures import noise, save
from PIL import Image

from odevit.data import read_pixels, to_pixels
from odevit.data.pixels import fit_pixels
from odevit.errors import UserError


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
    with pytest.raises(UserError, match="model.in_chans: 4"):
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


def test_a_bomb_below_pillows_own_limit_is_refused_before_decoding():
    file = io.BytesIO()
    Image.new("1", (8001, 8000)).save(file, "PNG")
    whole = file.getvalue()
    for content in (whole, whole[:100]):  # cut after the header: the size alone is looked at
        with pytest.raises(UserError, match="8001 x 8000 pixels: more than the limit of 64,000,000"):
            read_pixels(io.BytesIO(content), (8, 8), 1)


def test_formats_outside_the_list_are_not_tried():
    """EPS would start Ghostscript on a file that a stranger uploaded."""
    file = io.BytesIO()
    Image.fromarray(noise()).save(file, "EPS")
    with pytest.raises(UserError, match=r"not an image \(JPEG, PNG"):
        read_pixels(io.BytesIO(file.getvalue()), (8, 8), 3)
