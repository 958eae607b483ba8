"""Tables: raw numbers in CSV, printed ones in Markdown and LaTeX, everything escaped, seeds as mean and deviation."""

import csv
import io
import statistics

import figure_reports as known
import pytest

from analysis.figures.booktabs import certificate_rows, difference_table, escape, results_table, save_table, sweep_table
from odevit.errors import UserError


def run(name: str, top1: float, **changes) -> dict:
    known = {"name": name, "parameters": 469_000, "macs": 31_500_000, "nfe": 6, "top1": top1, "n": 1000, "split": "val"}
    return known | changes


def rows(table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table.to_csv())))


def test_seeds_become_mean_and_standard_deviation():
    table = results_table([run("a", 0.80), run("b", 0.5), run("a", 0.84), run("a", 0.82)])
    first, second = rows(table)
    assert float(first["accuracy (%)"]) == pytest.approx(0.82)
    assert float(first["accuracy (%) sd"]) == pytest.approx(statistics.stdev([0.8, 0.84, 0.82]))
    assert (first["accuracy (%) n"], first["runs"], first["parameters (M)"]) == ("3", "3", "469000")
    assert second["accuracy (%) sd"] == "" and second["runs"] == "1"
    assert "| a | 0.469 | 31.5 | 6 | 82.0 ± 2.0 | 3 | 1000 |" in table.to_markdown()
    assert r"a & 0.469 & 31.5 & 6 & 82.0 $\pm$ 2.0 & 3 & 1000 \\" in table.to_latex()


def test_runs_of_one_name_must_be_of_one_model():
    with pytest.raises(UserError, match="runs called 'a' differ in parameters"):
        results_table([run("a", 0.8), run("a", 0.8, parameters=1)])
    with pytest.raises(UserError, match="no model"):
        results_table([])


def test_latex_is_escaped_and_has_the_rules_of_booktabs():
    text = certificate_rows(known.certificate()).to_latex()
    assert r"Is 50 \% of it a step \& more\_?" in text and r"\textbar{}J\textbar{} \textless{}= 3" in text
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]
    assert escape("a\\b~c^d#e$") == r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d\#e\$"


def test_markdown_keeps_bars_out_of_the_grid():
    body = certificate_rows(known.certificate()).to_markdown().splitlines()[4:]
    assert "No: \\|J\\| <= 3." in body[2] and {line.replace("\\|", "").count("|") for line in body} == {7}


def test_the_sweep_of_several_seeds():
    table = sweep_table([known.swap(), known.swap(accuracy=known.swap().accuracy - 0.1)])
    first, *_, last = rows(table)
    assert first["solver"] == "euler (trained)" and float(first["accuracy (%)"]) == pytest.approx(0.85)
    assert float(first["accuracy (%) sd"]) == pytest.approx(statistics.stdev([0.9, 0.8]))
    assert last["solver"] == "dopri5" and last["steps"] == "" and float(last["NFE"]) == 50
    with pytest.raises(UserError, match="different solvers or steps"):
        sweep_table([known.swap(), known.swap(steps=known.swap().steps + 1)])


def test_differences_are_second_minus_first_of_what_both_have():
    table = difference_table({"top1": 0.5, "nfe": 6.0, "only": 1.0}, {"nfe": 12.0, "top1": 0.75}, ("A", "B"))
    assert [tuple(row.values()) for row in rows(table)] == [("top1", "0.5", "0.75", "0.25"), ("nfe", "6.0", "12.0", "6.0")]
    assert "top1      0.5  0.75       +0.25" in table.to_text()
    with pytest.raises(UserError, match="no quantity in common"):
        difference_table({"a": 1.0}, {"b": 1.0}, ("A", "B"))


def test_three_files_each(tmp_path):
    paths = save_table(results_table([run("a", 0.8)]), tmp_path / "deep" / "results")
    assert [path.name for path in paths] == ["results.csv", "results.md", "results.tex"] and all(p.exists() for p in paths)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        save_table(results_table([run("a", 0.8)]), tmp_path / "file" / "results")
