"""The command line: exit codes, one line for every mistake with the nearest name, switches, tables, files written and kept."""

import csv
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from app.cli import main, one_line
from odevit.checkpoint import read_config, save_model
from odevit.config import InputConfig, ODEViTConfig, SolverConfig
from odevit.model import build

NARROW = ["--model.stem", "patch", "--model.patch-size", "4", "--model.embed-dim", "8", "--model.num-heads", "2"]
TINY = [*NARROW, "--threads", "1", "--device", "cpu"]
SHORT = ["--optim.epochs", "1", "--optim.batch-size", "512"]


@pytest.fixture
def odevit(capsys):
    """Run a command in this process: (exit code, stdout, stderr)."""

    def run(*args) -> tuple[int, str, str]:
        code = main([str(a) for a in args])
        return code, *capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A model folder that `odevit train` wrote."""
    out = tmp_path_factory.mktemp("run") / "model"
    assert main(["train", "--preset", "odevit_digits", *TINY, *SHORT, "--out", str(out)]) == 0
    return out


def the_line(result: tuple[int, str, str], code: int = 2) -> str:
    """The one line on stderr of a command that failed with `code`."""
    assert result[0] == code and result[1] == "", result
    (line,) = result[2].splitlines()
    return line.removeprefix("odevit: error: ")


MISTAKES = {
    "trian": "unknown command 'trian', did you mean train?",
    "train --preset odevit_digit": "preset: unknown 'odevit_digit', did you mean odevit_digits?",
    "train --preset": "preset: no name given (known: ",
    "train --optim.lrr 1": "unknown option --optim.lrr, did you mean --optim.lr?",
    "train --epochs 3": "unknown option --epochs, did you mean --optim.epochs?",
    "train --steps 3": "unknown option --steps, did you mean --solver.steps?",
    "train stray": "unknown option stray",
    "train --model.stem cnv": "--model.stem: unknown 'cnv', did you mean conv? (known: patch, conv)",
    "train --model.attention l3": "--model.attention: unknown 'l3', did you mean l2?",
    "train --amp fp16": "--amp: unknown 'fp16'",
    "train --solver.method eular": "method: unknown 'eular', did you mean euler? (installed: euler, ",
    "train --solver.method RK4": "did you mean rk4?",
    "train --solver.method tsit5": "method: unknown 'tsit5'",
    "train --solver.method scipy_solver": "not supported (runs in SciPy and returns no gradient",
    "train --solver.horizon 0": "horizon: 0.0 must be positive",
    "train --solver.horizon nan": "horizon: nan must be positive and finite",
    "train --solver.steps 0": "steps: 0 must be at least 1",
    "train --solver.method dopri5 --amp bf16": "amp: bf16",
    "train --model.num-heads 5": "num_heads: 5 does not divide embed_dim",
    "train --model.img-size 30": "img_size: 30 is not divisible by patch_size 4",
    "train --optim.lr -1": "optim.lr: -1.0 must be positive",
    "train --optim.lr x": "--optim.lr: 'x' is not a number",
    "train --optim.epochs x": "--optim.epochs: 'x' is not a whole number",
    "train --optim.epochs": "--optim.epochs: no value given",
    "train --data.source digitz": "'digitz' is neither digits, cifar10, cifar100 nor an .npz file or folder",
    "train --data.source cifar10 --data.root {tmp} --data.no-download": "not under {tmp} and download is off",
    "train --device tpu": "device: unknown 'tpu' (auto, cpu, cuda, cuda:N)",
    "eval": "missing PATH (Model folder)",
    "eval {tmp}/modle": "no such file or folder",
    "eval {tmp}": "no config.json; found: nothing",
    "eval {model} --method eular": "did you mean euler?",
    "eval {model} --steps 0": "steps: 0 must be at least 1",
    "eval {model} --images 0": "images: 0 must be at least 1",
    "eval {model} --split tst": "--split: unknown 'tst', did you mean test? (known: val, test)",
    "eval {model} --sweep --methods euler rk5": "method: unknown 'rk5', did you mean rk4?",
    "eval {model} --out {model}/config.json": "config.json exists; --force overwrites it",
    "eval {model} --data nowhere.npz": "'nowhere.npz' is neither",
    "inspect {tmp}/nothing": "no such file or folder",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_line_that_names_it_exit_code_2_and_leaves_nothing(odevit, model, tmp_path, line):
    filled = line.format(tmp=tmp_path, model=model).split()
    out = ["--out", str(tmp_path / "out")] if filled[0] == "train" else []
    assert MISTAKES[line].format(tmp=tmp_path) in the_line(odevit(*filled[:1], *out, *filled[1:]))
    assert list(tmp_path.iterdir()) == []


def test_a_wrapped_box_becomes_one_line():
    lined = "╭─ Value error ──╮\n│ Error parsing optim: optim.lr: -1.0 must be │\n│ positive │\n│ ─── │\n│ For help │\n╰──╯\n"
    plain = " Value error \n ------- \n  Error parsing optim: optim.lr: -1.0 must be \n  positive \n  ------- \n  For help \n"
    assert one_line(lined) == one_line(plain) == "optim.lr: -1.0 must be positive"
    assert one_line("") == ""


def test_help_shows_defaults_and_units_of_the_preset_named(odevit, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", "--preset", "vit_digits", "--help"])
    text = " ".join(re.sub(r"[│╭╮╰╯─]", " ", capsys.readouterr().out).split())
    assert stop.value.code in (0, None)
    assert "--model.depth INT Number of layers. (default: 4)" in text and "--model.blocks" not in text
    assert "--optim.lr FLOAT Peak learning rate. (default: 0.0015)" in text and "one unit is one layer" in text
    code, usage, _ = odevit("--help")
    assert code == 0 and all(f"\n  {name} " in usage for name in ("train", "eval", "inspect", "convert", "bench", "demo"))
    assert odevit()[0] == 2
    assert odevit("--version")[1].startswith("odevit ")


def test_train_says_what_it_trains_and_where_everything_went(odevit, tmp_path):
    out = tmp_path / "r"
    args = ["train", "--preset", "odevit_digits", *TINY, *SHORT, "--out", out, "--data.flip", "--optim.ema=0.5"]
    code, text, errors = odevit(*args)
    assert code == 0 and errors == ""  # not a terminal: no bar, one line an epoch
    assert re.search(
        r"^preset odevit_digits: [\d,]+ parameters, [\d.]+ M MACs an image, NFE 4, \d+ tokens, .*, seed 0$", text, re.M
    )
    assert re.search(
        r"^epoch 1/1  loss [\d.]+  curvature \S+  acc [\d.]+  val [\d.]+ \(best [\d.]+\)  nfe 4  lr \S+  ", text, re.M
    )
    written = re.findall(r"^wrote (.*)$", text, re.M)
    assert sorted(written) == sorted(str(p) for p in out.iterdir()) and len(written) == 5
    run = read_config(out)["training"]["run"]
    assert run["data"]["flip"] is True and run["optim"]["ema"] == 0.5 and run["model"]["embed_dim"] == 8
    assert "--resume" in the_line(odevit(*args))
    assert odevit(*args, "--resume")[1].splitlines()[-1].startswith("nothing left to do")
    assert odevit(*args, "--force")[0] == 0
    assert str(out) in odevit("inspect", out)[1]


def test_the_discrete_baseline_trains_by_its_preset(odevit, tmp_path):
    vit = ["train", "--preset", "vit_digits", *TINY, "--model.depth", "3", *SHORT, "--out", tmp_path / "v"]
    assert "NFE 3," in odevit(*vit)[1]
    assert read_config(tmp_path / "v")["kind"] == "vit"
    code, text, _ = odevit("eval", tmp_path / "v", "--sweep", "--methods", "euler", "--json")
    rows = json.loads(text)
    assert code == 0 and [row["steps"] for row in rows] == [3, 6, 12]  # only what the three layers divide
    assert rows[0]["change"] == rows[0]["max_dlogit"] == 0.0


def test_eval_prints_what_it_measured_as_text_json_and_csv(odevit, model, tmp_path):
    code, text, errors = odevit("eval", model, "--json", "--out", tmp_path / "a.csv", "--confusion", tmp_path / "c.csv")
    (row,) = json.loads(text)
    assert code == 0 and errors.split() == ["wrote", str(tmp_path / "c.csv"), "wrote", str(tmp_path / "a.csv")]
    facts = read_config(model)["training"]
    assert row["split"] == "val" and row["n"] == facts["val_images"] and row["top1"] == facts["val_accuracy"]
    (again,) = csv.DictReader((tmp_path / "a.csv").open())
    assert float(again["top1"]) == row["top1"] and int(again["macs"]) == row["macs"]
    counts = [list(map(int, list(r.values())[1:])) for r in csv.DictReader((tmp_path / "c.csv").open())]
    assert sum(map(sum, counts)) == row["n"] and sum(counts[i][i] for i in range(10)) == round(row["top1"] * row["n"])
    shown = dict(line.split(None, 1) for line in odevit("eval", model)[1].splitlines())
    assert shown["top1"] == f"{row['top1']:.4f}" and shown["parameters"] == f"{row['parameters']:,}"
    code, text, _ = odevit("eval", model, "--split", "test", "--images", 50)
    assert "test split: report it, do not select on it" in text and re.search(r"^n +50$", text, re.M)


def test_the_sweep_is_a_plain_switch_and_finds_no_change_for_the_trained_solver(odevit, model):
    code, text, _ = odevit("eval", model, "--sweep", "--methods", "euler", "rk4", "dopri5", "--sweep-steps", 2, 4)
    lines = [line.split() for line in text.splitlines()]
    assert code == 0 and lines[0][-1] == "val"
    trained = next(line for line in lines if line[:2] == ["euler", "4"])
    change = lines[1].index("change") + 1  # "0.1 M" is two words
    assert trained[change : change + 3] == ["+0.0000", "0.0000", "0.0000"]
    assert [line[:2] for line in lines[2:]] == [
        ["euler", "2"], ["euler", "4"], ["rk4", "2"], ["rk4", "4"], ["dopri5", "-"],
    ]  # fmt: skip


def test_broken_weights_are_one_line_with_the_name_and_exit_code_1(odevit, model, tmp_path):
    folder = tmp_path / "nan"
    folder.mkdir()
    for name in ("config.json", "README.md"):
        (folder / name).write_bytes((model / name).read_bytes())
    tensors = load_file(model / "model.safetensors")
    tensors["field.blocks.0.attn.v.weight"][1, 2] = float("nan")
    save_file(tensors, folder / "model.safetensors")
    for flags in ((), ("--sweep",), ("--method", "dopri5"), ("--json", "--out", tmp_path / "x.csv")):
        assert "field.blocks.0.attn.v.weight holds 1 NaN" in the_line(odevit("eval", folder, *flags), code=1)
    assert not (tmp_path / "x.csv").exists()


def test_a_blow_up_is_one_line_with_time_and_image_and_exit_code_1(odevit, tmp_path):
    torch.manual_seed(0)
    config = ODEViTConfig(img_size=8, patch_size=4, in_chans=1, embed_dim=8, num_heads=2)
    wild = build(config, SolverConfig(horizon=4.0, steps=30), InputConfig((0.5,), (0.25,), tuple("0123456789"), "digits"))
    with torch.no_grad():
        for layer in (wild.field.blocks[0].mlp.fc1, wild.field.blocks[0].mlp.fc2):
            layer.weight.mul_(1e8)
    save_model(wild, tmp_path / "wild")
    for method in ("euler", "rk4", "dopri5"):
        line = the_line(odevit("eval", tmp_path / "wild", "--method", method), code=1)
        assert re.search("blows up|too large", line) and "t = " in line and "weights hold" not in line


def test_a_checkpoint_of_an_unknown_solver_can_be_used_with_another(odevit, model, tmp_path):
    folder = tmp_path / "foreign"
    folder.mkdir()
    tensors = load_file(model / "model.safetensors")
    save_file(tensors, folder / "model.safetensors")
    config = json.loads((model / "config.json").read_text())
    config["solver"]["method"] = "radauIIA5"
    (folder / "config.json").write_text(json.dumps(config))
    line = the_line(odevit("eval", folder))
    assert "radauIIA5" in line and "euler" in line and "--method rk4" in line
    assert odevit("eval", folder, "--method", "rk4")[0] == 0
    assert odevit("inspect", folder)[0] == 0


@pytest.mark.slow
def test_a_terminal_gets_a_bar_with_loss_accuracy_nfe_and_the_time_left(tmp_path):
    screen, terminal = pty.openpty()  # of unknown size
    flags = ["train", "--preset", "odevit_digits", *TINY, "--optim.epochs", "2", "--optim.batch-size", "32"]
    shell = [sys.executable, "-m", "app.cli", *flags, "--out", str(tmp_path / "r")]
    process = subprocess.Popen(shell, stdout=terminal, stderr=terminal, close_fds=True, env={**os.environ, "COLUMNS": "140"})
    os.close(terminal)
    shown, started = b"", time.monotonic()
    while time.monotonic() - started < 300:
        if select.select([screen], [], [], 0.5)[0]:
            try:
                part = os.read(screen, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
        elif process.poll() is not None:
            break
    assert process.wait(60) == 0
    text = shown.decode()
    bars = [line for line in re.split(r"[\r\n]", text) if re.search(r"epoch \d/2: +\d+%", line)]
    assert any(re.search(r"\d+/68 \[.*<\d.*loss=\d.*acc=\d.*nfe=4", bar) for bar in bars)  # 2 x 34 batches: the whole run
    assert len(re.findall(r"epoch \d/2  loss", text)) == 2
