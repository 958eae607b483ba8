"""`odevit figures` and `odevit compare`: one line for every mistake, every figure of the list from a tiny model."""

import csv
import json
import re
from pathlib import Path

import problems
import pytest
import torch

from analysis.figures import ANIMATIONS, FIGURES, PAIR_FIGURES
from app.cli import main
from app.figures_command import model_names
from odevit.checkpoint import save_model
from odevit.config import InputConfig, ODEViTConfig, SolverConfig, ViTConfig
from odevit.errors import UserError
from odevit.model import build

SMALL = {"img_size": 8, "patch_size": 4, "in_chans": 1, "embed_dim": 8, "num_heads": 2, "registers": 1}
DIGITS = InputConfig((0.5,), (0.25,), tuple("0123456789"), "digits")
CHEAP = ("solver_flips", "exponents_histogram", "jasmin_bounds")


def tiny(folder: Path, seed: int = 0, inputs: InputConfig = DIGITS) -> Path:
    torch.manual_seed(seed)
    made = build(ODEViTConfig(**SMALL, num_classes=len(inputs.classes)), SolverConfig(horizon=1.0, steps=2), inputs)
    problems.randomise(made.field, 0.6, torch.Generator().manual_seed(seed))
    save_model(made.eval(), folder)
    log = "epoch,ce,val_loss,accuracy,val_accuracy\n1,2.0,2.1,0.3,0.2\n2,1.0,1.1,0.6,0.5\n"
    (folder / "log.csv").write_text(log)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("models")
    return [tiny(folder / "net-seed0"), tiny(folder / "net-seed1", 1)]


@pytest.fixture
def odevit(capsys):
    """Run a command in this process: (exit code, stdout, stderr)."""

    def run(*args) -> tuple[int, str, str]:
        return main([str(a) for a in args]), *capsys.readouterr()

    return run


def refused(result) -> str:
    """The one line of a command that was refused, with nothing on stdout."""
    assert result[0] == 2 and result[1] == "", result
    (line,) = result[2].splitlines()
    return line.removeprefix("odevit: error: ")


def test_mistakes_are_one_line_and_leave_nothing(odevit, models, tmp_path):
    out = tmp_path / "out"
    assert refused(odevit("figures", "--out", out)) == "models: none given; name one or several model folders"
    assert "did you mean solver_flips?" in refused(odevit("figures", models[0], "--out", out, "--only", "solver_flip"))
    assert "nowhere" in refused(odevit("figures", tmp_path / "nowhere", "--out", out))
    assert "columns: 2; a page of neurips has 1" in refused(odevit("figures", models[0], "--out", out, "--columns", 2))
    assert "images: 0 must be at least 1" in refused(odevit("figures", models[0], "--out", out, "--images", 0))
    assert "is given twice" in refused(odevit("figures", models[0], models[0], "--out", out))
    assert "compare takes two model folders" in refused(odevit("compare", models[0], "--out", out))
    assert not out.exists()


def test_a_folder_that_is_not_empty_needs_force(odevit, models, tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    line = refused(odevit("figures", models[0], "--out", tmp_path, "--only", "jasmin_bounds"))
    assert line == f"out: {tmp_path} is not empty; --force writes into it"
    file = tmp_path / "thesis.tex"
    assert refused(odevit("figures", models[0], "--out", file)) == f"out: {file} is a file"
    assert odevit("figures", models[0], "--out", tmp_path, "--only", "jasmin_bounds", "--force")[0] == 0
    assert (tmp_path / "jasmin_bounds.pdf").exists() and (tmp_path / "thesis.tex").read_text() == "x"


def test_models_of_other_data_are_not_put_side_by_side(odevit, models, tmp_path):
    other = tiny(tmp_path / "other", inputs=InputConfig((0.5,), (0.25,), ("a", "b"), "digits"))
    result = odevit("compare", models[0], other, "--out", tmp_path / "out")
    assert result[0] == 2 and not (tmp_path / "out").exists()


def test_names_of_models_are_told_apart(tmp_path):
    assert model_names([Path("a/net"), Path("b/net"), Path("c")]) == ["a-net", "b-net", "c"]
    with pytest.raises(UserError, match="given twice"):
        model_names([tmp_path / "x", tmp_path / "y" / ".." / "x"])


@pytest.mark.slow
def test_two_seeds_become_one_row_and_reports_are_not_computed_twice(odevit, models, tmp_path):
    arguments = ("figures", *models, "--images", 4, "--only", "solver_flips", "jasmin_bounds", "training_curves", "--dpi", 60)
    assert odevit(*arguments, "--out", tmp_path / "a", "--reports", tmp_path / "r", "--gallery")[0] == 0
    (row,) = csv.DictReader((tmp_path / "a" / "results.csv").open())
    assert (row["model"], row["runs"]) == ("net", "2") and row["accuracy (%) sd"] != ""
    assert (tmp_path / "a" / "solver_sweep.tex").exists() and (tmp_path / "a" / "training_curves.pdf").exists()
    page = (tmp_path / "a" / "index.html").read_text()
    pictures = re.findall(r'<img src="([^"]+)"', page)
    assert len(pictures) == 6 and all((tmp_path / "a" / picture).exists() for picture in pictures)
    assert "http" not in page and "<script" not in page
    sidecar = json.loads((tmp_path / "a" / "net-seed0" / "solver_flips.json").read_text())
    assert sidecar["command"].startswith("odevit figures ") and "--only solver_flips" in sidecar["command"]
    stamp = (tmp_path / "r" / "net-seed0" / "solver_swap.npz").stat().st_mtime_ns
    assert odevit(*arguments, "--out", tmp_path / "b", "--reports", tmp_path / "r")[0] == 0
    assert (tmp_path / "r" / "net-seed0" / "solver_swap.npz").stat().st_mtime_ns == stamp
    for name in ("solver_flips.png", "solver_flips.csv", "jasmin_bounds.pdf"):
        assert (tmp_path / "a" / "net-seed1" / name).read_bytes() == (tmp_path / "b" / "net-seed1" / name).read_bytes()


def test_reports_of_another_model_are_refused(odevit, models, tmp_path):
    arguments = ("--images", 4, "--only", "solver_flips", "--reports", tmp_path / "r")
    assert odevit("figures", models[0], "--out", tmp_path / "a", *arguments)[0] == 0
    line = refused(odevit("figures", models[1], "--out", tmp_path / "b", *arguments))
    assert line.startswith(f"reports: {tmp_path / 'r'} holds another run (model ODEViT ")
    assert "--force" not in line


@pytest.mark.slow
def test_every_figure_of_the_list_from_a_tiny_model(odevit, models, tmp_path):
    code, _, said = odevit("figures", models[0], "--out", tmp_path / "out", "--images", 6, "--gallery", "--dpi", 60)
    assert code == 0 and said == ""
    for name in FIGURES:
        files = {path.suffix for path in (tmp_path / "out").glob(f"{name}.*")}
        assert {".pdf", ".png", ".json"} <= files, name
        data = json.loads((tmp_path / "out" / f"{name}.json").read_text())["data"]
        assert data and all((tmp_path / "out" / file).exists() for file in data), name
    for name in ANIMATIONS:
        assert (tmp_path / "out" / f"{name}.gif").read_bytes()[:4] == b"GIF8"
    listed = (tmp_path / "out" / "figures.yaml").read_text()
    assert listed.count("- figure: ") == len(FIGURES) + len(ANIMATIONS) and "not drawn" not in listed


@pytest.mark.slow
def test_two_models_side_by_side(odevit, models, tmp_path):
    out = tmp_path / "out"
    code, said, _ = odevit("compare", *models, "--out", out, "--images", 4, "--only", *CHEAP, "certificate_table", "--dpi", 60)
    assert code == 0 and (out / "pairs" / "solver_flips.pdf").exists()
    assert not (out / "pairs" / "certificate_table.pdf").exists()  # it is no single axes
    rows = {row["quantity"]: row for row in csv.DictReader((out / "differences.csv").open())}
    first, second = (float(rows["top1"][name]) for name in ("net-seed0", "net-seed1"))
    assert float(rows["top1"]["difference"]) == pytest.approx(second - first)
    assert float(rows["parameters"]["difference"]) == 0 and any(name.startswith("certificate: ") for name in rows)
    assert "difference = second - first" in said


def test_figures_of_a_pair_need_the_teacher(odevit, models, tmp_path):
    line = refused(odevit("figures", models[0], "--out", tmp_path / "out", "--only", "pair_distance"))
    assert line == "only: pair_distance shows a student beside its teacher; name the teacher with --teacher"
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_every_figure_of_a_pair(odevit, models, tmp_path):
    torch.manual_seed(0)
    teacher = build(ViTConfig(**SMALL, num_classes=10, depth=2), SolverConfig(), DIGITS).eval()
    save_model(teacher, tmp_path / "teacher")
    arguments = ("--out", tmp_path / "out", "--images", 4, "--dpi", 60, "--only", *PAIR_FIGURES)
    code, _, said = odevit("figures", models[0], "--teacher", tmp_path / "teacher", *arguments)
    assert code == 0 and said == ""
    for name in PAIR_FIGURES:
        assert {".pdf", ".png", ".json"} <= {path.suffix for path in (tmp_path / "out").glob(f"{name}.*")}, name
    rows = list(csv.DictReader((tmp_path / "out" / "results.csv").open()))
    assert [row["model"] for row in rows] == ["teacher (teacher)", "net"]
    other = refused(odevit("figures", models[0], "--teacher", models[1], "--out", tmp_path / "x", "--only", "pair_distance"))
    assert "holds an ODEViT; a teacher is a discrete ViT" in other and not (tmp_path / "x").exists()
