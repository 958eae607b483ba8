"""Charts of attention: maps and what falls beside them at every time, scales, marks, curves; a ViT-B fits the budget."""

import numpy as np
import pytest
import token_figure_reports as known

from analysis.reports.paths import AttentionRowsReport
from app.charts import attention_shares, head_distance, head_entropy, head_maps, look, register_shares, token_name
from odevit.layout import TokenLayout

PIXELS = np.arange(64, dtype=np.uint8).reshape(1, 8, 8)


def rows_of(report, query=0, **changes) -> AttentionRowsReport:
    """The rows of one query, with random rollouts."""
    rollout = known.numbers(len(report.time) - 1, 2, 6, seed=7)
    fixed = {
        "provenance": report.provenance, "query": query, "time": report.time, "rows": report.maps[..., query, :],
        "rollout": rollout / rollout.sum(-1, keepdims=True), "rollout_time": report.rollout_time,
        "patch_grid": report.patch_grid, "registers": report.registers,
    }  # fmt: skip
    return AttentionRowsReport(**(fixed | changes))


def heatmaps(traces):
    return [trace for trace in traces if trace.type == "heatmap"]


def words(traces):
    return [trace.text[0] for trace in traces if trace.type == "scatter"]


def squares(figure):
    return [(s.x0, s.y0) for s in figure.layout.shapes]


def curves(figure):
    return {trace.name: np.asarray(trace.y) for trace in figure.data if trace.name}


def test_maps_of_every_time():
    rows = rows_of(known.attention(), 2)
    figure = head_maps(rows, PIXELS, image=1)
    assert [a.text for a in figure.layout.annotations][:5] == [
        "query: patch 0, 1",
        "mean of heads",
        "rollout",
        "head 0",
        "head 1",
    ]
    for k, frame in enumerate(figure.frames):
        mean, rollout, *heads = (np.asarray(h.z) for h in heatmaps(frame.data))
        grids = rows.rows[k, 1][:, 1:5].reshape(2, 2, 2)
        assert np.allclose(mean, grids.mean(0)) and np.allclose(heads, grids)
        before = np.eye(6)[2] if k == 0 else rows.rollout[k - 1, 1]
        assert np.allclose(rollout, before[1:5].reshape(2, 2))


def test_cls_and_registers_stand_beside_the_maps():
    rows = rows_of(known.attention())
    figure = head_maps(rows, PIXELS)
    said = words(figure.frames[1].data)
    head = rows.rows[1, 0, 1]
    assert said[3] == f"CLS {head[0]:.3f}<br>registers {head[5]:.3f}"
    none = head_maps(rows_of(known.attention(), rows=rows.rows[..., :5], rollout=rows.rollout[..., :5], registers=0), PIXELS)
    assert words(none.frames[1].data)[3] == f"CLS {head[0]:.3f}"


def test_only_a_patch_is_outlined():
    assert squares(head_maps(rows_of(known.attention(), 4), PIXELS)) == [(0.5, 0.5)] * 5
    assert squares(head_maps(rows_of(known.attention(), 5), PIXELS)) == []


def test_heads_share_a_scale_unless_asked_otherwise():
    rows = rows_of(known.attention())
    grids = rows.rows[:, 0][..., 1:5]
    mean, rollout, *heads = (h.zmax for h in heatmaps(head_maps(rows, PIXELS).data))
    assert np.allclose([mean, *heads], grids.max()) and np.isclose(rollout, rows.rollout[:, 0, 1:5].max())
    own = [h.zmax for h in heatmaps(head_maps(rows, PIXELS, own_scale=True).data)]
    assert np.allclose(own[2:], grids.max((0, 2))) and np.isclose(own[0], grids.mean(1).max())


def test_a_query_does_not_blind_its_own_rollout():
    rows = rows_of(known.attention(), 1)
    rollout = heatmaps(head_maps(rows, PIXELS).data)[1]
    assert np.isclose(rollout.zmax, rows.rollout[:, 0, 2:5].max())


def test_after_the_last_layer_only_the_rollout_is_left():
    full = known.attention()
    rows = rows_of(full, time=full.time[:2], rows=full.maps[:2, :, :, 0])
    figure = head_maps(rows, PIXELS)
    mean, rollout, *heads = (np.asarray(h.z) for h in heatmaps(figure.frames[2].data))
    assert np.isnan([mean, *heads]).all() and np.isfinite(rollout).all()
    assert words(figure.frames[2].data)[0] == "no layer acts any more" and figure.layout.sliders[0].active == 1


@pytest.mark.parametrize(
    "position, name", [(0, "CLS"), (1, "patch 0, 0"), (5, "patch 1, 1"), (6, "patch 1, 2"), (7, "register 1")]
)
def test_names_of_tokens(position, name):
    assert token_name(position, TokenLayout(registers=2, grid=(2, 3))) == name


def test_a_vit_b_with_200_times_fits_the_budget():
    time, tokens = np.arange(201.0), 197
    rows = known.numbers(200, 1, 12, tokens)
    report = AttentionRowsReport(
        provenance=known.MODEL, query=0, time=time[:200], rows=rows, rollout=known.numbers(200, 1, tokens),
        rollout_time=time[1:], patch_grid=(14, 14), registers=0,
    )  # fmt: skip
    figure = head_maps(report, known.numbers(3, 224, 224).astype(np.uint8))
    assert len(heatmaps(figure.data)) == 14 and len(figure.frames) == 48
    assert look.size(figure) < look.MAX_BYTES / 2


def test_entropy_and_distance_of_heads():
    report = known.attention()
    entropy, distance = curves(head_entropy(report, 1)), curves(head_distance(report, 1))
    assert np.allclose(entropy["head 1"], report.entropy[:, 1, 1].mean(-1))
    assert np.allclose(entropy[f"uniform {np.log(6):.3f}"], np.log(6))
    assert np.allclose(distance["head 0"], report.distance[:, 1, 0].mean(-1))
    assert np.allclose(curves(head_entropy(report, 1, 5))["head 1"], report.entropy[:, 1, 1, 5])
    assert np.allclose(curves(head_distance(report, 1, 3))["head 1"], report.distance[:, 1, 1, 3])


def test_a_patch_that_looks_at_no_patch_is_left_out_of_the_mean():
    distance = known.attention().distance.copy()
    distance[1, 0, 0, 2] = np.nan
    distance[2, 0, 0] = np.nan
    drawn = curves(head_distance(known.attention(distance=distance)))["head 0"]
    assert np.isclose(drawn[1], np.nanmean(distance[1, 0, 0])) and np.isnan(drawn[2])


def test_shares_of_the_query_and_of_all_tokens_sum_to_one():
    report = known.attention()
    rows = rows_of(report)
    drawn = {(t.xaxis, t.name): np.asarray(t.y) for t in attention_shares(report, rows).data if t.name}
    for axis, mass in (("x", report.cls_mass), ("x2", report.mass)):
        for i, name in enumerate(("CLS", "patches", "registers")):
            assert np.allclose(drawn[axis, name], mass[:, 0].mean(1)[:, i])


def test_registers_one_by_one():
    rows = rows_of(known.attention())
    (drawn,) = register_shares(rows).data
    assert list(drawn.y) == ["CLS", "register 1"]
    assert np.allclose(drawn.z, rows.rows[:, 0].mean(1)[:, [0, 5]].T)
