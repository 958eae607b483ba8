"""Studies on the handwritten digits, small enough to repeat over seeds: what the curvature penalty and a teacher change.

Plain training of a few-step net is free to leave the ODE: its own solver fits, another one does not. `curvature_study` trains
with and without the penalty of losses.curvature and asks every model under other solvers and steps. `teacher_study` trains the
same student alone and after a discrete ViT, on all images and on few.
"""

import contextlib
import io
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from .backbone import Backbone
from .checkpoint import load_model
from .config import DataConfig, DistillConfig, LossConfig, MatchConfig, OptimConfig, TrainConfig, preset
from .data import ImageSet, load
from .differences import over_seeds
from .distillation import Distillation, default_student
from .evaluate import macs, parameters, predict, sweep, trained_nfe
from .trainer import Trainer
from .vit import ViT

SHIFTED = DataConfig("digits", crop=1)  # every image in one of nine places: what a teacher says is new in each
FEW = 100  # images with labels, ten a class
STUDENT_STEPS = 4  # one a layer of the teacher, so that both have the same NFE
STUDENTS = {  # kind of student -> what it is called
    "alone": "student alone", "copied": "student, taken over only", "taught": "student with teacher",
}  # fmt: skip
TAUGHT_BY = {
    "copied": MatchConfig(trajectory=0.0, logits=1e-12),  # a weight that draws nothing: labels alone teach
    "taught": MatchConfig(trajectory=1.0, tokens="all", logits=1.0),
}  # fmt: skip
SOLVERS = ("euler", "midpoint", "rk4", "dopri5")
STEPS = (2, 3, 4, 8, 16)


def digits_run(out: Path, *, seed: int = 0, epochs: int = 60, curvature: float = 1.0) -> TrainConfig:
    """The run of the demo: `odevit_digits` on scikit-learn's digits; one thread, since two gain nothing at this size."""
    model, solver = preset("odevit_digits")
    return TrainConfig(
        preset="odevit_digits", model=model, solver=solver, data=DataConfig(source="digits"),  # type: ignore[arg-type]
        loss=LossConfig(curvature=curvature), optim=OptimConfig(epochs=epochs, batch_size=64, lr=3e-3, ema=0.98),
        out=out, seed=seed, threads=1, force=True,
    )  # fmt: skip


def curvature_study(out: Path, *, seeds: int = 5, epochs: int = 150, weights: tuple[float, ...] = (0.0, 1.0)) -> list[dict]:
    """Accuracy on validation by solver and steps, mean and standard deviation over seeds, for each weight of the penalty.

    Args:
        out: folder of the runs, one a weight and seed; a finished run is not trained again.
        seeds: number of seeds, 0 .. seeds - 1.
        epochs: epochs of each run.
        weights: weights of the penalty to compare.

    Returns:
        Rows with curvature, method, steps, nfe, top1 (mean), std, n (seeds).
    """
    found: dict[tuple, list[dict]] = {}
    jobs = [(weight, seed) for weight in weights for seed in range(seeds)]
    for weight, seed in tqdm(jobs, desc="curvature study", disable=None):
        config = digits_run(out / f"curvature{weight:g}-seed{seed}", seed=seed, epochs=epochs, curvature=weight)
        trainer = Trainer(replace(config, resume=True))
        trainer.fit()
        for row in sweep(load_model(config.out), trainer.data["val"], list(SOLVERS), list(STEPS)):
            found.setdefault((weight, row["method"], row["steps"]), []).append(row)
    return [_summary(weight, method, steps, rows) for (weight, method, steps), rows in found.items()]


def _summary(weight: float, method: str, steps: int | None, rows: list[dict]) -> dict:
    """Mean, standard deviation and worst accuracy over the seeds of one solver."""
    top1 = [row["top1"] for row in rows]
    deviation = statistics.stdev(top1) if len(top1) > 1 else 0.0
    return {
        "curvature": weight, "method": method, "steps": steps, "nfe": round(statistics.mean(row["nfe"] for row in rows)),
        "top1": statistics.mean(top1), "std": deviation, "worst": min(top1), "n": len(rows),
    }  # fmt: skip


@dataclass(frozen=True)
class Lesson:
    """What a seed of the teacher study trains on: the digits whose labels students see, and a teacher that saw all of them.

    Attributes:
        out: folder of the runs of this seed.   labels: how many labels students see, in words.   data: "train" and "val".
        seed, epochs: of every run.   teacher: the epoch of it that was best on validation.
    """

    out: Path
    labels: str
    data: dict[str, ImageSet]
    seed: int
    epochs: int
    teacher: ViT

    def few(self, count: int = FEW) -> "Lesson":
        """The same with `count` training images, drawn by the seed, equally many of each class; they fill an epoch as long."""
        train = self.data["train"]
        draw = torch.Generator().manual_seed(self.seed)
        members = [(train.labels == label).nonzero().flatten() for label in range(len(train.classes))]
        chosen = torch.cat([m[torch.randperm(len(m), generator=draw)[: count // len(members)]] for m in members])
        again = chosen.repeat(len(train) // len(chosen))
        return replace(self, labels=str(count), data=self.data | {"train": train.subset(again)})

    @property
    def teacher_folder(self) -> Path:
        """Where the teacher is kept."""
        return self.out / "teacher"

    def folder(self, how: str) -> Path:
        """Where the run of a student of this kind is kept."""
        return self.out / f"{how}-{self.labels}-labels"

    def student(self, how: str) -> Backbone:
        """The student after its last epoch, one of STUDENTS; trained unless its run is there already."""
        model, solver = default_student(self.teacher)
        known: dict[str, Any] = _usual(self.folder(how), self.seed, self.epochs)
        known |= {"model": model, "solver": replace(solver, steps=STUDENT_STEPS)}
        with _quietly():
            if how == "alone":
                trainer = Trainer(TrainConfig(**known), self.data)
                trainer.fit()
                return trainer.averaged.eval()
            config = DistillConfig(**known, teacher=str(self.teacher_folder), match=TAUGHT_BY[how], cache=None)
            run = Distillation(config, self.data, self.teacher)
            run.fit()
            return run.trainer.averaged.eval()


def lesson(out: Path, seed: int = 0, epochs: int = 30) -> Lesson:
    """The digits and a teacher of all their training images; trained unless its run is there already.

    Args:
        out: folder of the runs of this seed.   seed: of weights, order, augmentation and the few images.   epochs: of each run.
    """
    model, solver = preset("vit_digits")
    data = load(SHIFTED, image_shape=model.image_shape, channels=model.in_chans)
    known: dict[str, Any] = {"model": model, "solver": solver, **_usual(out / "teacher", seed, epochs)}
    config = TrainConfig(preset="vit_digits", **known)
    with _quietly():
        Trainer(config, data).fit()
    return Lesson(out, "all", data, seed, epochs, load_model(config.out))  # type: ignore[arg-type]


def _usual(out: Path, seed: int, epochs: int) -> dict[str, Any]:
    """What teacher, student alone and student with teacher have in common: data, loss, optimiser, seed."""
    return {
        "data": SHIFTED, "loss": LossConfig(), "optim": OptimConfig(epochs=epochs, batch_size=64, lr=3e-3, ema=0.98),
        "out": out, "seed": seed, "threads": 1, "resume": True,
    }  # fmt: skip


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without the line of every epoch; the progress bar stays."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def right(model: Backbone, data: ImageSet) -> Tensor:
    """Whether a model is right on each image, bool (n,)."""
    return predict(model, data.images)[0].argmax(1).cpu() == data.labels


def test_images(teacher: Backbone) -> ImageSet:
    """The test split of the digits, as the teacher takes it."""
    shape, channels = teacher.config.image_shape, teacher.config.in_chans
    return load(SHIFTED, image_shape=shape, channels=channels, splits=("test",))["test"]


def teacher_study(out: Path, *, seeds: int = 5, epochs: int = 30) -> list[dict]:
    """Test accuracy of a teacher, and of the same student alone and with the teacher, on all labels and on 100.

    "Taken over only": the student has the teacher's stem, CLS, positions, norm and head, frozen, and learns from labels alone,
    so it tells what the terms that draw a student to its teacher add.

    The teacher is trained on all training images; "100 labels" is what its students see. Everything else is the same in all
    runs: data, augmentation, epochs of about 1,000 images, recipe, seed. Students are asked once, after their last epoch; of
    the teacher the epoch that was best on validation.

    Args:
        out: folder of the runs, one a seed; a finished run is not trained again.
        seeds: number of seeds, 0 .. seeds - 1.   epochs: of each run.

    Returns:
        Rows with labels, model, parameters, macs, nfe, top1 (mean over seeds), std, n (seeds), gain over the student alone and
        terms, the gain over the student that was taken over only: paired over seeds, with 95 % t intervals, in words.
    """
    found: dict[tuple[str, str], list[float]] = {}
    models: dict[str, Backbone] = {}
    for seed in tqdm(range(seeds), desc="teacher study", disable=None):
        whole = lesson(out / f"seed{seed}", seed, epochs)
        test, models["teacher"] = test_images(whole.teacher), whole.teacher
        found.setdefault(("all", "teacher"), []).append(float(right(whole.teacher, test).double().mean()))
        for these in (whole, whole.few()):
            for how, name in STUDENTS.items():
                models[name] = these.student(how)
                found.setdefault((these.labels, name), []).append(float(right(models[name], test).double().mean()))
    return [_row(labels, name, models[name], found) for labels, name in found]


def _row(labels: str, name: str, model: Backbone, found: dict[tuple[str, str], list[float]]) -> dict:
    top1, known = found[labels, name], list(STUDENTS.values())
    earlier = known[: known.index(name)] if name in known else []
    gains = [over_seeds(found[labels, other], top1).points() for other in earlier]
    gain, terms, *_ = [*gains, None, None]
    return {
        "labels": labels, "model": name, "parameters": parameters(model), "macs": macs(model), "nfe": trained_nfe(model),
        "top1": statistics.mean(top1), "std": statistics.stdev(top1) if len(top1) > 1 else 0.0, "n": len(top1),
        "gain": gain, "terms": terms,
    }  # fmt: skip
