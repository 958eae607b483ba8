"""The digits studies: few labels are few, students see the same images, a finished run is not trained again."""

from dataclasses import replace

import pytest
import torch

from odevit import create_model, study
from odevit.checkpoint import read_config
from odevit.data import load
from odevit.distillation import default_student


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The digits with a teacher that was never trained."""
    teacher = create_model("vit_digits", num_classes=10).eval()
    data = load(study.SHIFTED, image_shape=(8, 8), channels=1)
    return study.Lesson(tmp_path_factory.mktemp("study"), "all", data, 1, 1, teacher)


def test_few_labels_are_ten_a_class_and_fill_an_epoch(whole):
    every, train = whole.data["train"], whole.few().data["train"]
    different = {image.numpy().tobytes() for image in train.images}
    assert len(different) == study.FEW and len(train) == 1000
    counts = torch.bincount(train.labels)
    assert counts.tolist() == [100] * 10
    known = {image.numpy().tobytes(): int(label) for image, label in zip(every.images, every.labels)}
    assert all(known[image.numpy().tobytes()] == int(label) for image, label in zip(train.images, train.labels))
    again, other = whole.few().data["train"], replace(whole, seed=2).few().data["train"]
    assert torch.equal(again.images, train.images) and not torch.equal(other.images, train.images)
    assert whole.few().data["val"] is whole.data["val"] and whole.few().labels == "100"


@pytest.mark.slow
def test_a_student_alone_and_taught_differ_in_the_teacher_only(whole):
    few = whole.few(20)
    alone, taught = few.student(False), few.student(True)
    assert alone.config == taught.config == default_student(whole.teacher)[0] and alone.solver == taught.solver
    runs = [read_config(few.folder(how))["training"]["run"] for how in (False, True)]
    for name in ("data", "optim", "loss", "seed", "model", "solver"):
        assert runs[0][name] == runs[1][name], name
    stamp = (few.folder(True) / "model.safetensors").stat().st_mtime_ns
    again = few.student(True)
    assert (few.folder(True) / "model.safetensors").stat().st_mtime_ns == stamp
    assert all(torch.equal(a, b) for a, b in zip(taught.state_dict().values(), again.state_dict().values()))


@pytest.mark.slow
def test_the_study_has_a_row_for_every_model_and_pairs_its_seeds(tmp_path, capsys):
    rows = study.teacher_study(tmp_path, seeds=2, epochs=1)
    assert [(row["labels"], row["model"]) for row in rows] == [
        ("all", "teacher"), ("all", "student alone"), ("all", "student with teacher"),
        ("100", "student alone"), ("100", "student with teacher"),
    ]  # fmt: skip
    for alone, taught in (rows[1:3], rows[3:5]):
        assert taught["gain"] == pytest.approx(taught["top1"] - alone["top1"])
        assert taught["low"] <= taught["gain"] <= taught["high"] and alone["gain"] is None
        assert (taught["n"], taught["nfe"], alone["nfe"]) == (2, 4, 4)
    teachers = [study.lesson(tmp_path / f"seed{seed}", seed, 1).teacher for seed in (0, 1)]
    test = study.test_images(teachers[0])
    assert test.split == "test" and len(test) == 359
    assert rows[0]["top1"] == pytest.approx(sum(float(study.right(t, test).double().mean()) for t in teachers) / 2)
    assert capsys.readouterr().out == ""
