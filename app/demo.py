"""`odevit demo`: train an ODE-ViT on handwritten digits; how good is it, how few steps does it need, is it well-posed?

Then the same with few labels, alone and with a discrete ViT as its teacher: what does the teacher change?
"""

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from odevit import __version__
from odevit.backbone import Backbone
from odevit.checkpoint import load_model, read_config, write_atomically
from odevit.config import DataConfig
from odevit.data import describe, load
from odevit.differences import over_images
from odevit.evaluate import macs, parameters
from odevit.study import FEW, STUDENTS, digits_run, lesson, right, test_images
from odevit.trainer import Trainer

from .figures_command import figures
from .release import finish, solver_lines

DEMO = Path("runs/demo")
DRAWN_IMAGES = 8
MAIN_FIGURES = (
    "training_curves", "logit_lens", "token_trajectories", "attention_over_time", "jacobian_eigenvalues", "lipschitz_over_time",
)  # fmt: skip
PAIR_FIGURES = ("teacher_student_trajectory", "pair_distance", "teacher_student_attention")


def run(out: Path, seed: int = 0) -> dict:
    """Train, evaluate, certify; returns what metrics.json holds. Only `out` is overwritten."""
    started = time.perf_counter()
    config = replace(digits_run(out, seed=seed), force=out == DEMO)
    trainer = Trainer(config)
    print(f"odevit {__version__}: an ODE-ViT on scikit-learn's handwritten digits\n{describe(trainer.data)}")
    model = trainer.model
    print(
        f"{parameters(model):,} parameters; one block over t in [0, {model.solver.horizon:g}], {model.solver.steps} "
        f"{model.solver.method} steps, {model.layout.size} tokens, {macs(model) / 1e6:.2f} M MACs an image"
    )
    trainer.fit()
    trained = time.perf_counter() - started
    known = read_config(out)["training"]
    test = load(DataConfig(source="digits"), splits=("test",), **_settings(model))["test"]
    found = finish(load_model(out), out, known, config, test, trainer.data["val"])
    score = found["test"]
    print(f"\ntest accuracy {score['top1']:.2%} ({score['n']} images, looked at once), trained in {trained:.0f} s")
    print(solver_lines(found["sweep"], model.solver.steps))
    print("\n" + "\n".join(f"wrote {path}" for path in sorted(out.iterdir()) if path.is_file()))
    figures([str(out), "--out", str(out / "figures"), "--images", str(DRAWN_IMAGES), "--only", *MAIN_FIGURES, "--force"])
    found["with_teacher"] = with_teacher(out, seed)
    write_atomically(out / "metrics.json", (json.dumps(found, indent=1) + "\n").encode())
    print(f"next: odevit eval {out} --sweep    odevit analyze {out} --images 16 --out {out}/analysis")
    return found


def with_teacher(out: Path, seed: int = 0, epochs: int = 30) -> dict:
    """Train a teacher on all labels and a student on 100, alone and taught; draw the pair; returns what metrics.json holds.

    Students are those of the last epoch, since there are more labels in validation than in their training set.
    """
    runs = out / "with_teacher"
    if out == DEMO:
        shutil.rmtree(runs, ignore_errors=True)  # of an earlier demo; elsewhere finished runs are kept
    print(f"\nWith a teacher: a discrete ViT that has seen all labels teaches an ODE-ViT that sees {FEW} of them.")
    started = time.perf_counter()
    whole = lesson(runs, seed, epochs)
    few, test = whole.few(), test_images(whole.teacher)
    answers = {"teacher": right(whole.teacher, test)}
    _say("teacher", whole.teacher, answers["teacher"], started)
    for how in ("alone", "taught"):
        started, name = time.perf_counter(), STUDENTS[how]
        student = few.student(how)
        answers[name] = right(student, test)
        _say(name, student, answers[name], started)
    gain = over_images(*(answers[STUDENTS[how]] for how in ("alone", "taught")))
    print(
        f"The teacher changes the student's accuracy by {gain.points()} points: 95 % interval over the same {gain.n} test "
        f"images (paired, Agresti and Min), p = {gain.p:.2g} (McNemar, exact); one seed, 5 in `odevit bench distillation`"
    )
    pair = [str(few.folder("taught")), "--teacher", str(whole.teacher_folder), "--out", str(out / "figures" / "with_teacher")]
    figures([*pair, "--images", str(DRAWN_IMAGES), "--only", *PAIR_FIGURES, "--force"])
    return {name: float(good.double().mean()) for name, good in answers.items()} | {"gain": gain._asdict()}


def _say(name: str, model: Backbone, good: Tensor, started: float) -> None:
    """One line on a model that was trained."""
    size = f"{parameters(model):>6,} parameters, {macs(model) / 1e6:.2f} M MACs"
    print(f"{name:<22}{size}   test {float(good.double().mean()):6.2%}   {time.perf_counter() - started:3.0f} s")


def _settings(model) -> dict:
    return {"image_shape": model.config.image_shape, "channels": model.config.in_chans, "classes": model.inputs.classes}
