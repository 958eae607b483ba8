"""One image under several solvers: the trained one keeps its answer, finer ones converge to the reference, flips are seen."""

import numpy as np
import pytest
import torch
from test_perturbations import discrete, pair, tiny

import analysis
from analysis.discretization import solver_answers, tabulated
from analysis.reports import AnswersReport, SolverPathsReport
from analysis.token_paths import solver_paths
from odevit import NonFiniteError, TimeGrid, UserError, integrate


def paths(model, solvers) -> SolverPathsReport:
    return solver_paths(model, pair(0.0)[0], solvers)


def test_distances_fall_with_the_order_of_the_method():
    report = paths(tiny(horizon=0.25), [("euler", 6), ("euler", 12), ("midpoint", 6), ("midpoint", 12), ("rk4", 6)])
    end = np.array([row[~np.isnan(row)][-1] for row in report.distance])
    assert end[0] == 0 and end[1] / end[2] == pytest.approx(2, rel=0.1) and end[3] / end[4] == pytest.approx(4, rel=0.1)
    assert report.reference_error < end[5] < 0.01 * end[4]
    assert report.nfe.tolist() == [4 * 96, 6, 12, 12, 24, 24]
    assert report.name[0] == "rk4, 96 steps (reference)" and report.name[1] == "euler, 6 steps"


@pytest.mark.parametrize("make", [tiny, lambda: tiny(blocks=3), discrete])
def test_the_trained_solver_gives_the_models_own_path_and_logits(make):
    model = make()
    report = paths(model, [("euler", 3), ("dopri5", 3)])
    with torch.no_grad():
        solved, logits = model.trajectory(pair(0.0)[0]), model(pair(0.0)[0])[0]
    np.testing.assert_allclose(report.logits[1], logits, rtol=1e-9)
    assert report.time[1][:4].tolist() == solved.t.tolist() and np.isnan(report.time[1][4:]).all()
    centred = solved.cls[:, 0, 0].numpy()
    steps = np.linalg.norm(np.diff(centred, axis=0), axis=1)
    assert (np.linalg.norm(np.diff(report.plane[1][:4], axis=0), axis=1) <= steps * (1 + 1e-9)).all()  # a projection
    assert report.steps.tolist() == [24, 3, 0] and report.name[2] == "dopri5"


def test_the_distance_is_that_to_the_fine_solve_at_the_solves_own_times():
    model = tiny()
    report = paths(model, [("euler", 5)])  # times that are no steps of the reference
    with torch.no_grad():
        x0 = model.initial_state(pair(0.0)[0])
        coarse = integrate(model.field, x0, TimeGrid(0.0, 1.0, 5), "euler").x
        fine = integrate(model.field, x0, TimeGrid(0.0, 1.0, 1000, save=5), "rk4").x
    np.testing.assert_allclose(report.distance[1][:6], (coarse - fine).flatten(1).norm(dim=1), rtol=1e-4, atol=1e-7)


def test_answers_agree_with_the_swap_report_row_by_row():
    model, images = tiny(), torch.cat([pair(0.0, seed)[0] for seed in range(6)])
    labels = torch.arange(6) % 5
    swap = analysis.solver_swap(model, images, ("euler", "rk4", "dopri5"), (1, 3), labels=labels)
    for row, (method, steps) in enumerate(zip(swap.method, swap.steps)):
        found = solver_answers(model, images, str(method), int(steps) or 3, labels=labels)
        assert isinstance(found, AnswersReport) and found.steps == steps and found.nfe == swap.nfe[row]
        assert len(found.flips) / 6 == pytest.approx(swap.flip_rate[row])
        assert not set(found.flips) & set(np.flatnonzero(found.shift < found.radius)), "a proven answer flipped"
        assert np.abs(found.logits - found.trained_logits).max() == pytest.approx(swap.max_logit_change[row], abs=1e-12)
        assert (found.logits.argmax(-1) == labels.numpy()).mean() == pytest.approx(swap.accuracy[row])
    assert solver_answers(model, images, "euler", 3).labels.tolist() == [-1] * 6


def test_parts_of_the_images_join_to_the_whole():
    model, images = tiny(), torch.cat([pair(0.0, seed)[0] for seed in range(5)])
    whole = solver_answers(model, images, "midpoint", 2)
    parts = AnswersReport.joined([solver_answers(model, part, "midpoint", 2) for part in images.split(2)])
    np.testing.assert_allclose(parts.logits, whole.logits, rtol=1e-9)
    np.testing.assert_allclose([parts.shift, parts.radius], [whole.shift, whole.radius], rtol=1e-9)
    table = tabulated([parts, whole])
    assert table.images == 5 and table.flip_rate[0] == table.flip_rate[1] == len(whole.flips) / 5


def test_a_solver_that_blows_up_is_a_row_without_numbers():
    model = tiny()
    with torch.no_grad():
        model.field.blocks[0].mlp.fc2.weight.mul_(1e30)  # 1e90 after 3 steps of Euler, beyond all numbers with rk4
    lost = solver_answers(model, pair(0.0)[0], "rk4", 3)
    assert "x(T) is" in lost.broken and "3 steps of rk4" in lost.broken and np.isnan(lost.logits).all() and not lost.flips.size
    table = tabulated([solver_answers(model, pair(0.0)[0], "euler", 3), lost])
    assert table.flip_rate[0] == 0 and np.isnan(table.flip_rate[1]) and np.isnan(table.certain_rate[1])
    with pytest.raises(NonFiniteError):
        analysis.solver_swap(model, pair(0.0)[0], ("rk4",), (3,))
    with torch.no_grad():
        model.field.blocks[0].mlp.fc2.weight.mul_(1e100)
    with pytest.raises(NonFiniteError, match="3 steps of euler"):
        solver_answers(model, pair(0.0)[0], "rk4", 3)


def test_reports_round_trip(tmp_path):
    report = paths(tiny(), [("euler", 3)])
    again = SolverPathsReport.load(report.save(tmp_path / "paths"))
    assert np.array_equal(again.time, report.time, equal_nan=True) and again.name.tolist() == report.name.tolist()
    assert "euler, 3 steps" in report.to_csv(tmp_path / "paths").read_text()


def test_wrong_input_is_named():
    with pytest.raises(UserError, match="image: shape"):
        solver_paths(tiny(), torch.zeros(2, 3, 8, 8), [("euler", 3)])
    with pytest.raises(UserError, match="steps: with 2 steps no step ends at"):
        paths(tiny(blocks=3), [("euler", 2)])
    with pytest.raises(UserError, match="method: unknown 'eulr', did you mean"):
        paths(tiny(), [("eulr", 2)])
