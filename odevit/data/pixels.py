"""to_pixels: any image that Pillow opens -> uint8 tensor of the model's size; the one way for folders, uploads, preprocess.

Steps, in this order: EXIF rotation; conversion of the mode (16-bit grey scaled by 255 / 65535, alpha composited on white);
centre crop to the target's aspect ratio and bicubic antialiased resize ("resize the shorter side, then centre crop").
"""

import warnings
from pathlib import Path
from typing import IO

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from ..errors import UserError

MAX_PIXELS = 64_000_000  # an image of more pixels is refused before it is decoded (8000 x 8000 passes)
BACKGROUND = (255, 255, 255)  # what shows through transparent pixels
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")  # Pillow tries no others: some of them start programs (EPS)
MODES = {1: "L", 3: "RGB"}


def _without_alpha(image: Image.Image) -> Image.Image:
    """The image in mode L or RGB."""
    if image.mode in ("I", "F"):
        raise UserError(f"image mode {image.mode}: 32-bit numbers have no known white; save the image with 8 or 16 bits")
    if image.mode.startswith("I;16"):
        deep = np.asarray(image).astype(np.uint32)
        return Image.fromarray(((deep * 255 + 32767) // 65535).astype(np.uint8))
    if image.has_transparency_data:
        opaque = Image.new("RGBA", image.size, BACKGROUND)
        opaque.alpha_composite(image.convert("RGBA"))
        return opaque.convert("RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def to_pixels(image: Image.Image, image_shape: tuple[int, int], channels: int) -> Tensor:
    """The image as the model sees it, before normalisation.

    Args:
        image: any size; modes 1, L, LA, P, PA, RGB, RGBA, CMYK, YCbCr, HSV, LAB, I;16. Transparency shows white.
        image_shape: (height, width) in pixels.
        channels: 1 (ITU-R 601-2 luma) or 3.
    Returns: uint8, shape (channels, height, width).
    Raises: UserError naming the mode (I and F have no known scale) or the size (more than MAX_PIXELS).
    """
    if channels not in MODES:
        raise UserError(f"model.in_chans: {channels}, but images have 1 (grey) or 3 (RGB) channels")
    if image.width * image.height > MAX_PIXELS:
        raise UserError(f"image of {image.width} x {image.height} pixels: more than the limit of {MAX_PIXELS:,} pixels")
    upright = ImageOps.exif_transpose(image)
    plain = _without_alpha(upright).convert(MODES[channels])
    height, width = image_shape
    if plain.size != (width, height):
        plain = ImageOps.fit(plain, (width, height), Image.Resampling.BICUBIC)
    array = np.array(plain).reshape(height, width, channels)
    return torch.from_numpy(array).permute(2, 0, 1).contiguous()


def read_pixels(file: Path | IO[bytes], image_shape: tuple[int, int], channels: int) -> Tensor:
    """to_pixels of an image file (a path or an open binary file, such as an upload); the first frame of an animation.

    Returns: uint8, shape (channels, height, width).
    Raises: UserError with the reason alone (empty, not an image, truncated, too large, mode); the caller names the file.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=FORMATS) as image:
                return to_pixels(image, image_shape, channels)
    except UserError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UserError(f"more than the limit of {MAX_PIXELS:,} pixels") from error
    except UnidentifiedImageError as error:
        empty = isinstance(file, Path) and file.stat().st_size == 0
        raise UserError("empty file (0 bytes)" if empty else f"not an image ({', '.join(FORMATS)})") from error
    except Exception as error:  # Pillow raises nearly anything on broken data: OSError, SyntaxError, struct.error
        raise UserError(" ".join(str(error).split()) or type(error).__name__) from error


def fit_pixels(images: np.ndarray, image_shape: tuple[int, int], channels: int) -> Tensor:
    """to_pixels of an array of images, and nothing but a change of layout where size and channels already fit.

    Args:
        images: uint8, shape (n, H, W) or (n, H, W, 3).
        image_shape: (height, width) in pixels.
        channels: 1 or 3.
    Returns: uint8, shape (n, channels, height, width).
    """
    images = images[..., None] if images.ndim == 3 else images
    if images.shape[1:] == (*image_shape, channels):
        return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    squeezed = images[..., 0] if images.shape[-1] == 1 else images
    return torch.stack([to_pixels(Image.fromarray(image), image_shape, channels) for image in squeezed])
