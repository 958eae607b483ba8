"""Lens and interventions: probabilities as softmax gives them, decisions when they fall, distances from the change on."""

import numpy as np
import pytest
import token_figure_reports as known

from analysis.figures import decision_times, intervention_distance, logit_lens
from analysis.figures.style import class_colour
from odevit.errors import UserError


def lines(ax):
    return {line.get_label(): line for line in ax.get_lines()}


def test_probabilities_and_decision_time():
    drawn = lines(logit_lens(known.lens(), 0, names="abc", label=2).axes[0])
    assert np.allclose(drawn["c (true)"].get_ydata(), [np.exp(z) / (np.exp(z) + 2) for z in (-1.0, 1.0, 2.0)])
    assert drawn["c (true)"].get_color() == class_colour(2) and drawn["decided, $t^* = 1$"].get_xdata()[0] == 1.0


def test_unresolved_steps_are_marked():
    unsure = [p.get_x() for p in logit_lens(known.lens(), 0).axes[0].patches]
    assert unsure == [0.0] and not logit_lens(known.lens(), 1).axes[0].patches


def test_classes_that_never_matter_are_grey():
    logits = np.zeros((3, 2, 9))
    logits[..., :6] = np.arange(6)
    drawn = lines(logit_lens(known.lens(logits=logits)).axes[0])
    assert {f"_class {c}" for c in (6, 7, 8)} < set(drawn) and "class 5" in drawn and drawn["_class 7"].get_color() == "0.75"


def test_shares_of_decided_images():
    drawn = lines(decision_times(known.lens(), labels=[2, 0]).axes[0])
    assert drawn["decided"].get_ydata().tolist() == [0.5, 1.0, 1.0]
    assert drawn["decided, no flip can hide"].get_ydata().tolist() == [0.5, 0.5, 0.5]
    assert drawn["accuracy"].get_ydata().tolist() == [0.0, 0.5, 0.5]


def test_decisions_against_descending_time():
    back = known.lens(time=np.array([2.0, 1.0, 0.0]), decision_time=np.array([1.0, 2.0]))
    drawn = lines(decision_times(back).axes[0])["decided"]
    assert drawn.get_xdata().tolist() == [2, 1, 0] and drawn.get_ydata().tolist() == [0.5, 1.0, 1.0]


def test_distance_from_the_change_on():
    early, late = known.intervention(0.0), known.intervention(1.0, "head 0 silenced")
    drawn = list(intervention_distance([early, late]).axes[0].get_lines())
    assert [line.get_xdata().tolist() for line in drawn] == [[0, 1, 2], [1, 2]]
    assert np.allclose(drawn[1].get_ydata(), np.median(late.distance, 1)) and "1 of 2 flipped" in drawn[1].get_label()
    (relative,) = intervention_distance(late, relative=True).axes[0].get_lines()
    assert np.allclose(relative.get_ydata(), np.median(late.distance / late.size, 1))


def test_a_change_of_the_field_has_no_relative_distance():
    made = intervention_distance(known.intervention(size=np.zeros(2)), relative=True)
    assert np.isnan(made.axes[0].get_lines()[0].get_ydata()).all() and "4 of 4 not finite" in made.get_supxlabel()


def test_refusals():
    with pytest.raises(UserError, match="image: 2 is outside 0 to 1"):
        logit_lens(known.lens(), 2)
    with pytest.raises(UserError, match="labels: 1 for 2 images"):
        decision_times(known.lens(), labels=[1])
    with pytest.raises(UserError, match="reports: none given"):
        intervention_distance([])
    with pytest.raises(UserError, match="different models mixed"):
        intervention_distance([known.intervention(), known.intervention(provenance=known.OTHER)])
