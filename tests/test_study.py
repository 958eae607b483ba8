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
def test_students_differ_in_the_teacher_only(whole):
    few = whole.few(20)
    made = {how: few.student(how) for how in study.STUDENTS}
    runs = {how: read_config(few.folder(how))["training"]["run"] for how in study.STUDENTS}
    for how in ("copied", "taught"):
        assert made[how].config == made["alone"].config == default_student(whole.teacher)[0]
        for name in ("data", "optim", "loss", "seed", "model", "solver"):
            assert runs[how][name] == runs["alone"][name], name
        own, theirs = (m.tokenizer.stem.state_dict() for m in (made[how], whole.teacher))
        assert all(torch.equal(own[name], weight) for name, weight in theirs.items())
    stamp = (few.folder("taught") / "model.safetensors").stat().st_mtime_ns
    again = few.student("taught")
    assert (few.folder("taught") / "model.safetensors").stat().st_mtime_ns == stamp
    assert all(torch.equal(a, b) for a, b in zip(made["taught"].state_dict().values(), again.state_dict().values()))


@pytest.mark.slow
def test_the_study_has_a_row_for_every_model_and_pairs_its_seeds(tmp_path, capsys):
    rows = study.teacher_study(tmp_path, seeds=2, epochs=1)
    names = list(study.STUDENTS.values())
    assert [(row["labels"], row["model"]) for row in rows] == [
        ("all", "teacher"), *(("all", name) for name in names), *(("100", name) for name in names)
    ]  # fmt: skip
    for alone, copied, taught in (rows[1:4], rows[4:7]):
        assert alone["gain"] is alone["terms"] is copied["terms"] is None
        for row, key, other in ((copied, "gain", alone), (taught, "gain", alone), (taught, "terms", copied)):
            assert float(row[key].split()[0]) == pytest.approx(100 * (row["top1"] - other["top1"]), abs=0.051)
        assert (taught["n"], taught["nfe"], alone["nfe"]) == (2, 4, 4)
    teachers = [study.lesson(tmp_path / f"seed{seed}", seed, 1).teacher for seed in (0, 1)]
    test = study.test_images(teachers[0])
    assert test.split == "test" and len(test) == 359
    assert rows[0]["top1"] == pytest.approx(sum(float(study.right(t, test).double().mean()) for t in teachers) / 2)
    assert capsys.readouterr().out == ""
