"""Training curves: the mean of the seeds, from the smallest to the largest, and what is missing said."""

import numpy as np
import pytest

from analysis.figures import training_curves
from analysis.reports.model_folders import history
from odevit.errors import UserError


def run(*values):
    shares = {"accuracy": 9, "val_accuracy": 10}
    return [
        {"epoch": i + 1, "ce": v + 1, "val_loss": v} | {name: 1 - v / n for name, n in shares.items()}
        for i, v in enumerate(values)
    ]


def test_mean_and_band_over_seeds():
    made = training_curves(history([run(3.0, 2.0, 1.0), run(5.0, 3.0, 3.0)], "net"))
    loss, accuracy = made.axes
    drawn = {line.get_label(): line for line in loss.get_lines()}
    assert drawn["net, 2 seeds, validation"].get_xydata().tolist() == [[1, 4], [2, 2.5], [3, 2]]
    assert drawn["net, 2 seeds, training"].get_ydata().tolist() == [5, 3.5, 3]
    band = loss.collections[1].get_paths()[0].vertices
    assert {(1.0, 3.0), (1.0, 5.0), (3.0, 1.0), (3.0, 3.0)} < set(map(tuple, band))
    assert np.allclose(accuracy.get_lines()[1].get_ydata(), [0.6, 0.75, 0.8])


def test_settings_differ_in_colour_and_marker_and_a_single_run_has_no_band():
    loss = training_curves([history([run(3.0, 2.0)], "a"), history([run(1.0, 0.5)], "b")]).axes[0]
    a, b = (line for line in loss.get_lines() if "validation" in line.get_label())
    assert a.get_color() != b.get_color() and a.get_marker() != b.get_marker() and not loss.collections


def test_runs_of_different_lengths_and_broken_numbers_are_said():
    made = training_curves(history([run(3.0, 2.0, 1.0), run(5.0)], "net"))
    assert made.get_supxlabel() == "net: runs of 3, 1 epochs"
    assert made.axes[0].get_lines()[1].get_ydata().tolist() == [4, 2, 1]
    broken = training_curves(history([run(3.0, float("inf"))], "net"))
    assert "net val_loss: 1 of 2 not finite, left out" in broken.get_supxlabel()
    assert np.isnan(broken.axes[0].get_lines()[1].get_ydata()[1])


def test_refusals():
    with pytest.raises(UserError, match="reports: none given"):
        training_curves([])
    with pytest.raises(UserError, match="net logs none of ce, val_loss, accuracy, val_accuracy"):
        training_curves(history([[{"epoch": 1, "lr": 0.1}]], "net"))
