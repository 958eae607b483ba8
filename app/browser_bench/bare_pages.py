"""What the reports of a page cost without a browser or Streamlit: computed anew, and read from disk."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from app import computing
from app.loading import FOLDERS

SCRIPT = "from app.shell import run\nrun({module!r})"


def bare(folder: str, model: str, modules: Sequence[str], repeats: int, threads: int) -> dict[str, dict[str, float]]:
    """Median seconds for each page, {"computed": .., "from disk": ..}; to be called in a process of its own.

    Args:
        folder, model: as the app is started.   modules: of the pages.   repeats: runs of which the median is taken.
    """
    torch.set_num_threads(threads)
    os.environ[FOLDERS] = folder
    return {module: _page(model, module, repeats) for module in modules}


def _page(model: str, module: str, repeats: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="odevit-bench-") as place:
        os.environ[computing.CACHE] = place
        asked = _asked(model, module)

        def compute() -> None:
            for _, who, parts in asked:
                for _, part in parts:
                    part(who)

        def read() -> None:
            for key, _, _ in asked:
                computing._kept(key)

        if not asked:
            return {"computed": 0.0, "from disk": 0.0}
        return {"computed": _median(compute, repeats), "from disk": _median(read, repeats)}


def _asked(model: str, module: str) -> list[tuple[str, Any, Sequence[computing.Part]]]:
    """(key, images on the model, parts) of every computation that a page asks for; the page is run once to see them."""
    from streamlit.testing.v1 import AppTest

    found = []
    original = computing._compute

    def noted(key, name, who, parts, joined):
        found.append((key, who, parts))
        return original(key, name, who, parts, joined)

    computing._compute = noted
    try:
        at = AppTest.from_string(SCRIPT.format(module=module), default_timeout=600)
        at.query_params["model"] = model
        at.run()
    finally:
        computing._compute = original
    return found


def _median(run: Callable[[], None], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def models_of(folder: Path) -> list[str]:
    """Names of the models in a folder as the app lists them."""
    from app.loading import models

    os.environ[FOLDERS] = str(folder)
    return [entry.name for entry in models() if entry.kind != "broken"]
