"""The list of figures: every entry names reports that exist, one that cannot be drawn stops no other, pairs share limits."""

import inspect
import json

import figure_reports as known
import pytest

from analysis.figures import FIGURES, PAIR_FIGURES, Entry, jasmin_bounds, solver_accuracy, solver_flips
from analysis.figures.drawing import arguments, chosen, draw, needed, side_by_side, write_list
from analysis.figures.outputs import caption_of
from analysis.running import JOBS
from odevit.errors import UserError


@pytest.mark.parametrize("name", FIGURES)
def test_every_report_of_the_list_is_made_by_a_run(name):
    entry = FIGURES[name]
    for pattern in entry.reports:
        assert needed({name: Entry(entry.function, (pattern,))}, (*JOBS, "config", "history")), pattern
    assert len(entry.reports) <= len(inspect.signature(entry.function).parameters)


@pytest.mark.parametrize("name", [*FIGURES, *PAIR_FIGURES])
def test_every_figure_has_a_title_and_a_caption(name):
    title, caption = caption_of((FIGURES | PAIR_FIGURES)[name].function)
    assert title.endswith((".", "?")) and len(caption) > len(title) + 40


def test_an_unknown_figure_is_named_with_the_nearest():
    with pytest.raises(UserError, match="figure: unknown 'solver_flip', did you mean solver_flips?"):
        chosen(FIGURES, ["solver_flip"])
    assert list(chosen(FIGURES, ["solver_flips"])) == ["solver_flips"] and list(chosen(FIGURES, [])) == list(FIGURES)


def test_arguments_are_one_report_a_list_or_nothing():
    reports = {"euler_error": (known.euler(4),), "euler_error_x2": (known.euler(8),), "observed_order": ()}
    many, order = arguments(FIGURES["euler_error"], reports)
    assert [r.steps for r in many] == [4, 8] and order is None
    assert arguments(FIGURES["error_along"], reports)[0].steps == 4
    with pytest.raises(UserError, match="needs the report 'solver_swap'"):
        arguments(FIGURES["solver_flips"], reports)


def test_a_figure_that_cannot_be_drawn_stops_no_other(tmp_path):
    figures = chosen(FIGURES, ["solver_flips", "error_along", "jasmin_bounds"])
    drawn = draw(figures, {"solver_swap": (known.swap(),)}, tmp_path, missing={"euler_error": "belongs to Euler steps"})
    assert [bool(d.paths) for d in drawn] == [True, False, True]
    assert drawn[1].reason == "needs the report 'euler_error'; euler_error: belongs to Euler steps"
    lines = write_list(drawn, tmp_path).read_text().splitlines()
    assert lines[0] == "- figure: solver_flips" and json.loads(lines[5].removeprefix("  not drawn: ")) == drawn[1].reason


def test_reports_of_different_models_are_not_drawn_together(tmp_path):
    reports = {"solver_swap": (known.swap(),), "exponents": (known.exponents(provenance=known.OTHER),)}
    with pytest.raises(UserError, match="different models mixed"):
        draw(chosen(FIGURES, ["solver_flips"]), reports, tmp_path)


def test_two_models_side_by_side_have_the_same_limits():
    other = known.swap(accuracy=known.swap().accuracy / 3)
    figure = side_by_side(Entry(solver_accuracy, ("solver_swap",)), [[known.swap()], [other]], ["A", "B"])
    left, right = figure.axes
    assert left.get_ylim() == right.get_ylim() and left.get_xlim() == right.get_xlim()
    assert left.get_ylim()[0] < 0.2 and left.get_ylim()[1] > 0.9
    assert [part.get_suptitle() for part in figure.subfigs] == ["A", "B"]


def test_only_figures_of_one_axes_go_into_panels():
    assert Entry(solver_flips, ("solver_swap",)).takes_axes() and Entry(jasmin_bounds, ()).takes_axes()
    assert not FIGURES["effect_on_patches"].takes_axes()
