"""Speed and memory of the app in a browser: `odevit bench app`. All numbers of one run, medians of several.

Times are a browser's; beside them what the same reports cost without browser and Streamlit. Memory is the resident set of the
server's process, against a bound that the limits of its caches give.
"""

import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from app import loading, panels
from app.charts.look import MAX_BYTES
from app.shell import CHAPTERS, Chapter
from odevit.errors import UserError
from odevit.memory import in_own_process
from odevit.tables import aligned

from . import page_times
from .bare_pages import models_of
from .model_copies import write_copies
from .own_server import Health, Server, serving
from .visitors import crowd

FIRST, CACHED, STILL = 3.0, 0.5, 0  # limits: seconds of the first screen and of a cached page; messages while a slider moves
SLIDING = next(chapter for chapter in CHAPTERS if chapter.path == "predict")
MIB = 2**20


def row(
    what: str, how: str, value: float, unit: str, limit: float | None = None, ratio: float | None = None, note: str = ""
) -> dict[str, Any]:  # fmt: skip
    """One line of the table; `ratio` is to the bare computation of the same reports."""
    return {"what": what, "how": how, "value": value, "unit": unit, "limit": limit, "ratio": ratio, "note": note}


def run(
    folder: Path, repeats: int = 5, threads: int = 2, chapters: Sequence[Chapter] = CHAPTERS, visitors: int = 10,
    models: int = 5,
) -> list[dict[str, Any]]:  # fmt: skip
    """Measure everything, print the table and return its rows (what, how, value, unit, limit, ratio, note).

    Args:
        folder: of a model, or of models; the first that is not broken is opened.   repeats: runs of which the median is taken.
        threads: CPU threads.   chapters: the pages.   visitors, models: of the measurement of memory.

    Raises:
        UserError: a folder without models; Playwright or Chromium not installed; a page that shows an error.
    """
    names = models_of(folder) if folder.is_dir() else []
    if not names:
        raise UserError(f"bench app: no model in {folder}; give a model folder, or a folder of them")
    with page_times.chromium() as browser, serving(folder, threads) as server, Health(server) as health:
        rows = time_rows(browser, server, folder, names[0], tuple(chapters), repeats, threads)
        rows += [_health("browsing", health)]
    path = folder / names[0] if (folder / names[0]).is_dir() else folder
    rows += memory_rows(path, ["" if c is CHAPTERS[0] else c.path for c in chapters], visitors, models, threads)
    print(f"model {names[0]}, {threads} threads, medians of {repeats}; ratio: to the bare computation of the same reports")
    print(aligned(rows))
    return rows


def time_rows(
    browser: Any, server: Server, folder: Path, model: str, chapters: tuple[Chapter, ...], repeats: int, threads: int
) -> list[dict[str, Any]]:  # fmt: skip
    """Rows of the first screen, of every page before and after its reports are cached, of sizes, and of the time slider."""
    query = f"?model={model}"
    fresh = page_times.tour(browser, server.address, chapters, query)
    if fresh.errors:
        raise UserError(f"bench app: {'; '.join(fresh.errors)}")
    modules = [c.module for c in chapters]
    call = f"bare({str(folder)!r}, {model!r}, {modules!r}, {repeats}, {threads})"
    bare = in_own_process("app.browser_bench.bare_pages", call)
    tours, whole = (
        [page_times.tour(browser, server.address, chapters, query, whole=w) for _ in range(repeats)] for w in (False, True)
    )
    first = statistics.median(tour.first for tour in tours)
    note = f"a new visitor; {fresh.first:.2f} s for the first one after the start, which loads the libraries"
    rows = [row("first screen", "Overview", first, "s", FIRST, note=note)]
    for chapter in chapters:
        rows += _page(chapter, fresh, tours, whole, bare[chapter.module])
    for chapter in chapters:
        largest = max(tour.largest[chapter.path] for tour in (fresh, *tours, *whole))
        rows.append(row("largest message", chapter.title, largest / 1e6, "MB", MAX_BYTES / 1e6))
    return rows + _slider(browser, server, query) if SLIDING in chapters else rows


def _page(
    chapter: Chapter, fresh: page_times.Tour, tours: list[page_times.Tour], whole: list[page_times.Tour],
    bare: dict[str, float],
) -> list[dict[str, Any]]:  # fmt: skip
    """From a click to the last chart: with cached reports, on the screen and whole, and before anything was computed."""
    cached, drawn = (statistics.median(tour.seconds[chapter.path] for tour in group) for group in (tours, whole))
    alone, disk = bare["computed"], bare["from disk"]
    note = f"bare computation {alone:.2f} s, its reports from disk {disk:.3f} s" if alone else "computes nothing"
    rows = [row("page, cached", chapter.title, cached, "s", CACHED, cached / alone if alone else None, note)]
    rows.append(row("page, cached, whole", chapter.title, drawn, "s", note="with all that is below the screen"))
    if alone:
        seconds = fresh.seconds[chapter.path]
        rows.append(row("page, computed", chapter.title, seconds, "s", ratio=seconds / alone))
    return rows


def _slider(browser: Any, server: Server, query: str) -> list[dict[str, Any]]:
    times, moving, after = page_times.slider(browser, server.address, SLIDING, query)
    fast = f"{page_times.STEPS} movements {page_times.PAUSE} ms apart; {after.count('message')} after it came to rest"
    pictures = len(moving) - moving.count("message")
    fast += f"; {pictures} pictures of the page fetched meanwhile" if pictures else ""
    slow = f"{len(times)} movements, slowest {max(times):.0f} ms"
    return [
        row("time slider", "from the mouse to the next paint", statistics.median(times), "ms", note=slow),
        row("time slider", "messages to the server while it moves", moving.count("message"), "messages", STILL, note=fast),
    ]


def memory_rows(path: Path, pages: list[str], visitors: int, models: int, threads: int) -> list[dict[str, Any]]:
    """Rows of the resident set: after the start, one visitor, and twice as many visitors as asked for on several models."""
    with tempfile.TemporaryDirectory(prefix="odevit-bench-") as place:
        names = write_copies(path, Path(place), models)
        weights = (path / "model.safetensors").stat().st_size
        with serving(Path(place), threads) as server, Health(server) as health:
            found = {"started": server.resident}
            with ExitStack() as stay:
                crowd(server, stay, 1, names[:1], pages)
                found["one visitor on all pages"] = base = server.resident
            limit = bound(base, visitors, weights) / MIB
            for turn in ("", ", and as many again"):
                with ExitStack() as stay:
                    crowd(server, stay, visitors, names, pages)
                    found[f"{visitors} visitors on all pages of {models} models{turn}"] = server.resident
        last = list(found)[-2:]
        rows = [row("memory", how, value / MIB, "MiB", limit if how in last else None) for how, value in found.items()]
        rows[-1]["note"] = f"{(found[last[1]] - found[last[0]]) / MIB:+.0f} MiB; {health.asked} questions whether it is well"
        return [*rows, _health("the visitors", health)]


def bound(base: int, visitors: int, weights: int) -> int:
    """Bytes that the server may take by the limits of its caches: more than after one visitor, by at most

    float32 and float64 copies of KEPT_MODELS models, KEPT_FIGURES plots, a model and KEPT_BYTES of reports for each visitor,
    those who left in the last two minutes (here the first turn) included, and the plots of a page for each that looks at one.
    """
    kept = loading.KEPT_MODELS * 3 * weights + panels.KEPT_FIGURES * MAX_BYTES
    return base + kept + 2 * visitors * (panels.KEPT_BYTES + weights) + visitors * MAX_BYTES


def _health(when: str, health: Health) -> dict[str, Any]:
    note = f"{health.failed} of {health.asked} not answered"
    return row("health", f"slowest answer during {when}", 1000 * health.worst, "ms", note=note)
