"""What goes into a figure and what comes out of it: checks of reports, gaps, files with data, command and caption."""

import csv
import json

import figure_reports as known
import numpy as np
import pytest
from matplotlib.figure import Figure

from analysis.figures import jasmin_bounds, lipschitz_over_time, norms_over_time, save, solver_flips
from analysis.figures.outputs import caption_of, check_report, check_reports, note, note_gaps, remark
from analysis.figures.style import new_axes, paper
from analysis.reports import Provenance, Report, SwapReport, TokenPathReport
from odevit.errors import UserError


def line(function, *given, **options) -> str:
    with pytest.raises(UserError) as error:
        function(*given, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_report_of_another_kind():
    assert line(solver_flips, known.exponents()) == "report: this figure draws a SwapReport, not a ExponentsOverReport"
    assert line(solver_flips, "runs/swap.npz") == "report: this figure draws a SwapReport, not a str"


def test_an_empty_report():
    empty = known.swap(method=np.array([], dtype=str))
    assert line(solver_flips, empty) == "report: SwapReport.method is empty, there is nothing to draw"
    assert line(lipschitz_over_time, []) == "reports: none given; this figure draws one LipschitzReport or several"


def test_reports_of_different_models_mixed():
    mixed = [known.bounds(0.0), known.bounds(1.0, provenance=known.OTHER)]
    assert "of different models mixed (ODEViT 000000000000, ODEViT 111111111111)" in line(lipschitz_over_time, mixed)


def test_a_model_and_its_field_are_not_different_models():
    field = known.bounds(provenance=Provenance(model="VectorField 222222222222"))
    assert len(check_reports([known.bounds(), field], type(field))) == 2


def test_a_newer_format_is_refused(tmp_path):
    path = known.swap().save(tmp_path / "swap")
    head = json.loads(path.with_suffix(".json").read_text())
    path.with_suffix(".json").write_text(json.dumps(head | {"format": 99}))
    assert "format 99 was written by a newer version" in line(Report.load, path)


def test_gaps_are_nan_and_said():
    figure = Figure()
    values = note_gaps(figure, np.array([1.0, np.inf, np.nan]), "error")
    assert np.isnan(values).tolist() == [False, True, True] and remark(figure) == "error: 2 of 3 not finite, left out"
    note(figure, "error: 2 of 3 not finite, left out")
    assert remark(figure).count("error") == 1


def test_complex_gaps_stay_complex():
    values = note_gaps(Figure(), np.array([1 + 2j, np.nan]), "eigenvalues")
    assert values[0] == 1 + 2j and np.isnan(values[1])


def test_a_long_remark_is_broken_within_the_page():
    with paper("icml"):
        figure, _ = new_axes()
        for i in range(4):
            note(figure, f"a remark of some length about the curve number {i}")
        figure.draw_without_rendering()
    (text,) = [t for t in figure.texts if t.get_text().startswith("a remark")]
    assert text.get_window_extent().x0 >= 0 and "\n" in text.get_text() and "\n" not in remark(figure)


def test_the_data_beside_a_figure_are_the_report(tmp_path):
    report = known.swap()
    words = {"command": "odevit figures x", "caption": "A caption."}
    paths = save(solver_flips(report), tmp_path / "deep" / "flips", reports=report, **words)
    assert [p.name for p in paths] == ["flips.pdf", "flips.png", "flips.csv", "flips.json"]
    rows = [row for row in csv.DictReader(paths[2].open()) if row["method"]]
    assert [float(row["flip_rate"]) for row in rows] == report.flip_rate.tolist()
    sidecar = json.loads(paths[3].read_text())
    assert words.items() <= sidecar.items() and sidecar["data"] == ["flips.csv"]
    assert sidecar["reports"][0]["model"] == known.MODEL.model and sidecar["reports"][0]["kind"] == "SwapReport"


def test_large_data_are_a_report_that_loads_again_and_lies_there_once(tmp_path):
    big = known.swap(radius=np.arange(30_000.0))
    first = save(solver_flips(big), tmp_path / "a", reports=big)
    (data,) = [p for p in first if p.suffix == ".npz"]
    stamp = data.stat().st_mtime_ns
    second = save(solver_flips(big), tmp_path / "b", reports=big)
    assert data.stat().st_mtime_ns == stamp
    assert data in second and len(list(tmp_path.glob("*.npz"))) == 1
    assert np.array_equal(SwapReport.load(data).radius, big.radius)


def test_a_figure_without_reports_leaves_its_lines(tmp_path):
    figure = jasmin_bounds()
    path = save(figure, tmp_path / "jasmin")[2]
    rows = list(csv.DictReader(path.open()))
    drawn = figure.axes[0].get_lines()[0].get_ydata()
    assert [float(r["y"]) for r in rows if r["line"] == "$g_1$, one key"] == list(drawn)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot be written" in line(save, jasmin_bounds(), tmp_path / "file" / "figure")


def test_captions_end_before_the_arguments():
    title, caption = caption_of(norms_over_time)
    assert title == "Growth and contraction of the Jacobian along the flow."
    assert caption.startswith(title) and "Args" not in caption and "\n" not in caption


def test_check_report_gives_the_report_back():
    report = known.layout()
    assert check_report(report, TokenPathReport, "time") is report
