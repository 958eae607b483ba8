"""`odevit release`: a run becomes a folder to share, measured once on the test split, without paths of the machine."""

import json

import numpy as np
import pytest

from app.cli import main
from odevit.checkpoint import load_model, model_hash
from odevit.data import DataConfig, load
from odevit.evaluate import evaluate

pytestmark = pytest.mark.slow
SMALL = ["--optim.epochs", "1", "--threads", "1"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A discrete ViT and its student, both released, on digits that lie in a file with a name of this machine."""
    root = tmp_path_factory.mktemp("release")
    sets = load(DataConfig(), image_shape=(8, 8), channels=1, splits=("train", "val", "test"))
    arrays = {}
    for split, data in sets.items():
        arrays |= {f"{split}_images": data.images[:200, 0].numpy(), f"{split}_labels": data.labels[:200].numpy()}
    source = root / "own digits.npz"
    np.savez(source, **arrays)
    data = ["--data.source", str(source), *SMALL]
    assert main(["train", "--preset", "vit_digits", "--out", str(root / "net"), *data]) == 0
    student = [
        "distill",
        "--teacher",
        str(root / "net"),
        "--solver.steps",
        "4",
        "--out",
        str(root / "student"),
        "--cache",
        str(root / "c"),
    ]
    assert main([*student, *data]) == 0
    for name in ("net", "student"):
        assert main(["release", str(root / name), "--out", str(root / "shared" / name), "--name", "digits"]) == 0
    return root


def test_what_is_measured_is_what_the_model_does_on_the_test_split(runs):
    for name in ("net", "student"):
        found = json.loads((runs / "shared" / name / "metrics.json").read_text())
        model = load_model(runs / "shared" / name)
        source = DataConfig(source=str(runs / "own digits.npz"))
        test = load(source, image_shape=(8, 8), channels=1, splits=("test",), classes=model.inputs.classes)["test"]
        assert found["test"]["top1"] == evaluate(model, test).top1
        assert bool(found["sweep"]) == (name == "student")  # a discrete net has no other solver


def test_a_released_folder_names_no_place_of_this_machine(runs):
    for path in (runs / "shared").rglob("*"):
        if path.suffix in (".json", ".md", ".csv"):
            text = path.read_text().replace(str(runs / "shared"), "")
            assert path.name.startswith("certificate") or str(runs) not in text, path


def test_a_released_student_knows_its_released_teacher(runs):
    known = json.loads((runs / "shared" / "student" / "config.json").read_text())["training"]
    assert known["teacher"] == "net"
    assert known["teacher_hash"] == model_hash(load_model(runs / "shared" / "net")) != model_hash(load_model(runs / "net"))


def test_it_overwrites_only_when_told_to(runs, capsys):
    again = ["release", str(runs / "net"), "--out", str(runs / "shared" / "net")]
    assert main(again) == 2
    assert "--force overwrites it" in capsys.readouterr().err
