"""A teacher and its student on the same images: distance at the control points, agreement, attention, cost, paths in one basis.

Hidden state h_l of the teacher stands for the student's state at control time t_l (ODE-ViT, 2511.16501). Scores are those of
`odevit.distillation.compare`, in the precision that the models run in; paths and attention are computed in float64.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from odevit import teachers
from odevit.checkpoint import load_model, model_hash, read_config
from odevit.checkpoint.saving import describe
from odevit.data import ImageSet
from odevit.distillation import PAIR_FILE, PairScores, compare, layer_distances
from odevit.errors import UserError
from odevit.model import ODEViT
from odevit.trajectory import Trajectory
from odevit.vit import ViT

from .attention_maps import attention_along
from .reports import ConfigReport, PairReport, Report
from .reports.model_folders import tuples
from .running.subject import Subject, subject
from .token_paths import principal_basis, teacher_student
from .token_paths.bases import array

COMPONENTS = 3  # principal axes of the paths


@dataclass(frozen=True)
class _Pair:
    """Both models as they are and as subjects of an analysis, their images, and what the student's folder says of them."""

    teacher: ViT
    student: ODEViT
    data: ImageSet
    labelled: bool
    times: tuple[float, ...]
    control: str
    basis: Tensor | None
    training: dict[str, Any]
    known: dict[str, Any]

    def subjects(self) -> tuple[Subject, Subject]:
        """Teacher and student in float64, on the images."""
        return subject(self.teacher, self.data), subject(self.student, self.data)


def pair(
    teacher: Any, student: Any, images: Any, labels: Tensor | None = None, times: Sequence[float] | None = None,
    *, basis: Tensor | None = None,
) -> PairReport:  # fmt: skip
    """What a teacher and its student have in common on some images, and what each costs.

    Args:
        teacher: a ViT, or the folder or file of one, ours or foreign.
        student: an ODEViT, or the folder of one, whose config.json and pair.json tell the control points, the teacher's
            distances and the pair before training.
        images: an ImageSet, or uint8 (n, C, H, W) with labels (n,) or without.
        times: control times t_1 .. t_L; those of the training unless given, or even ones where it is not known.
        basis: map (d, D) of the teacher's states for a student of another width d; that of pair.json unless given.

    Returns:
        PairReport. `distance` and `overlap` are of these images, `before` and `after` of the training's validation images.

    Raises:
        UserError: no such models, a student of another teacher, other widths without a map, images or times that do not fit.

    Cost: four solves of the student and four passes of the teacher on each image, one eigenproblem as wide as the state.
    """
    found = _pair(teacher, student, images, labels, times, basis)
    theirs, own = found.subjects()
    return _report(found, own, *_solved(found, theirs, own))


def pair_reports(
    teacher: Any, student: Any, images: Any, labels: Tensor | None = None, times: Sequence[float] | None = None,
    *, basis: Tensor | None = None,
) -> dict[str, Report]:  # fmt: skip
    """All reports of a pair, arguments as of `pair`: pair, match, {student, teacher}_attention, {student, teacher}_config."""
    found = _pair(teacher, student, images, labels, times, basis)
    theirs, own = found.subjects()
    layers, path = theirs.trajectory(theirs.images), own.trajectory(own.images)
    mapped = _mapped(found, layers)
    student_config = describe(found.student) | ({"training": found.training} if found.training else {})
    return {
        "pair": _report(found, own, mapped, path),
        "match": own.stamped(teacher_student(path, mapped)),
        "student_attention": own.stamped(attention_along(own.model, path)),
        "teacher_attention": theirs.stamped(attention_along(theirs.model, layers)),
        "student_config": ConfigReport(config=tuples(student_config)),
        "teacher_config": ConfigReport(config=tuples(describe(found.teacher))),
    }


def _pair(teacher: Any, student: Any, images: Any, labels: Tensor | None, times, basis: Tensor | None) -> _Pair:
    training, known = _read(Path(student)) if isinstance(student, (str, Path)) else ({}, {})
    own: Any = load_model(student) if isinstance(student, (str, Path)) else student
    run = training.get("run") or {}
    if isinstance(teacher, (str, Path)):
        theirs = teachers.load(teacher, num_heads=run.get("teacher_heads"), img_size=run.get("img_size"))
    else:
        theirs = teacher
    _check(theirs, own, training)
    data = images if isinstance(images, ImageSet) else _image_set(images, labels, own)
    if basis is None and "map" in known:
        basis = torch.tensor(known["map"])
    control = "given"
    if times is None:
        control = (run.get("match") or {}).get("control", "known") if "control_points" in training else "even"
        times = training.get("control_points") or np.linspace(0, own.solver.horizon, theirs.config.depth + 1)[1:].tolist()
    if len(times) != theirs.config.depth:
        raise UserError(f"times: {len(times)} control times for the {theirs.config.depth} layers of the teacher")
    labelled = labels is not None or (isinstance(images, ImageSet) and int(images.labels.min()) >= 0)
    return _Pair(theirs, own, data, labelled, tuple(map(float, times)), control, basis, training, known)


def _check(teacher: Any, student: Any, training: dict[str, Any]) -> None:
    """UserError unless these are a teacher and its student, or at least models of the same patches."""
    for name, model, kind in (("teacher", teacher, ViT), ("student", student, ODEViT)):
        if not isinstance(model, kind):
            raise UserError(f"{name}: a {type(model).__name__}, not the {kind.__name__} that a {name} is")
    here, there = student.layout.grid, teacher.layout.grid
    if here != there:
        raise UserError(f"student: {here[0]} x {here[1]} patches, the teacher has {there[0]} x {there[1]}")
    taught_by = training.get("teacher_hash")
    if taught_by and taught_by != model_hash(teacher):
        raise UserError(f"teacher: its hash is {model_hash(teacher)}, but the student learned from {taught_by}; give that one")


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What config.json says of the training of a student, and pair.json; nothing where it does not."""
    training = read_config(folder).get("training") or {}
    file = folder / PAIR_FILE
    if not file.exists():
        return training, {}
    try:
        return training, json.loads(file.read_text())
    except ValueError:
        raise UserError(f"{file}: damaged, not JSON") from None


def _image_set(images: Any, labels: Tensor | None, student: ODEViT) -> ImageSet:
    """Images as a set; without labels all are of class 0, which nobody asks."""
    if not isinstance(images, Tensor) or images.dtype != torch.uint8 or images.ndim != 4 or len(images) == 0:
        raise UserError("images: give an ImageSet or uint8 images (n, C, H, W); teacher and student normalise them themselves")
    if labels is not None and labels.shape != (len(images),):
        raise UserError(f"labels: shape {tuple(labels.shape)} for {len(images)} images")
    labels = torch.zeros(len(images), dtype=torch.int64) if labels is None else labels
    return ImageSet(images, labels, student.inputs.classes, "", "a tensor")


def _solved(found: _Pair, teacher: Subject, student: Subject) -> tuple[Trajectory, Trajectory]:
    """The teacher's layers in the student's width, and the student's path."""
    return _mapped(found, teacher.trajectory(teacher.images)), student.trajectory(student.images)


def _mapped(found: _Pair, layers: Trajectory) -> Trajectory:
    return layers if found.basis is None else replace(layers, x=layers.x @ found.basis.to(layers.x).T)


def _report(found: _Pair, student: Subject, layers: Trajectory, path: Trajectory) -> PairReport:
    scores = compare(found.teacher, found.student, found.data, found.times, basis=found.basis, images=len(found.data))
    axes = principal_basis(path.cls, layers.cls, k=min(COMPONENTS, path.x.shape[-1]))
    match, solver = (found.training.get("run") or {}).get("match") or {}, found.student.solver
    report = PairReport(
        teacher=f"{type(found.teacher).__name__} {model_hash(found.teacher)}",
        split=found.data.split,
        images=len(found.data),
        control=found.control,
        horizon=solver.horizon,
        steps=solver.steps,
        temperature=float(match.get("temperature", math.nan)),
        moved=np.array(found.training.get("teacher_distances") or _moved(found)),
        before=_kept(found.known.get("before", {})),
        after=_kept(found.known.get("after", {})),
        time=array(path.t),
        student_cls=axes.apply(path.cls.squeeze(2)),
        teacher_cls=axes.apply(layers.cls.squeeze(2)),
        basis_mean=axes.mean,
        basis_components=axes.components,
        variances=axes.variances,
        **_scores(scores, found.labelled),
    )
    dtype = str(found.student.head.weight.dtype).removeprefix("torch.")
    origin = replace(student.stamped(report).provenance, dtype=f"{dtype}, paths float64", device=str(student.images.device))
    return replace(report, provenance=origin)


def _moved(found: _Pair) -> list[float]:
    """Mean distance that CLS moves in each layer of the teacher, on the images at hand."""
    return layer_distances(found.teacher, found.teacher.preprocess(found.data.images), found.teacher.layout.cls)


def _scores(scores: PairScores, labelled: bool) -> dict[str, Any]:
    accuracy = (scores.teacher_accuracy, scores.student_accuracy) if labelled else (None, None)
    return {
        "control_times": scores.times, "distance": scores.distance, "overlap": scores.overlap,
        "agreement": _number(scores.agreement), "accuracy": np.array([_number(a) for a in accuracy]),
        "parameters": np.array(scores.parameters), "macs": np.array(scores.macs), "nfe": np.array(scores.nfe),
    }  # fmt: skip


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _kept(block: dict[str, Any]) -> dict[str, Any]:
    """A block of pair.json with arrays for its lists."""
    return {key: np.array(value) if isinstance(value, list) else value for key, value in block.items()}
