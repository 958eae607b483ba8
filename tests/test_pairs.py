"""Teacher and student on the same images: a student that is its teacher, what its folder knows, one basis, refusals."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import analysis
from analysis.reports import PairReport, Report
from odevit import ODEViT, UserError, ViT
from odevit.checkpoint import load_model, model_hash, read_config, save_model
from odevit.config import DataConfig, DistillConfig, InputConfig, LossConfig, OptimConfig, ViTConfig
from odevit.data import load
from odevit.distillation import Distillation, compare, default_student, take_over

DIGITS = InputConfig((0.3,), (0.4,), tuple("0123456789"), "digits")
SMALL = ViTConfig(img_size=8, patch_size=4, in_chans=1, embed_dim=16, num_heads=2, registers=2, depth=3)


def teacher(seed: int = 3, **changes) -> ViT:
    torch.manual_seed(seed)
    return ViT(replace(SMALL, **changes), DIGITS).eval()


def student_of(taught: ViT, steps: int = 6) -> ODEViT:
    model, solver = default_student(taught)
    torch.manual_seed(5)
    made = ODEViT(model, replace(solver, steps=steps), taught.inputs).eval()
    take_over(made, taught, head="teacher")
    return made


@pytest.fixture(scope="module")
def data():
    sets = load(DataConfig(), image_shape=(8, 8), channels=1)
    return {"train": sets["train"].subset(range(48)), "val": sets["val"].subset(range(12))}


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """Folders of a teacher and of students of its width and of half of it, by width."""
    root, taught = tmp_path_factory.mktemp("pairs"), teacher()
    save_model(taught, root / "teacher")
    found = {"teacher": root / "teacher"}
    for width in (16, 8):
        model, solver = default_student(taught)
        config = DistillConfig(
            model=replace(model, embed_dim=width), solver=solver, loss=LossConfig(curvature=0.0), threads=1, device="cpu",
            optim=OptimConfig(epochs=1, batch_size=16), out=root / str(width), cache=None, teacher=str(root / "teacher"),
        )  # fmt: skip
        Distillation(config, data, taught).fit()
        found[str(width)] = root / str(width)
    return found


def test_a_student_that_is_its_teacher(data):
    """A teacher of equal parallel layers with CenterNorm is the student's own Euler solution, one step a layer."""
    taught = teacher(block="parallel", norm="center", bias=False)
    for block in taught.field.blocks[1:]:
        block.load_state_dict(taught.field.blocks[0].state_dict())
    own = student_of(taught, steps=3)
    own.field.blocks[0].load_state_dict(taught.field.blocks[0].state_dict())
    report = analysis.pair(taught, own, data["val"])
    assert report.distance.max() < 1e-5 and report.overlap.min() > 1 - 1e-5 and report.agreement == 1
    assert report.accuracy[0] == report.accuracy[1] and np.allclose(report.student_cls, report.teacher_cls, atol=1e-5)
    assert report.control == "even" and report.control_times.tolist() == [0, 1, 2, 3] and report.before == {}
    assert report.nfe.tolist() == [3, 3] and report.parameters[1] < report.parameters[0] and math.isnan(report.temperature)


def test_the_folder_of_a_student_tells_its_control_points_and_the_pair_before(trained, data):
    report = analysis.pair(trained["teacher"], trained["16"], data["val"])
    known = read_config(trained["16"])["training"]
    assert report.control == "distance" and report.temperature == 30
    assert report.control_times.tolist() == [0, *known["control_points"]]
    assert report.moved.tolist() == pytest.approx(known["teacher_distances"])
    kept = json.loads((trained["16"] / "pair.json").read_text())
    for when, block in (("before", report.before), ("after", report.after)):
        plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in block.items()}
        assert plain == kept[when]
    assert report.distance == pytest.approx(np.array(kept["after"]["distance"]), rel=1e-4)  # the same images here
    assert report.provenance.model == f"ODEViT {model_hash(load_model(trained['16']))}"
    assert report.teacher == f"ViT {known['teacher_hash']}"


def test_the_scores_are_those_of_compare_and_need_no_labels(trained, data):
    taught, own = load_model(trained["teacher"]), load_model(trained["16"])
    val, times = data["val"], (0.5, 1.5, 3.0)
    report, scores = analysis.pair(taught, own, val.images, val.labels, times), compare(taught, own, val, times)
    for name in ("distance", "overlap", "agreement"):
        assert np.array_equal(getattr(report, name), getattr(scores, name)), name
    assert report.accuracy.tolist() == [scores.teacher_accuracy, scores.student_accuracy] and report.control == "given"
    bare = analysis.pair(taught, own, val.images, times=times)
    assert np.isnan(bare.accuracy).all() and bare.agreement == report.agreement
    unknown = replace(val, labels=torch.full_like(val.labels, -1))
    assert np.isnan(analysis.pair(taught, own, unknown, times=times).accuracy).all()


def test_both_paths_lie_in_one_basis(trained, data):
    taught, own = load_model(trained["teacher"]), load_model(trained["16"])
    report = analysis.pair(taught, own, data["val"])
    images = own.preprocess(data["val"].images)
    with torch.no_grad():
        states = [m.trajectory(images).cls.squeeze(2).numpy() for m in (own, taught)]
    for cls, drawn in zip(states, (report.student_cls, report.teacher_cls)):
        assert np.allclose(drawn, (cls - report.basis_mean) @ report.basis_components.T, atol=1e-5)
    pooled = np.concatenate([cls.reshape(-1, 16) for cls in states])
    assert report.variances.sum() == pytest.approx(pooled.var(0).sum(), rel=1e-4)


def test_a_student_of_another_width_is_seen_through_the_map_that_it_learned_with(trained, data):
    reports = analysis.pair_reports(trained["teacher"], trained["8"], data["val"])
    kept = json.loads((trained["8"] / "pair.json").read_text())
    assert reports["pair"].distance == pytest.approx(np.array(kept["after"]["distance"]), rel=1e-3)
    assert reports["pair"].distance[0] < 1e-6 and reports["match"].distance[0, 0] < 1e-6  # both begin at the same CLS
    with pytest.raises(UserError, match="student: width 8, the teacher has 16; their states need the map"):
        analysis.pair(load_model(trained["teacher"]), load_model(trained["8"]), data["val"])


def test_reports_of_a_pair_come_back_from_their_files(trained, data, tmp_path):
    reports = analysis.pair_reports(trained["teacher"], trained["16"], data["val"])
    assert list(reports) == [
        "pair", "match", "student_attention", "teacher_attention", "student_config", "teacher_config"
    ]  # fmt: skip
    for name, report in reports.items():
        again = Report.load(report.save(tmp_path / name))
        assert repr(again) == repr(report), name
    rows = reports["pair"].rows()
    assert [row["model"] for row in rows] == ["teacher", "student"] and rows[1]["nfe"] == 6
    reports["pair"].to_csv(tmp_path / "pair.csv")
    head = (tmp_path / "pair.csv").read_text().splitlines()[0].split(",")
    assert {"control", "layer", "before.distance", "distance", "moved [state]", "student_cls [state]"} <= set(head)


def test_what_is_no_pair_is_refused_in_one_line(trained, data, tmp_path):
    taught, own, val = load_model(trained["teacher"]), load_model(trained["16"]), data["val"]
    stranger = teacher(4)
    save_model(stranger, tmp_path / "stranger")
    (tmp_path / "broken").mkdir()
    for file in trained["16"].iterdir():
        (tmp_path / "broken" / file.name).write_bytes(file.read_bytes())
    (tmp_path / "broken" / "pair.json").write_text("{")
    cases = [
        ((own, own, val), "teacher: a ODEViT, not the ViT"),
        ((taught, taught, val), "student: a ViT, not the ODEViT"),
        ((tmp_path / "stranger", trained["16"], val), "but the student learned from"),
        ((teacher(patch_size=2), own, val), "student: 2 x 2 patches, the teacher has 4 x 4"),
        ((taught, own, val, None, (1.0,)), "times: 1 control times for the 3 layers"),
        ((taught, own, val.images.float()), "images: give an ImageSet or uint8"),
        ((taught, own, val.images, val.labels[:3]), "labels: shape \\(3,\\) for 12 images"),
        ((taught, tmp_path / "broken", val), "pair.json: damaged"),
    ]
    for arguments, message in cases:
        with pytest.raises(UserError, match=message):
            analysis.pair(*arguments)
    assert isinstance(analysis.pair(stranger, own, val), PairReport)  # models alone may be compared with any teacher
