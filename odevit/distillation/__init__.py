"""Distillation: a discrete ViT guides the trajectory of an ODE-ViT that takes over its embedding and readout.

Hidden states of the teacher are samples of the student's solution at control points (ODE-ViT, 2511.16501):
loss = sum of weighted terms of `losses` (trajectory, attention, logits, cross-entropy, curvature, JaSMin).
"""

import hashlib
import json
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .. import teachers
from ..checkpoint import load_model, model_hash, write_atomically
from ..config import DistillConfig
from ..data import ImageSet, load, normalise
from ..errors import UserError
from ..model import ODEViT
from ..optimisation import pick_device
from ..records import command
from ..trainer import Trainer
from ..trajectory import TimeGrid
from ..vit import ViT
from .control_points import apportion, control_times, layer_distances, shares
from .lessons import Lessons, matched_tokens
from .scoring import PairScores, compare
from .students import calibrate, check_student, class_order, default_student, principal_map, take_over
from .terms import Matching

__all__ = [
    "Distillation", "Lessons", "Matching", "PairScores", "apportion", "calibrate", "compare", "control_times",
    "default_student", "layer_distances", "load_teacher", "shares", "take_over",
]  # fmt: skip

MEASURED_IMAGES = 512  # training images on which the teacher's distances and the map to another width are measured
CALIBRATED_IMAGES = 64  # of them, on which the speed of a fresh student is set
PAIR_FILE = "pair.json"


def load_teacher(config: DistillConfig) -> ViT:
    """The teacher that a config names; UserError where it names none or one whose head must be replaced."""
    if not config.teacher:
        raise UserError("teacher: none given; --teacher takes a folder or file of a discrete ViT")
    teacher = teachers.load(config.teacher, num_heads=config.teacher_heads, img_size=config.img_size)
    if config.head == "teacher" and not bool(teacher.head.weight.any()):
        raise UserError(f"teacher: {config.teacher} has no trained head to take over; use --head new")
    return teacher


class Distillation:
    """A student, its teacher and the run that brings them together.

    Args:
        config: the run; `default_student(teacher)` gives model and solver.
        data: splits "train" and "val"; loaded from config.data unless given.
        teacher: read from config.teacher unless given.

    Attributes:
        teacher, student, times, trainer: what they say; times are the control points t_1 .. t_L.
        before: the pair on validation before training.
    """

    def __init__(self, config: DistillConfig, data: dict[str, ImageSet] | None = None, teacher: ViT | None = None):
        device = pick_device(config.device)
        self.config = config
        self.teacher = (teacher or load_teacher(config)).to(device).eval()
        check_student(config.model, config.solver, self.teacher, config.head)  # type: ignore[arg-type]
        self.hash = model_hash(self.teacher)
        self.data = data or self._load()
        sample = self.data["train"].images[:MEASURED_IMAGES].to(device)
        self._sample = normalise(sample, self.teacher.inputs.mean, self.teacher.inputs.std)
        self.basis = self._basis()
        self.distances, self.times = self._control_points()
        self.student = self._student()
        self.before = self.compare()
        self.lessons = Lessons(self.teacher, config.match, self.basis)
        objective = Matching(self.student, self.lessons, self.times, config.match, config.loss, config.segments)
        objective.facts = self._facts()
        self.trainer = Trainer(config, self.data, self.student, objective)
        self._keep_lessons()

    def _load(self) -> dict[str, ImageSet]:
        c = self.config
        shape, channels = c.model.image_shape, c.model.in_chans
        data = load(c.data, image_shape=shape, channels=channels)
        if c.head == "new":
            return data
        order = class_order(self.teacher, data["train"].classes)
        return data if order is None else load(c.data, image_shape=shape, channels=channels, classes=order)

    def _basis(self) -> Tensor | None:
        width = self.config.model.embed_dim
        return None if width == self.teacher.config.embed_dim else principal_map(self.teacher, self._sample, width)

    def _control_points(self) -> tuple[list[float], tuple[float, ...]]:
        """The distances that the teacher moves, measured once and kept, and the control points that follow from them."""
        match, solver = self.config.match, self.config.solver
        grid = TimeGrid(0.0, solver.horizon, solver.steps)
        depth = self.teacher.config.depth
        file = None if self.config.cache is None else self.config.cache / f"distances-{self._key(match.tokens)}.json"
        if file is not None and file.exists():
            distances = json.loads(file.read_text())
        else:
            distances = layer_distances(self.teacher, self._sample, matched_tokens(self.teacher.layout, match.tokens))
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(file, json.dumps(distances).encode())
        if not match.every_layer and solver.steps < depth:
            return distances, tuple(solver.horizon * k / depth for k in range(1, depth + 1))
        parts = shares(distances, match.temperature) if match.control == "distance" else [1 / depth] * depth
        return distances, control_times(apportion(parts, solver.steps), grid)

    def _key(self, *more) -> str:
        """Twelve digits that change with the teacher, the training images and what else is given."""
        digest = hashlib.sha256(f"{self.hash} {more}".encode())
        digest.update(self.data["train"].images.numpy().tobytes())
        return digest.hexdigest()[:12]

    def _student(self) -> ODEViT:
        c = self.config
        torch.manual_seed(c.seed % 2**64)
        inputs = replace(self.teacher.inputs, classes=self.data["train"].classes, source=c.data.source)
        student = ODEViT(c.model, c.solver, inputs)  # type: ignore[arg-type]
        take_over(student, self.teacher, head=c.head, basis=self.basis)
        student.to(self._sample.device).eval()  # so that BatchNorm in a copied stem keeps its statistics
        calibrate(student, self.teacher, self._sample[:CALIBRATED_IMAGES], self.basis)
        return student

    def _keep_lessons(self) -> None:
        c = self.config
        changed = c.data.crop or c.data.flip or c.data.erasing or c.data.mixup or c.data.cutmix
        if c.cache is not None and not changed:
            m, lessons = c.match, self.lessons
            key = self._key(m.tokens, lessons.points, lessons.looked, c.model.embed_dim)
            lessons.keep(self.data["train"], c.cache, key)

    def _facts(self) -> dict:
        m, loss = self.config.match, self.config.loss
        weighted = {
            f"trajectory ({m.tokens}, {m.points})": m.trajectory, f"attention ({m.attention_points})": m.attention,
            "logits": m.logits, f"cross-entropy (from epoch {m.ce_from + 1}, label smoothing {loss.label_smoothing:g})": m.ce,
            "curvature": loss.curvature, "jasmin": loss.jasmin,
        }  # fmt: skip
        return {
            "command": command(self.config), "teacher": self.config.teacher, "teacher_hash": self.hash,
            "teacher_distances": self.distances, "control_points": list(self.times),
            "losses": " + ".join(f"{weight:g} x {name}" for name, weight in weighted.items() if weight),
        }  # fmt: skip

    def compare(self) -> PairScores:
        """The pair as it is now, on validation."""
        return compare(self.teacher, self.student, self.data["val"], self.times, basis=self.basis)

    def fit(self) -> PairScores:
        """Train to the last epoch; returns the pair with the weights that were kept, and writes pair.json.

        It holds the pair before and after, and for a student of another width the map (d, D) of the teacher's states.

        Raises:
            RuntimeError: the teacher's weights are not what they were.
        """
        self.trainer.fit()
        if self.trainer.rank == 0:
            self.student = load_model(self.config.out, device=self.student.head.weight.device)  # type: ignore[assignment]
        after = self.compare()
        if model_hash(self.teacher) != self.hash:
            raise RuntimeError("the teacher changed while it taught")
        if self.trainer.rank == 0:
            pair: dict[str, Any] = {"before": self.before.to_dict(), "after": after.to_dict()}
            if self.basis is not None:
                pair["map"] = self.basis.tolist()
            write_atomically(self.config.out / PAIR_FILE, (json.dumps(pair, indent=1) + "\n").encode())
        return after
