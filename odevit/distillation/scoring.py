"""A teacher and its student side by side on the same images: how far apart, do they agree, what does each cost."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data import ImageSet, normalise
from ..errors import UserError
from ..evaluate import macs, parameters, predict, trained_nfe
from ..model import ODEViT
from ..vit import ViT
from .lessons import looks_of_cls


@dataclass(frozen=True)
class PairScores:
    """Measured on `n` images of a split; L layers of the teacher, whose states a student of another width sees through its map.

    Attributes:
        times: (L + 1,) control times, 0 first.
        distance: (L + 1,) root of mean |x_k - y_k|^2 / mean |y_k|^2 of CLS at each control time; 0 = on the teacher.
        overlap: (L,) mean over images of sum_j min(p_j, q_j) of what CLS attends to (heads averaged); 1 = the same patches.
        agreement: share of images with the same prediction; None where the heads have other classes.
        teacher_accuracy, student_accuracy: top-1; the former None where the head is for other classes.
        parameters, macs, nfe: of (teacher, student).
    """

    split: str
    n: int
    times: np.ndarray
    distance: np.ndarray
    overlap: np.ndarray
    agreement: float | None
    teacher_accuracy: float | None
    student_accuracy: float
    parameters: tuple[int, int]
    macs: tuple[int, int]
    nfe: tuple[int, int]

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in asdict(self).items()}


@torch.no_grad()
def compare(
    teacher: ViT, student: ODEViT, data: ImageSet, times: tuple[float, ...], *, basis: Tensor | None = None, images: int = 256
) -> PairScores:
    """Scores of a pair on a set: predictions on all of it, states and attention on the first `images`.

    Args:
        times: control times t_1 .. t_L, on the student's steps.
        basis: map (d, D) of the teacher's states for a student of width d.

    Raises:
        UserError: other widths and no map between them.
    """
    own, theirs = student.config.embed_dim, teacher.config.embed_dim
    if basis is None and own != theirs:
        raise UserError(f"student: width {own}, the teacher has {theirs}; their states need the map between them (basis)")
    device = student.head.weight.device
    pixels = data.images[:images].to(device)
    x = normalise(pixels, student.inputs.mean, student.inputs.std)
    y = normalise(pixels, teacher.inputs.mean, teacher.inputs.std)
    layers = teacher.trajectory(y)
    training = student.training
    path = student.eval().trajectory(x, student.grid.with_save([0.0, *times]))
    looks = [_overlap(student, teacher, path.x[i], layers.x[i], (0.0, *times)[i], float(i)) for i in range(len(times))]
    target = layers.cls if basis is None else layers.cls @ basis.to(layers.cls).T
    gap = (path.cls - target).square().mean((1, 2, 3)) / target.square().mean((1, 2, 3))
    mine = predict(student, data.images)[0].argmax(1).cpu()
    same_classes = teacher.config.num_classes == student.config.num_classes
    given = predict(teacher, data.images)[0].argmax(1).cpu() if same_classes else None
    student.train(training)
    return PairScores(
        split=data.split, n=len(data), times=np.array((0.0, *times)),
        distance=gap.sqrt().cpu().numpy(), overlap=np.array(looks),
        agreement=None if given is None else float((mine == given).double().mean()),
        teacher_accuracy=None if given is None else float((given == data.labels).double().mean()),
        student_accuracy=float((mine == data.labels).double().mean()),
        parameters=(parameters(teacher), parameters(student)), macs=(macs(teacher), macs(student)),
        nfe=(trained_nfe(teacher), trained_nfe(student)),
    )  # fmt: skip


def _overlap(student: ODEViT, teacher: ViT, x: Tensor, y: Tensor, t: float, layer: float) -> float:
    p = looks_of_cls(student.field.attention(t, x), student.layout).mean(1)
    q = looks_of_cls(teacher.field.attention(layer, y), teacher.layout).mean(1)
    return float(torch.minimum(p, q).sum(-1).mean())
