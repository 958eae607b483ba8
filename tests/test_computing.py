"""Reports of the app: the numbers of the analysis, kept on disk, never computed twice, stopped and gone on with."""

import numpy as np
import pytest
import torch
from app_pages import digits_images
from streamlit.testing.v1 import AppTest

import analysis
from analysis.reports import ValueReport
from app import computing, loading
from app.state import Visit


@pytest.fixture
def visit(models, tmp_path, monkeypatch):
    monkeypatch.setenv(loading.FOLDERS, str(models))
    monkeypatch.setenv(computing.CACHE, str(tmp_path / "cache"))
    entry = next(e for e in loading.models() if e.name == "ode")
    loaded = loading.open_model(entry)
    return Visit(entry, loaded.model, loaded.hash, digits_images(), "digits", 5, 0, None)


def value(number):
    return lambda who: ValueReport(name="a number", value=float(number), side="exact")


def test_a_report_is_that_of_the_analysis_on_the_chosen_images(visit):
    (made,) = computing.reports(visit, "token_paths", images=2)
    model = loading.double(visit.entry)
    images = model.preprocess(visit.data.images[[5, 0]])
    with torch.no_grad():
        expected = analysis.token_paths(model, model.trajectory(images))
    np.testing.assert_allclose(made.speed, expected.speed, rtol=1e-12)
    assert made.provenance.model == visit.hash
    assert made.provenance.dtype == "float64"
    assert made.provenance.note.endswith("index 5, 0")


def test_what_was_computed_is_not_computed_again(visit):
    calls = []

    def part(who):
        calls.append(1)
        return value(3)(who)

    first = computing.custom(visit, "own", "1", [("a", part)])
    again = computing.custom(visit, "own", "1", [("a", part)])
    assert len(calls) == 1
    assert float(first[0].value) == float(again[0].value) == 3


@pytest.mark.parametrize("change", ["settings", "name", "seed", "index", "model"])
def test_anything_that_changes_the_numbers_makes_another_report(visit, change, models):
    from dataclasses import replace

    calls = []

    def part(who):
        calls.append(1)
        return value(3)(who)

    computing.custom(visit, "own", "1", [("a", part)])
    other, name, settings = visit, "own", "1"
    if change == "settings":
        settings = "2"
    elif change == "name":
        name = "another"
    elif change == "model":
        entry = next(e for e in loading.models() if e.name == "bare")
        loaded = loading.open_model(entry)
        other = replace(visit, entry=entry, model=loaded.model, hash=loaded.hash)
    else:
        other = replace(visit, **{change: 7})
    computing.custom(other, name, settings, [("a", part)])
    assert len(calls) == 2


def test_a_damaged_report_is_made_again(visit):
    computing.custom(visit, "own", "1", [("a", value(3))])
    (file,) = computing.folder().glob("*/report0.npz")
    file.write_bytes(b"not an archive")
    assert float(computing.custom(visit, "own", "1", [("a", value(4))])[0].value) == 4


def test_the_longest_unused_reports_go_when_the_disk_share_is_full(visit, monkeypatch):
    import os

    monkeypatch.setattr(computing, "LIMIT", 1)
    computing.custom(visit, "old", "1", [("a", value(1))])
    (old,) = (p for p in computing.folder().iterdir() if p.is_dir())
    os.utime(old, (1, 1))
    computing.custom(visit, "new", "1", [("a", value(2))])
    left = [p for p in computing.folder().iterdir() if p.is_dir()]
    assert len(left) == 1 and left != [old]


STOPPING = """
import streamlit as st
import test_computing
from app import computing, panels

visit = test_computing.VISIT[0]
with panels.section():
    made = computing.custom(visit, "slow", "1", [(f"part {i}", test_computing.counted(i)) for i in range(3)])
    st.write("sum", sum(float(r.value) for r in made))
"""
VISIT: list = []
COUNT: list = []


def counted(i):
    def compute(who):
        import streamlit as st

        COUNT.append(i)
        if i == 1 and COUNT.count(1) == 1:  # the visitor clicks Stop while part 1 runs
            key = next(name for name in st.session_state if str(name).startswith("stop "))
            computing._stop(str(key).removeprefix("stop "))
        return value(i)(who)

    return compute


def test_a_stopped_computation_keeps_its_parts_and_goes_on(visit):
    VISIT[:], COUNT[:] = [visit], []
    at = AppTest.from_string(STOPPING, default_timeout=60).run()
    assert not at.exception
    assert [i.value for i in at.info] == ["Stopped: 2 of 3 parts are finished, and kept."]
    at.run()
    assert COUNT == [0, 1]  # it does not start again by itself
    assert [i.value for i in at.info] == ["Stopped: 2 of 3 parts are finished, and kept."]
    next(b for b in at.button if b.label == "Go on").click().run()
    assert COUNT == [0, 1, 2]
    assert not at.info and "3" in " ".join(m.value for m in at.markdown)


def test_a_visitor_waits_for_another_ones_computation(visit):
    import threading

    computing._TURN.acquire()
    done = []
    worker = threading.Thread(target=lambda: done.append(computing.custom(visit, "own", "1", [("a", value(3))])))
    worker.start()
    worker.join(0.5)
    assert not done
    computing._TURN.release()
    worker.join(10)
    assert float(done[0][0].value) == 3


def test_a_part_can_be_stopped_wherever_the_field_is_evaluated(visit, monkeypatch):
    """Also inside a Jacobian-vector product; another thread's evaluations neither count nor stop."""
    import threading

    import torch

    from app.loading import double

    class Clicked(BaseException):
        pass

    model, seen = double(visit.entry), []
    x = torch.zeros(1, model.layout.size, model.config.embed_dim, dtype=torch.float64)

    def tell(count):
        seen.append(count)
        if count == 3:
            raise Clicked

    monkeypatch.setattr(computing, "LOOK", -1.0)
    with pytest.raises(Clicked), computing._evaluations(model, tell):
        other = threading.Thread(target=lambda: model.field(0.0, x))
        other.start()
        other.join()
        for _ in range(9):
            torch.func.jvp(lambda x: model.field(0.0, x), (x,), (x,))
    assert max(seen) == 3 and not any(m._forward_pre_hooks for m in model.field.modules())
    model.field(0.0, x)
    assert max(seen) == 3
