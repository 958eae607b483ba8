"""Downloads: tables and arrays read back equal, figures for papers, one archive of a visit."""

import contextlib
import csv
import io
import json
import time
import zipfile

import numpy as np
import pytest
from figure_reports import certificate, disc, eigenvalues

from analysis import figures
from app import exports
from app.exports import Made


def rows(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


def test_a_table_keeps_the_imaginary_part_and_names_units():
    found = rows(exports.table([eigenvalues([1 + 2j, -3j])]))
    numbers = [
        complex(float(r["eigenvalues re [1/t]"]), float(r["eigenvalues im [1/t]"])) for r in found if r["eigenvalues re [1/t]"]
    ]
    assert numbers == [1 + 2j, -3j]


def test_several_reports_make_one_table_told_apart():
    found = rows(exports.table([eigenvalues([1j], t=0.0), eigenvalues([2j], t=1.0)]))
    assert {r["report"] for r in found} == {"0 SpectrumReport", "1 SpectrumReport"}
    assert [r["t [t]"] for r in found if r["t [t]"]] == ["0.0", "1.0"]
    assert [float(r["eigenvalues im [1/t]"]) for r in found if r["eigenvalues im [1/t]"]] == [1.0, 2.0]


@pytest.mark.parametrize("count", [1, 2])
def test_arrays_come_back_exactly_without_pickles(count):
    reports = [eigenvalues([1 / 3 + 2j]), disc()][:count]
    with np.load(io.BytesIO(exports.arrays(reports)), allow_pickle=False) as file:
        prefix = "0." if count > 1 else ""
        assert file[f"{prefix}eigenvalues"].tobytes() == reports[0].eigenvalues.tobytes()
        assert json.loads(str(file[f"{prefix}json"]))["kind"] == "SpectrumReport"
        if count > 1:
            assert file["1.points"].tobytes() == reports[1].points.tobytes()


def test_a_pdf_is_for_a_paper_and_the_same_every_time():
    def draw():
        return figures.numerical_range(disc())

    first = exports.drawing(draw, "pdf")
    assert first.startswith(b"%PDF")
    assert b"/Type3" not in first
    assert exports.drawing(draw, "pdf") == first
    assert exports.drawing(draw, "png").startswith(b"\x89PNG")


def test_two_downloads_at_once_leave_the_settings_of_matplotlib_alone():
    import threading

    import matplotlib

    before, inside = matplotlib.rcParams["font.size"], threading.Barrier(2)

    def draw(wait):
        if wait:
            with contextlib.suppress(threading.BrokenBarrierError):
                inside.wait(1)  # the other one may begin before this one ends
        return figures.numerical_range(disc())

    def slow():
        exports.drawing(lambda: draw(True), "png")

    def late():
        with contextlib.suppress(threading.BrokenBarrierError):
            inside.wait(1)
        exports.drawing(lambda: (time.sleep(0.5), draw(False))[1], "png")

    workers = [threading.Thread(target=job) for job in (slow, late)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert matplotlib.rcParams["font.size"] == before


def test_an_archive_holds_data_figures_commands_and_provenance():
    def fails():
        raise ValueError("cannot be drawn")

    made = [
        Made("a-range", "Range", (disc(),), lambda: figures.numerical_range(disc()), "?model=a", "odevit analyze a"),
        Made("a-modes", "Modes", (eigenvalues([1j]),), fails, "?model=a&t=1", "odevit analyze a"),
        Made("a-words", "Words", (certificate(),), None, "?model=a", ""),
    ]
    with zipfile.ZipFile(io.BytesIO(exports.archive(made))) as file:
        assert set(file.namelist()) == {
            "a-range.csv", "a-range.npz", "a-range.pdf", "a-range.png", "a-modes.csv", "a-modes.npz",
            "a-words.csv", "a-words.npz", "provenance.json", "commands.sh",
        }  # fmt: skip
        facts = json.loads(file.read("provenance.json"))
        assert file.read("commands.sh") == b"odevit analyze a\n"
    assert facts["plots"][1]["link"] == "?model=a&t=1"
    assert facts["plots"][0]["reports"][0]["model"] == "ODEViT 000000000000"
    assert facts["not drawn"] == ["a-modes.pdf: cannot be drawn", "a-modes.png: cannot be drawn"]
