"""Logs and configs of model folders as reports: rows by epoch, gaps where a run ends early, round trips, bad files named."""

import json

import numpy as np
import pytest

from analysis.reports import ConfigReport, Report
from analysis.reports.model_folders import history, of_folder
from odevit.errors import UserError


def rows(*losses, first=1):
    return [{"epoch": first + i, "loss": loss, "val_loss": 2 * loss} for i, loss in enumerate(losses)]


def folder(path, log="epoch,loss\n1,0.5\n2,\n", config='{"kind": "odevit", "model": {"img_size": [8, 8], "pool": null}}'):
    path.mkdir(parents=True)
    (path / "log.csv").write_text(log)
    (path / "config.json").write_text(config)
    return path


def test_runs_are_aligned_by_epoch_and_short_ones_end_in_gaps():
    report = history([rows(3.0, 2.0, 1.0), rows(5.0, first=2)], "setting")
    assert report.epoch.tolist() == [1, 2, 3] and report.runs == ("run 0", "run 1")
    assert np.array_equal(report.columns["loss"], [[3, 2, 1], [np.nan, 5, np.nan]], equal_nan=True)
    assert np.array_equal(report.columns["val_loss"], 2 * report.columns["loss"], equal_nan=True)


def test_of_an_epoch_that_was_repeated_after_a_resume_the_last_row_counts():
    assert history([[*rows(3.0, 2.0), *rows(1.5, first=2)]]).columns["loss"].tolist() == [[3.0, 1.5]]


def test_a_folder_gives_config_and_history(tmp_path):
    found = of_folder(folder(tmp_path / "run"))
    assert found["config"].config["model"] == {"img_size": (8, 8), "pool": None}
    assert found["history"].label == "run" and np.isnan(found["history"].columns["loss"][0, 1])
    assert of_folder(tmp_path) == {}


def test_round_trip(tmp_path):
    report = history([rows(3.0, float("nan")), rows(1.0)], "a")
    again = Report.load(report.save(tmp_path / "h"))
    assert again.runs == report.runs and np.array_equal(again.columns["loss"], report.columns["loss"], equal_nan=True)
    config = ConfigReport(config={"model": {"img_size": (8, 8), "pool": None, "norm_eps": 1e-6}, "kind": "vit"})
    assert Report.load(config.save(tmp_path / "c")).config == config.config


@pytest.mark.parametrize(
    "log, message",
    [
        ("", "run: the log has no rows yet"),
        ("epoch,loss\n", "run: the log has no rows yet"),
        ("loss\n0.5\n", "not a CSV log of a training run"),
        ("epoch,loss\n1,0.5,3\n", "not a CSV log of a training run"),
        ("epoch,loss\n1,high\n", "run: loss is 'high', not a number"),
        ("epoch,loss\none,1\n", "run: epoch is 'one', not a number"),
    ],
)
def test_logs_that_are_none(tmp_path, log, message):
    with pytest.raises(UserError, match=message):
        history([folder(tmp_path / "run", log=log)])


def test_missing_and_damaged_files(tmp_path):
    with pytest.raises(UserError, match="nothing: No such file"):
        history([tmp_path / "nothing"])
    with pytest.raises(UserError, match="logs: none given"):
        history([])
    with pytest.raises(UserError, match="config.json: damaged, not JSON"):
        of_folder(folder(tmp_path / "run", config=json.dumps({"a": 1})[:-1]))
    (tmp_path / "run" / "log.csv").write_bytes(b"\xff\xfe\x00epoch")
    with pytest.raises(UserError, match="not a CSV log"):
        history([tmp_path / "run"])
