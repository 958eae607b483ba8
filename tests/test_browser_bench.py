"""`odevit bench app`: what it needs is named, its copies are other models, and every promise of the app has a row."""

import shutil
import sys
from contextlib import ExitStack

import numpy as np
import pytest
import torch

from app.browser_bench import bound, run
from app.browser_bench.bare_pages import bare, models_of
from app.browser_bench.model_copies import write_copies
from app.browser_bench.own_server import serving
from app.browser_bench.page_times import chromium
from app.browser_bench.visitors import crowd
from app.charts.look import MAX_BYTES
from app.cli import main
from app.panels import KEPT_BYTES, KEPT_FIGURES
from app.shell import CHAPTERS
from odevit.checkpoint import load_model
from odevit.errors import UserError

PREDICT = CHAPTERS[1]


def test_a_folder_without_models_is_named(tmp_path, capsys):
    assert main(["bench", "app", str(tmp_path)]) == 2
    assert f"no model in {tmp_path}" in capsys.readouterr().err


def test_without_playwright_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "playwright.sync_api", None)
    with pytest.raises(UserError, match="pip install playwright"), chromium():
        pass


def test_copies_are_alive_and_differ(models, tmp_path):
    names = write_copies(models / "ode", tmp_path, 2)
    assert models_of(tmp_path) == names
    paths = (models / "ode", *(tmp_path / name for name in names))
    logits = [load_model(path)(torch.zeros(1, 1, 8, 8)).detach().numpy() for path in paths]
    for i in range(3):
        gaps = [np.abs(logits[i] - logits[j]).max() for j in range(3) if j != i]
        assert np.isfinite(logits[i]).all() and min(gaps) > 1e-4


def test_the_bound_grows_with_visitors_by_what_each_may_keep():
    assert bound(0, 3, 0) - bound(0, 2, 0) >= 2 * KEPT_BYTES
    assert bound(100, 0, 0) == 100 + KEPT_FIGURES * MAX_BYTES


def test_the_bare_computation_of_a_page_takes_longer_than_its_files(models, monkeypatch):
    monkeypatch.setenv("ODEVIT_APP_FOLDERS", "")
    monkeypatch.setenv("ODEVIT_APP_CACHE", "")
    found = bare(str(models), "ode", ["predict_page", "export_page"], 1, 1)
    assert found["predict_page"]["computed"] > found["predict_page"]["from disk"] > 0
    assert found["export_page"]["computed"] == 0  # it computes nothing, so nothing is a ratio to it


@pytest.mark.slow
def test_visitors_at_once_do_not_disturb_each_other(models):
    with serving(models, 1) as server, ExitStack() as stay:
        crowd(server, stay, 6, ["ode", "net"], ["", "export"] * 3)
        assert server.answers() and "Traceback" not in server.log.read_text()


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("chromium") or shutil.which("chromium-browser")), reason="no chromium on this machine")
def test_every_promise_has_a_row(models):
    """Not the seconds, which say nothing on a machine that does other things too."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    rows = run(models, repeats=1, threads=1, chapters=(CHAPTERS[0], PREDICT), visitors=1, models=1)
    found = {(r["what"], r["how"]): r for r in rows}
    kinds = {what for what, _ in found}
    pages = {"page, cached", "page, cached, whole", "page, computed"}
    assert kinds == pages | {"first screen", "largest message", "time slider", "memory", "health"}
    assert found["page, cached", "Predict"]["ratio"] > 0 and found["page, computed", "Predict"]["ratio"] > 0
    assert found["time slider", "messages to the server while it moves"]["value"] == 0
    assert found["time slider", "from the mouse to the next paint"]["value"] > 0
    assert all(0 < r["value"] < r["limit"] for r in rows if r["what"] == "largest message")
    memory = [r for r in rows if r["what"] == "memory"]
    assert memory[0]["value"] < memory[1]["value"] and all(r["value"] < r["limit"] for r in memory if r["limit"])
    assert all(r["note"].startswith("0 of ") for r in rows if r["what"] == "health")
