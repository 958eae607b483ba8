"""Reports survive their files exactly, refuse what they cannot read, and write tables that other programs read."""

import csv
import json

import numpy as np
import pytest
from problems import rotation

import analysis
from analysis.reports import Provenance, Report, SpectrumReport, ValueReport
from odevit.errors import UserError


def report(**changes) -> SpectrumReport:
    values = {
        "eigenvalues": np.array([0.1 + 2j, 0.1 - 2j]), "residuals": np.array([1e-9, np.nan]), "converged": 1, "n": 6,
        "products": 30, "dense": False, "which": "LM", "remark": "1 of 2 converged, with a comma",
        "provenance": Provenance(model="m", seed=3),
    }  # fmt: skip
    return SpectrumReport(**(values | changes))


def same(a, b) -> bool:
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True)
    return a == b or (a != a and b != b)


def test_round_trip_is_exact(tmp_path):
    for original in (report(), ValueReport(name="mu", value=float("nan"), residual=float("-inf"), side="lower"),
                     ValueReport(name="mu", value=np.array([1.0, -0.0, 5e-324]), side="exact")):  # fmt: skip
        path = original.save(tmp_path / "folder" / "one")
        found = Report.load(path)
        assert type(found) is type(original) and found.provenance == original.provenance
        assert all(same(value, found.values()[name]) for name, value in original.values().items())
    assert sorted(p.name for p in path.parent.iterdir()) == ["one.json", "one.npz"]


def test_samples_come_first():
    many = report(eigenvalues=np.zeros((3, 2), complex), residuals=np.zeros((3, 2)), converged=np.array([2, 2, 2]))
    assert many.axes_of("eigenvalues") == ("batch", "k") and many.axes_of("converged") == ("batch",)


def test_rotation_keeps_its_imaginary_parts_in_every_file(tmp_path):
    """T15: eigenvalues a +- ib, read back from npz, json and csv."""
    import torch

    found = analysis.jacobian_spectrum(rotation(-0.1, 2.0), torch.zeros(2, dtype=torch.float64), k=2)
    assert np.allclose(Report.load(found.save(tmp_path / "r")).eigenvalues, [-0.1 + 2j, -0.1 - 2j])
    readable = json.loads(found.to_json(tmp_path / "plain").read_text())
    assert [round(z["im"], 12) for z in readable["eigenvalues"]] == [2.0, -2.0]
    rows = list(csv.DictReader(found.to_csv(tmp_path / "r").open()))
    assert [float(row["eigenvalues im [1/t]"]) for row in rows if row["k"]] == pytest.approx([2.0, -2.0])
    assert [float(row["eigenvalues abs [1/t]"]) for row in rows if row["k"]] == pytest.approx([abs(-0.1 + 2j)] * 2)


def test_json_has_null_for_what_is_not_finite(tmp_path):
    text = report().to_json(tmp_path / "r").read_text()
    assert json.loads(text)["residuals"] == [1e-9, None] and "NaN" not in text


def test_table_has_a_row_for_each_index_and_units_in_the_header(tmp_path):
    rows = list(csv.reader(report().to_csv(tmp_path / "r").open()))
    assert rows[0][:4] == ["k", "eigenvalues re [1/t]", "eigenvalues im [1/t]", "eigenvalues abs [1/t]"]
    assert [row[0] for row in rows[1:]] == ["0", "1", ""] and "1 of 2 converged, with a comma" in rows[3]
    assert len({len(row) for row in rows}) == 1


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.with_suffix(".json").unlink(), "no such report"),
        (lambda path: path.unlink(), "no such report"),
        (lambda path: path.write_bytes(path.read_bytes()[:50]), "damaged report"),
        (lambda path: path.with_suffix(".json").write_text("<html>"), "damaged report"),
        (lambda path: path.with_suffix(".json").write_text('{"kind": "SpectrumReport", "format": 99}'), "newer version"),
        (lambda path: path.with_suffix(".json").write_text('{"kind": "Nonsense", "format": 1}'), "holds a Nonsense"),
    ],
)
def test_unreadable_files_are_named_in_one_line(tmp_path, damage, words):
    path = report().save(tmp_path / "r")
    damage(path)
    with pytest.raises(UserError, match=words) as caught:
        Report.load(path)
    assert "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)


def test_another_kind_is_refused(tmp_path):
    path = report().save(tmp_path / "r")
    with pytest.raises(UserError, match="holds a SpectrumReport, not a ValueReport"):
        ValueReport.load(path)


def test_tensors_are_refused():
    import torch

    with pytest.raises(TypeError, match="SpectrumReport.residuals"):
        report(residuals=torch.zeros(2))
