"""Training: the same bits after a kill, the same weights for any micro-batch."""

import contextlib
import csv
import math
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import odevit.trainer
from odevit.checkpoint import load_model, load_training_state, read_config
from odevit.config import DataConfig, ODEViTConfig, OptimConfig, SolverConfig, TrainConfig, ViTConfig
from odevit.data import load
from odevit.errors import NonFiniteError, UserError
from odevit.evaluate import predict
from odevit.objective import Objective
from odevit.progress import generator
from odevit.records import command
from odevit.trainer import Trainer
from odevit.trajectory import TimeGrid

MODEL = ODEViTConfig(img_size=8, patch_size=4, in_chans=1, embed_dim=16, num_heads=2, registers=1)
SOLVER = SolverConfig(horizon=2.0, steps=3)
OPTIM = OptimConfig(epochs=2, batch_size=16, lr=5e-3)


def tiny(out: Path, **changes) -> TrainConfig:
    """A run of well under a second; `changes` replace fields of the run, "optim.x" those of its parts."""
    config = TrainConfig(model=MODEL, solver=SOLVER, optim=OPTIM, out=out, device="cpu", threads=1)
    for name, value in changes.items():
        part, _, field = name.partition("__")
        config = replace(config, **{part: replace(getattr(config, part), **{field: value}) if field else value})
    return config


def digits(train: int = 64, val: int = 40) -> dict:
    """The first images of digits."""
    sets = load(DataConfig(), image_shape=(8, 8), channels=1)
    return {"train": sets["train"].subset(range(train)), "val": sets["val"].subset(range(val))}


@pytest.fixture(scope="module")
def data():
    """64 images to train on (4 batches of 16), 40 to validate on."""
    return digits()


def trained(config: TrainConfig, data: dict, **parts) -> Trainer:
    trainer = Trainer(config, data, **parts)
    trainer.fit()
    return trainer


def difference(a: torch.nn.Module, b: torch.nn.Module) -> float:
    """Largest difference of two models' weights and buffers."""
    other = b.state_dict()
    return max(
        (float((v.double() - other[k].double()).abs().max()) for k, v in a.state_dict().items() if v.numel()), default=0.0
    )


def left_behind(out: Path) -> dict:
    """Everything a run leaves, as values that compare by their bits; what differs by nature left out."""

    def bits(value):
        if isinstance(value, torch.Tensor):
            return (str(value.dtype), tuple(value.shape), value.contiguous().view(-1).view(torch.uint8).tolist())
        if isinstance(value, dict):
            return {k: bits(v) for k, v in value.items() if k not in ("seconds", "resume", "out", "command", "save", "commit")}
        return [bits(v) for v in value] if isinstance(value, (list, tuple)) else value

    rows = list(csv.DictReader((out / "log.csv").open()))
    for row in rows:
        del row["seconds"]
    state, model = load_training_state(out / "state.pt"), load_model(out).state_dict()
    return {"state": bits(state), "log": rows, "model": bits(dict(model)), "config": bits(read_config(out))}


# --- resume -------------------------------------------------------------------------------------------------------------------

RESUMED = {
    "optim__epochs": 4, "optim__ema": 0.9, "random_steps": 1, "data__flip": True, "data__mixup": 0.2, "model__stem": "conv",
}  # fmt: skip
LONG = RESUMED | {"optim__epochs": 40}  # long enough to be killed several times on any machine


def run_in_child(out: str) -> None:
    """A run that goes on where it stands; in a process of its own, to be killed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with contextlib.suppress(KeyboardInterrupt):
        trained(tiny(Path(out), resume=True, **LONG), digits())
        return
    sys.exit(130)


def child(out: Path):
    """The run in a process forked from a clean server, where threads were never started."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["odevit.trainer"])
    process = context.Process(target=run_in_child, args=(str(out),), daemon=True)
    process.start()
    return process


def wait_for_progress(process, state: Path) -> None:
    """Until the run has saved once more, or has ended."""
    before = state.stat().st_mtime_ns if state.exists() else 0
    while process.is_alive() and not (state.exists() and state.stat().st_mtime_ns != before):
        time.sleep(0.002)


@pytest.mark.slow
def test_a_run_killed_at_random_moments_ends_with_the_bits_of_one_that_was_not(tmp_path):
    whole, broken, draw, kills = tmp_path / "whole", tmp_path / "broken", random.Random(0), 0
    trained(tiny(whole, **LONG), digits())
    reached = []
    for _ in range(6):
        process = child(broken)
        wait_for_progress(process, broken / "state.pt")
        process.join(draw.uniform(0, 0.15))
        if process.is_alive():
            kills += 1
            os.kill(process.pid, signal.SIGKILL)
        process.join()
        reached.append(load_training_state(broken / "state.pt")["progress"]["epoch"])
    process = child(broken)
    process.join()
    assert process.exitcode == 0 and kills >= 2
    assert all(a < b for a, b in zip(reached, reached[1:]) if a < LONG["optim__epochs"])  # it goes on, not over again
    assert left_behind(whole) == left_behind(broken)


def test_ctrl_c_saves_within_the_epoch_and_the_resumed_run_has_the_same_bits(tmp_path, data):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    trained(tiny(whole, **RESUMED), data)
    stops = 0
    for batch in (2, 5, 4, 99):
        trainer = Trainer(tiny(broken, resume=True, **RESUMED), data)
        plain, done = trainer._step, [0]

        def step(ids, plain=plain, done=done, batch=batch):
            plain(ids)
            done[0] += 1
            if done[0] == batch:
                os.kill(os.getpid(), signal.SIGINT)

        trainer._step = step
        try:
            trainer.fit()
        except KeyboardInterrupt as stop:
            stops += 1
            assert "--resume" in str(stop)
            assert load_training_state(broken / "state.pt")["progress"]["batch"] == trainer.progress.batch
    assert stops == 3
    assert left_behind(whole) == left_behind(broken)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_ctrl_c_in_the_shell_exits_130_and_says_how_to_go_on(tmp_path):
    flags = "--preset odevit_digits --model.patch-size 4 --optim.epochs 500 --threads 1 --device cpu --out"
    shell = [sys.executable, "-m", "app.cli", "train", *flags.split(), str(tmp_path / "r")]
    process = subprocess.Popen(shell, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (tmp_path / "r" / "log.csv").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    error = process.communicate(timeout=60)[1].strip().splitlines()
    assert process.returncode == 130
    assert len(error) == 1 and error[0].startswith("odevit: error: interrupted; saved") and "--resume" in error[0]
    assert load_training_state(tmp_path / "r" / "state.pt")["progress"]["batch"] >= 0


def test_resuming_another_run_names_the_field_and_a_finished_run_is_left_alone(tmp_path, data):
    config = tiny(tmp_path / "r")
    trained(config, data)
    with pytest.raises(UserError, match=r"optim\.lr \(0\.005, now 0\.001\)"):
        Trainer(replace(config, resume=True, optim=replace(OPTIM, lr=1e-3)), data)
    with pytest.raises(UserError, match="model"):
        Trainer(replace(config, resume=True, model=ViTConfig(img_size=8, patch_size=4, in_chans=1)), data)
    before = left_behind(config.out)
    again = Trainer(replace(config, resume=True, threads=2, data=replace(config.data, root=Path("elsewhere"))), data)
    torch.set_num_threads(1)
    assert len(again.fit()) == OPTIM.epochs and left_behind(config.out) == before


# --- folders ------------------------------------------------------------------------------------------------------------------


def test_nothing_is_overwritten_without_force_and_force_deletes_only_when_the_new_run_starts(tmp_path, data):
    out = tmp_path / "r"
    trained(tiny(out), data)
    before = left_behind(out)
    with pytest.raises(UserError, match="--resume or overwrite it by --force"):
        Trainer(tiny(out), data)
    with pytest.raises(UserError, match="classes"):  # a mistake beside --force costs nothing
        Trainer(tiny(out, force=True, model__num_classes=3), data)
    Trainer(tiny(out, force=True), data)
    assert left_behind(out) == before
    (out / "state.pt").unlink()
    for resume in (False, True):  # a released model is no run to go on with
        with pytest.raises(UserError, match="holds config.json.*--force"):
            Trainer(tiny(out, resume=resume), data)
    assert len(trained(tiny(out, force=True, optim__epochs=1), data).progress.history) == 1
    assert len(list(csv.DictReader((out / "log.csv").open()))) == 1


def test_a_run_leaves_its_command_results_and_a_log_with_the_promised_columns(tmp_path, data):
    config = tiny(tmp_path / "r", loss__jasmin=0.01)
    trainer = trained(config, data)
    rows = list(csv.DictReader((config.out / "log.csv").open()))
    columns = "epoch,lr,loss,ce,curvature,jasmin,accuracy,nfe,val_loss,val_accuracy,seconds"
    assert list(rows[0]) == columns.split(",")
    for row in rows:  # 64 images in equal batches: the parts add up
        parts = float(row["ce"]) + 0.1 * float(row["curvature"]) + 0.01 * float(row["jasmin"])
        assert float(row["loss"]) == pytest.approx(parts, rel=1e-6)
    facts = read_config(config.out)["training"]
    assert facts["run"]["optim"]["lr"] == 5e-3 and facts["val_images"] == 40
    best = max(range(2), key=lambda i: float(rows[i]["val_accuracy"]))
    assert facts["best_epoch"] == best + 1 and facts["val_accuracy"] == float(rows[best]["val_accuracy"])
    card = (config.out / "README.md").read_text()
    assert facts["command"] in card and f"{facts['val_accuracy']:.4g} | val | 40 | 0" in card and "jasmin" in card
    predicted = predict(load_model(config.out), data["val"].images)[0].argmax(1)
    assert float((predicted == data["val"].labels).double().mean()) == facts["val_accuracy"]
    assert trainer.progress.best == facts["val_accuracy"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"data__flip": True, "data__download": False, "model__img_size": (8, 16), "seed": -3},
        {"loss__curvature": 0.0, "compile": True},
    ],
)
def test_the_recorded_command_gives_the_same_run(tmp_path, changes):
    import shlex

    from app.cli import parse
    from app.commands import _train_default

    config = tiny(tmp_path, **changes)
    args = shlex.split(command(config))[2:]
    assert parse(TrainConfig, args, "train", _train_default(args)) == config


def test_an_epoch_that_is_not_better_on_validation_leaves_the_kept_model_alone(tmp_path, data):
    trainer, kept = Trainer(tiny(tmp_path / "r"), data), []
    plain = trainer._step

    def step(ids):
        if trainer.progress.epoch == 1 and not kept:
            kept.append((trainer.config.out / "model.safetensors").read_bytes())
            trainer.progress.best = 1.0
        plain(ids)

    trainer._step = step
    trainer.fit()
    assert (trainer.config.out / "model.safetensors").read_bytes() == kept[0]
    assert trainer.progress.best_epoch == 1 and read_config(trainer.config.out)["training"]["best_epoch"] == 1
    assert difference(load_model(trainer.config.out), trainer.model) > 0


def test_training_looks_at_train_and_validation_only(tmp_path, monkeypatch):
    asked = []

    class Guarded(dict):
        def __getitem__(self, split):
            assert split in ("train", "val"), f"training read {split}"
            return super().__getitem__(split)

    def spy(config, *, splits=("train", "val"), **more):
        asked.append(splits)
        return Guarded(load(config, splits=splits, **more))

    monkeypatch.setattr(odevit.trainer, "load", spy)
    Trainer(tiny(tmp_path / "r", optim__epochs=1, optim__batch_size=256)).fit()
    assert asked == [("train", "val")]


# --- batches ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [{}, {"loss__curvature": 0.0, "loss__jasmin": 0.1}], ids=["curvature", "jasmin"])
def test_accumulation_averages_also_where_the_last_batch_is_uneven(tmp_path, data, loss):
    odd = {**data, "train": data["train"].subset(range(53))}  # 16 + 16 + 16 + 5
    one = trained(tiny(tmp_path / "1", optim__clip=0.5, **loss), odd)
    for parts in (2, 4):
        many = trained(tiny(tmp_path / str(parts), optim__clip=0.5, optim__accumulate=parts, **loss), odd)
        assert difference(one.model, many.model) <= 1e-6
        assert many.progress.history[-1]["loss"] == pytest.approx(one.progress.history[-1]["loss"], abs=1e-6)
    assert difference(one.model, trained(tiny(tmp_path / "x", optim__clip=0.5, seed=1, **loss), odd).model) > 1e-3


@pytest.mark.parametrize("stem", ["patch", "conv"])
def test_a_last_batch_of_one_image_is_trained_on_and_weighs_one_image(tmp_path, data, stem):
    config = tiny(tmp_path / "r", model__stem=stem, optim__epochs=1, optim__batch_size=63, optim__lr=1e-12)
    row = trained(config, data).progress.history[0]
    assert Trainer(replace(config, force=True), data).steps_per_epoch == 2
    if stem == "patch":  # with a learning rate of nothing, the epoch's loss is the mean over the 64 images
        objective = Objective(Trainer(replace(config, force=True), data).model, config.loss)
        pixels, labels = data["train"].images, data["train"].labels
        augment = Trainer(replace(config, force=True), data).augment
        with torch.no_grad():
            images, targets = augment(pixels, labels, torch.arange(64), 0)
            expected = objective(images, targets, TimeGrid(0.0, 2.0, 3))
        assert row["loss"] == pytest.approx(float(expected["loss"]), abs=1e-6)
        assert row["accuracy"] == float(expected["correct"]) / 64


def test_the_steps_of_a_batch_are_drawn_from_seed_epoch_and_batch_alone(tmp_path, data):
    trainer = Trainer(tiny(tmp_path / "r", random_steps=1), data)
    drawn = {}
    for epoch in range(4):
        for batch in range(8):
            trainer.progress.epoch, trainer.progress.batch = epoch, batch
            drawn[epoch, batch] = trainer._grid().steps
    assert set(drawn.values()) == {2, 3, 4}
    torch.rand(5)
    other = Trainer(tiny(tmp_path / "r", random_steps=1, optim__batch_size=8), data)
    other.progress.epoch, other.progress.batch = 3, 5
    assert other._grid().steps == drawn[3, 5]
    assert generator(10**12, 3, 4).initial_seed() != generator(10**12 + 1, 3, 4).initial_seed()  # any seed will do


def test_wrong_data_is_named_before_anything_is_written(tmp_path, data):
    with pytest.raises(UserError, match="model.num_classes: 7.*10 classes; use --model.num-classes 10"):
        Trainer(tiny(tmp_path / "r", model__num_classes=7), data)
    with pytest.raises(UserError, match="data.source: 2 training images cannot be shared by 4"):
        Trainer(tiny(tmp_path / "r", optim__accumulate=4), {**data, "train": data["train"].subset([0, 1])})
    assert not (tmp_path / "r").exists()


# --- numbers that break -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["euler", "rk4", "dopri5"])
def test_a_broken_weight_input_or_state_stops_with_its_cause_and_the_last_good_state(tmp_path, data, method):
    config = tiny(tmp_path / "r", loss__curvature=0.0, solver__method=method)
    trained(config, data)
    good = (config.out / "state.pt").read_bytes()

    def message(spoil) -> str:
        trainer = Trainer(replace(config, force=True), data)
        trainer._restore()
        trainer.progress.epoch, trainer.progress.batch = 1, 1
        spoil(trainer)
        with pytest.raises(NonFiniteError) as caught:
            trainer.fit()
        assert (config.out / "state.pt").read_bytes() == good
        text = str(caught.value)
        assert "epoch 2, batch 2 of 4" in text and str(config.out / "state.pt") in text and "\n" not in text
        return text

    def weight(trainer):
        trainer.model.field.blocks[0].mlp.fc1.weight.data[3, 2] = math.nan

    def image(trainer):
        plain = trainer.augment

        def spoiled(*args):
            images, targets = plain(*args)
            images[5] = math.inf
            return images, targets

        trainer.augment = spoiled

    def huge(trainer):
        trainer.model.tokenizer.positions.data *= 1e35
        trainer.model.field.blocks[0].mlp.fc1.weight.data *= 1e4

    assert "weights hold NaN or infinite values: field.blocks.0.mlp.fc1.weight" in message(weight)
    assert "input is not finite: image 5" in message(image)
    blown = message(huge)
    assert "state" in blown and "t = " in blown
    if method != "dopri5":
        assert "(step " in blown and "image 0" in blown


def test_a_gradient_that_is_not_finite_stops_before_it_reaches_the_weights(tmp_path, data):
    class Cliff(Objective):
        def forward(self, images, targets, grid, *more):
            terms = super().forward(images, targets, grid, *more)
            return terms | {"loss": terms["loss"] + self.model.head.bias.sum().abs().sqrt() * 0}  # slope inf * 0 at 0

    config = tiny(tmp_path / "r", optim__clip=0.0)
    trainer = Trainer(config, data)
    trainer.objective = trainer.forward = Cliff(trainer.model, config.loss)
    with pytest.raises(NonFiniteError, match=r"gradient not finite in epoch 1, batch 1 of 4: that of head\.bias"):
        trainer.fit()
    assert all(bool(torch.isfinite(w).all()) for w in trainer.model.parameters())


# --- precision, solvers, memory -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_bf16_products_train_to_nearly_the_logits_of_float32(tmp_path, data, method):
    logits = {}
    for amp in ("none", "bf16"):
        config = tiny(tmp_path / amp, amp=amp, solver__method=method, optim__epochs=1)
        trainer = trained(config, data)
        logits[amp] = predict(trainer.model, data["val"].images)[0]
        assert trainer.progress.history[0]["nfe"] == (3 if method == "euler" else 12)
    assert 0 < float((logits["bf16"] - logits["none"]).abs().max()) < 0.03


def test_an_adaptive_solver_trains_in_float32_and_refuses_bf16_before_the_first_batch(tmp_path, data):
    plain = tiny(tmp_path / "r", loss__curvature=0.0)
    fixed = trained(replace(plain, out=tmp_path / "f", solver=replace(SOLVER, method="rk4", steps=8)), data)
    adaptive = trained(replace(plain, solver=replace(SOLVER, method="dopri5", rtol=1e-5)), data)
    assert adaptive.progress.history[-1]["loss"] == pytest.approx(fixed.progress.history[-1]["loss"], abs=1e-3)
    assert adaptive.progress.history[-1]["loss"] < adaptive.progress.history[0]["loss"]
    with pytest.raises(UserError, match=r"amp: bf16.*dopri5"):
        tiny(tmp_path / "x", amp="bf16", loss__curvature=0.0, solver__method="dopri5")


def test_training_learns_and_leaves_the_mode_in_which_it_found_the_model(tmp_path, data):
    trainer = trained(tiny(tmp_path / "r", optim__epochs=25, optim__lr=1e-2), data)
    assert trainer.progress.history[-1]["accuracy"] > 0.9
    assert all(module.training for module in trainer.model.modules())  # validation restored it: defect 11


@pytest.mark.slow
def test_a_script_without_main_guard_trains(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, pathlib\nmultiprocessing.set_start_method('spawn')\nfrom odevit.config import *\n"
        "from odevit.trainer import Trainer\n"
        "model = ODEViTConfig(img_size=8, patch_size=4, in_chans=1, embed_dim=8, num_heads=2)\n"
        f"out = pathlib.Path('{tmp_path}/r')\n"
        "Trainer(TrainConfig(model=model, optim=OptimConfig(epochs=1, batch_size=512), out=out, threads=1)).fit()\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("epoch 1/1") and len(done.stdout.splitlines()) == 1  # not a terminal: one line an epoch
