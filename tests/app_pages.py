"""Pages of the app under test: tiny models on disk, and a page opened with Streamlit's AppTest."""

import io
import zipfile
from pathlib import Path

import torch
from streamlit.testing.v1 import AppTest

from odevit.config import InputConfig, preset
from odevit.data import load
from odevit.model import build

SCRIPT = "from app.shell import run\nrun({page!r})"
DIGITS = tuple("0123456789")


def make_models(root: Path) -> Path:
    """Tiny models for 8 x 8 digits, untrained but alive: ode (2 registers), bare (no registers), net (discrete ViT)."""
    inputs = InputConfig(mean=(0.3,), std=(0.4,), classes=DIGITS, source="digits")
    small = {"embed_dim": 16, "num_heads": 2}
    for name, base, more in (
        ("ode", "odevit_digits", {}), ("bare", "odevit_digits", {"registers": 0}), ("net", "vit_digits", {"depth": 2}),
    ):  # fmt: skip
        torch.manual_seed(0)
        model = build(*preset(base, **small, **more), inputs)
        with torch.no_grad():
            model.head.weight.mul_(30)  # so that the classes differ
        model.save_pretrained(root / name)
    return root


def open_page(page: str, folder: Path, monkeypatch, cache: Path | None = None, **query: str) -> AppTest:
    """A page, run once; `query` is the URL's. Errors are left to the test: `problems(at)` lists them."""
    monkeypatch.setenv("ODEVIT_APP_FOLDERS", str(folder))
    monkeypatch.setenv("ODEVIT_APP_CACHE", str(cache or folder.parent / "cache"))
    at = AppTest.from_string(SCRIPT.format(page=page), default_timeout=60)
    for name, value in {"draw": "all", **query}.items():
        at.query_params[name] = str(value)
    return at.run()


def problems(at: AppTest) -> list[str]:
    """Exceptions and error boxes on a page."""
    return [e.value for e in at.exception] + [e.value for e in at.error]


def digits_images(split: str = "val"):
    """The images that the sidebar offers for the tiny models."""
    from odevit.config import DataConfig

    return load(DataConfig(), image_shape=(8, 8), channels=1, splits=(split,), classes=DIGITS)[split]


def metrics(at: AppTest) -> dict[str, str]:
    """The numbers on top of a page without problems, by label."""
    assert not problems(at)
    return {metric.label: metric.value for metric in at.metric}


def zipped(**files: bytes) -> bytes:
    """A zip of these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return buffer.getvalue()
