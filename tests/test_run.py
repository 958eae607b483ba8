"""A run of all analyses: resumed without computing, damage found, any number of processes, one line for bad input."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import problems
import pytest
import torch

import analysis
from analysis.reports import ExponentsOverReport, LensReport, Report
from analysis.running import JOBS
from analysis.running.merging import merge
from analysis.wellposed import certificate
from app.cli import main
from odevit import ODEViT, ODEViTConfig, SolverConfig, UserError, ViT, ViTConfig
from odevit.errors import NonFiniteError

SMALL = {"img_size": 8, "patch_size": 4, "in_chans": 1, "embed_dim": 8, "num_heads": 2, "registers": 1, "num_classes": 10}
QUICK = ("lens", "observed_order", "weight_spectra")
ROOT = Path(__file__).parent.parent


def model_of(**solver) -> ODEViT:
    torch.manual_seed(0)
    made = ODEViT(ODEViTConfig(**SMALL), SolverConfig(**({"horizon": 1.0, "steps": 2} | solver)))
    problems.randomise(made.field, 0.6, torch.Generator().manual_seed(0))
    return made.eval()


def data(count: int = 5):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, 1, 8, 8, generator=generator), torch.randint(0, 10, (count,), generator=generator)


def stamps(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.suffix in (".npz", ".csv")}


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """One run of every report, shared by the tests that only look at it."""
    out = tmp_path_factory.mktemp("full")
    return out, analysis.run(model_of(), data(), out / "r")


def test_every_report_is_there_and_comes_back(full):
    out, found = full
    assert set(found.entries) == set(JOBS) == set(found.reports) == set(found.computed)
    for name, reports in found.reports.items():
        for report in reports:
            assert report.provenance.model == found.reports["certificate"][0].provenance.model, name
            assert report.provenance.seed == 0 and report.provenance.dtype in ("float64", ""), name
    for path in found.paths:
        assert path.stat().st_size > 0
    assert not (out / "r" / ".parts").exists()
    summary = (out / "r" / "summary.md").read_text()
    assert all(f"| {name} |" in summary for name in JOBS) and "5 images" in summary


def test_numbers_are_those_of_the_functions(full):
    """A run only stores what the functions return; parts of images are joined in order."""
    _, found = full
    model, (images, labels) = model_of(), data()
    alone = certificate(model, images[:4])
    assert np.array_equal(alone.value, found.reports["certificate"][0].value)
    lens = analysis.logit_lens(model, analysis.as_float64(model).trajectory(images.double()))
    assert np.allclose(found.reports["lens"][0].logits, lens.logits, atol=1e-12)
    exponents = analysis.exponents_over(model, images, labels)
    assert np.allclose(found.reports["exponents"][0].exponents, exponents.exponents, atol=1e-6)
    assert [r.t for r in found.reports["lipschitz"]] == [0.0, 0.5, 1.0]


def test_finished_reports_are_not_made_again(tmp_path):
    first = analysis.run(model_of(), data(), tmp_path, reports=QUICK)
    before = stamps(tmp_path)
    again = analysis.run(model_of(), data(), tmp_path, reports=QUICK)
    assert again.computed == () and stamps(tmp_path) == before and again.entries == first.entries
    more = analysis.run(model_of(), data(), tmp_path, reports=(*QUICK, "flow_bound"))
    assert more.computed == ("flow_bound",)
    assert before.items() <= stamps(tmp_path).items()


@pytest.mark.parametrize("damage", ["truncated npz", "changed csv", "missing json"])
def test_damaged_report_is_made_again(tmp_path, damage):
    first = analysis.run(model_of(), data(), tmp_path, reports=QUICK)
    before = stamps(tmp_path)
    if damage == "truncated npz":
        content = (tmp_path / "lens.npz").read_bytes()
        (tmp_path / "lens.npz").write_bytes(content[: len(content) // 2])
    elif damage == "changed csv":
        (tmp_path / "lens.csv").write_text("nothing")
    else:
        (tmp_path / "lens.json").unlink()
    again = analysis.run(model_of(), data(), tmp_path, reports=QUICK)
    assert again.computed == ("lens",)
    assert np.array_equal(again.reports["lens"][0].logits, first.reports["lens"][0].logits)
    kept = {name for name, stamp in stamps(tmp_path).items() if before.get(name) == stamp}
    assert kept == {name for name in before if not name.startswith("lens")}


def test_finished_parts_of_an_interrupted_run_are_taken(tmp_path):
    """What a killed run left in .parts is used: a part with planted numbers ends up in the report, a broken one does not."""
    whole = analysis.run(model_of(), data(40), tmp_path / "a", reports=["lens"])
    key = json.loads((tmp_path / "a" / "summary.json").read_text())["reports"]["lens"]["key"]
    parts = tmp_path / "b" / ".parts" / f"lens-{key}"
    report = whole.reports["lens"][0]
    cut = {name: getattr(report, name)[..., 32:] for name in ("prediction", "margin", "radius", "resolved", "decision_time")}
    cut |= {"logits": report.logits[:, 32:] + 1000, "decision_resolved": report.decision_resolved[32:]}
    values = report.values() | cut
    LensReport(**values).save(parts / "lens-1.npz")
    (parts / "lens-0.npz").write_bytes(b"broken")
    found = analysis.run(model_of(), data(40), tmp_path / "b", reports=["lens"]).reports["lens"][0]
    assert np.array_equal(found.logits[:, :32], report.logits[:, :32])
    assert np.array_equal(found.logits[:, 32:], report.logits[:, 32:] + 1000)


def test_merged_exponents_have_statistics_of_all_images():
    """Joined parts give the AUC and class means of the whole set, not means of the parts'."""
    model, (images, labels) = model_of(), data(12)
    whole = analysis.exponents_over(model, images, labels, batch_size=4)
    parts = [analysis.exponents_over(model, images[i : i + 4], labels[i : i + 4]) for i in (0, 4, 8)]
    found = merge(parts)
    assert isinstance(found, ExponentsOverReport) and found.notes == whole.notes
    for name, value in whole.values().items():
        other = getattr(found, name)
        if isinstance(value, np.ndarray):
            assert np.array_equal(value, other, equal_nan=value.dtype.kind == "f"), name
        else:
            assert value == other or (value != value and other != other), name


def test_another_run_in_the_folder_is_refused_unless_forced(tmp_path):
    analysis.run(model_of(), data(), tmp_path, reports=["lens"])
    before = stamps(tmp_path)
    with pytest.raises(UserError, match=r"holds another run \(images 5, now 4\); --force"):
        analysis.run(model_of(), data(), tmp_path, reports=["lens"], images=4)
    with pytest.raises(UserError, match=r"holds another run \(seed 0, now 1\)"):
        analysis.run(model_of(), data(), tmp_path, reports=["lens"], seed=1)
    with pytest.raises(UserError, match=r"holds another run \(model ODEViT [0-9a-f]{12}, now ODEViT"):
        analysis.run(model_of(steps=3), data(), tmp_path, reports=["lens"])
    assert stamps(tmp_path) == before
    forced = analysis.run(model_of(), data(), tmp_path, reports=["weight_spectra"], seed=1, force=True)
    assert forced.computed == ("weight_spectra",) and not (tmp_path / "lens.npz").exists()


def test_foreign_folder_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(UserError, match="holds other files and no run of this kind; --force writes into it"):
        analysis.run(model_of(), data(), tmp_path, reports=["lens"])
    with pytest.raises(UserError, match="thesis.tex is a file"):
        analysis.run(model_of(), data(), tmp_path / "thesis.tex", reports=["lens"])
    analysis.run(model_of(), data(), tmp_path, reports=["lens"], force=True)
    assert (tmp_path / "thesis.tex").read_text() == "x"


def test_what_makes_no_sense_is_skipped_and_said(tmp_path):
    asked = ["euler_error", "observed_order", "lens"]
    adaptive = analysis.run(model_of(method="dopri5"), data(), tmp_path / "a", reports=asked)
    assert adaptive.entries["euler_error"].status == adaptive.entries["observed_order"].status == "skipped"
    assert "dopri5" in adaptive.entries["euler_error"].text and "skipped" in (tmp_path / "a" / "summary.md").read_text()
    net = ViT(ViTConfig(**SMALL, depth=2))
    names = ["certificate", "eigenvalues", "exponents", "observed_order", "euler_error", "lens", "attention", "effects"]
    discrete = analysis.run(net, data(2), tmp_path / "v", reports=names)
    assert [n for n, e in discrete.entries.items() if e.status != "done"] == ["observed_order"]
    assert [r.t for r in discrete.reports["eigenvalues"]] == [0.0, 1.0]


def test_a_report_that_fails_does_not_stop_the_others(tmp_path):
    """Growth so fast that rk4 overflows where two Euler steps do not: the swap fails in one line, the rest is there."""
    hot = model_of()
    with torch.no_grad():
        hot.field.blocks[0].mlp.fc2.weight.mul_(1e30)
    found = analysis.run(hot, data(2), tmp_path, reports=["solver_swap", "weight_spectra"])
    assert found.entries["solver_swap"].status == "failed" and "steps of" in found.entries["solver_swap"].text
    assert found.computed == ("weight_spectra",) and "failed: " in (tmp_path / "summary.md").read_text()


def test_bad_input_writes_nothing(tmp_path):
    out = tmp_path / "r"
    cases = [
        (lambda: analysis.run(model_of(), data(), out, reports=["lense"]), "unknown 'lense', did you mean lens"),
        (lambda: analysis.run(model_of(), data(), out, reports=[]), "not a list of names"),
        (lambda: analysis.run(model_of(), data(), out, images=0), "images: 0 is not a positive number"),
        (lambda: analysis.run(model_of(), torch.zeros(2, 1, 9, 9), out), r"images: expected \(B, 1, 8, 8\)"),
        (lambda: analysis.run(model_of(), (data()[0], data()[1][:2]), out), r"labels: shape \(2,\) for 5 images"),
        (lambda: analysis.run(model_of(), "digits", out), "data: str; give an ImageSet"),
        (lambda: analysis.run(tmp_path / "none", data(), out), "none: "),
    ]
    for call, text in cases:
        with pytest.raises(UserError, match=text) as caught:
            call()
        assert "\n" not in str(caught.value)
    with pytest.raises(NonFiniteError, match="images is NaN"):
        analysis.run(model_of(), data()[0] * float("nan"), out)
    assert not out.exists()


# the command line


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "m"
    model_of().save_pretrained(folder)
    return folder


def test_command_line(saved, tmp_path, capsys):
    command = ["analyze", str(saved), "--data", "digits", "--images", "3", "--out", str(tmp_path / "r"), "--reports"]
    assert main([*command, "certificate,lens"]) == 0
    printed = capsys.readouterr().out
    assert f"wrote {tmp_path / 'r' / 'lens'}.{{npz,json,csv}}" in printed
    assert "Certificate of ODEViT" in printed and "class decided at" in printed
    assert main([*command, "lens"]) == 0
    printed = capsys.readouterr().out
    assert "was there already" in " ".join(printed.split()) and "lens.{npz" not in printed
    assert main([*command, "lens", "--seed", "2"]) == 2
    assert "another run (seed 0, now 2); --force" in capsys.readouterr().err
    assert main([*command, "lens", "--seed", "2", "--force"]) == 0
    report = Report.load(tmp_path / "r" / "lens")
    assert report.provenance.seed == 2 and "digits, val" in report.provenance.note


def test_command_line_says_what_is_wrong_in_one_line(saved, tmp_path, capsys):
    out = ["--data", "digits", "--out", str(tmp_path / "r")]
    broken = model_of()
    with torch.no_grad():
        broken.field.blocks[0].attn.v.weight[1, 2] = float("nan")
    broken.save_pretrained(tmp_path / "nan")
    for args, code, text in [
        ([str(tmp_path / "nan"), *out], 1, "field.blocks.0.attn.v.weight holds 1 NaN"),
        ([str(saved), *out, "--reports", "lense"], 2, "unknown 'lense', did you mean lens"),
        ([str(saved), *out, "--images", "0"], 2, "images: 0 must be at least 1"),
        ([str(tmp_path / "none"), *out], 2, "none"),
        ([str(saved), "--data", "digits"], 2, "--out"),
    ]:
        assert main(["analyze", *args]) == code
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and text in error, error
    assert not (tmp_path / "r").exists()


def test_stored_half_precision_is_said(tmp_path):
    from safetensors.torch import load_file, save_file

    model_of().save_pretrained(tmp_path / "m")
    file = tmp_path / "m" / "model.safetensors"
    save_file({name: tensor.half() for name, tensor in load_file(file).items()}, file)
    found = analysis.run(tmp_path / "m", data(2), tmp_path / "r", reports=["weight_spectra"])
    assert found.notes == ("weights stored as F16 were cast to float64; they keep their rounding",)
    assert "F16" in (tmp_path / "r" / "summary.md").read_text()


@pytest.mark.slow
def test_two_processes_give_the_arrays_of_one(saved, tmp_path):
    """Under torchrun's environment, two processes share the tasks and write the very numbers of one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "app.cli", "analyze", str(saved), "--data", "digits", "--images", "20"]
    command += ["--reports", "certificate,exponents,lens,effects,lipschitz", "--device", "cpu", "--out"]
    base = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    subprocess.run([*command, str(tmp_path / "one")], env=base, check=True, timeout=300, stdout=subprocess.DEVNULL)
    world = base | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        subprocess.Popen([*command, str(tmp_path / "two")], env=world | {"RANK": str(r), "LOCAL_RANK": str(r)},
                         stdout=subprocess.PIPE, text=True)
        for r in range(2)
    ]  # fmt: skip
    printed = [rank.communicate(timeout=300)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert "wrote" in printed[0] and printed[1] == ""
    one, two = (sorted(p.name for p in (tmp_path / n).iterdir()) for n in ("one", "two"))
    assert one == two and len([name for name in one if name.endswith(".npz")]) == 7
    for name in one:
        if name.endswith(".npz"):
            with np.load(tmp_path / "one" / name) as a, np.load(tmp_path / "two" / name) as b:
                assert set(a) == set(b)
                for key in a:
                    assert np.array_equal(a[key], b[key], equal_nan=a[key].dtype.kind in "fc"), (name, key)
