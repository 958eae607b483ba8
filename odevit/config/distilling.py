"""What a distillation is: a teacher, what of it the student is drawn to, and a training run."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..errors import UserError
from .architecture import ODEViTConfig
from .reading import from_dict, one_of
from .training import TrainConfig

FREE_OF_TEACHER = (  # fields of a student's model that do not follow from its teacher
    "embed_dim", "num_heads", "mlp_ratio", "registers", "attention", "norm", "bias", "blocks", "time_frequencies",
)  # fmt: skip


@dataclass(frozen=True)
class MatchConfig:
    """Terms that draw a student to its teacher, and when the labels join in; a weight of 0 costs nothing."""

    trajectory: float = 1.0
    """Weight of the distance between the states of student and teacher at control points (losses.trajectory_matching)."""
    tokens: Literal["cls", "all"] = "cls"
    """Tokens of that distance: CLS, or CLS and patches."""
    points: Literal["all", "last"] = "all"
    """A control point for every layer of the teacher, or only the end of the last one."""
    attention: float = 0.0
    """Weight of the distance between what CLS attends to in both (losses.attention_matching)."""
    attention_points: Literal["last", "all"] = "last"
    """The teacher's last layer, or every layer."""
    logits: float = 0.0
    """Weight of logit distillation (losses.logit_distillation)."""
    logit_temperature: float = 2.0
    """Temperature of both softmaxes of logit distillation."""
    ce: float = 1.0
    """Weight of cross-entropy on the labels."""
    ce_from: int = 0
    """Epochs to train without cross-entropy first; the reference trains two thirds of its epochs so."""
    control: Literal["distance", "uniform"] = "distance"
    """Control points in proportion to how far the teacher moves in each layer (softmax(distance / temperature)), or uniform."""
    temperature: float = 30.0
    """Temperature of that softmax, in units of the teacher's state; large = uniform."""

    def __post_init__(self):
        for name in ("trajectory", "attention", "logits", "ce", "ce_from"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UserError(f"match.{name}: {getattr(self, name)} must be 0 or more")
        for name in ("temperature", "logit_temperature"):
            if not 0 < getattr(self, name) < math.inf:
                raise UserError(f"match.{name}: {getattr(self, name)} must be positive and finite")
        one_of("match.tokens", self.tokens, ("cls", "all"))
        one_of("match.points", self.points, ("all", "last"))
        one_of("match.attention_points", self.attention_points, ("last", "all"))
        one_of("match.control", self.control, ("distance", "uniform"))
        if not (self.trajectory or self.attention or self.logits):
            raise UserError("match: trajectory, attention and logits are all 0, so nothing is taught; use odevit train")

    @property
    def every_layer(self) -> bool:
        """Whether a term needs a control point for every layer of the teacher."""
        return bool((self.trajectory and self.points == "all") or self.attention)


@dataclass(frozen=True)
class DistillConfig(TrainConfig):
    """One distillation: `odevit distill`, or `Distillation(config)` from a script. What the model shares with its teacher
    (image, patch, classes, readout) follows from the teacher, as does the horizon: T = its depth."""

    preset: str = "student"
    """Not used: the model follows from the teacher and the fields under model and solver."""
    teacher: str = ""
    """Folder or file of a discrete ViT (ours, Hugging Face, timm, torchvision), or a name in the Hugging Face cache."""
    teacher_heads: int | None = None
    """Attention heads of the teacher, where nothing beside its weights tells."""
    img_size: int | None = None
    """Another image size than the teacher's; its positions are interpolated."""
    head: Literal["teacher", "new"] = "teacher"
    """teacher: its head, copied and frozen; new: one for the classes of the data, trained with the student."""
    match: MatchConfig = field(default_factory=MatchConfig)
    """The terms."""
    cache: Path | None = Path("runs/teacher_cache")
    """Where the teacher's distances and, without augmentation, its states on the training images are kept; None = nowhere."""

    def __post_init__(self):
        super().__post_init__()
        one_of("head", self.head, ("teacher", "new"))
        if not isinstance(self.model, ODEViTConfig):
            raise UserError("model: a student is an ODE-ViT, not a discrete ViT")
        if self.preset != "student":
            raise UserError(f"preset: {self.preset}, but a student follows from its teacher; use --model.* and --solver.*")
        if self.random_steps:
            raise UserError("random_steps: control points lie on steps, whose number must not change; use 0")
        if self.head == "new" and self.match.logits:
            raise UserError("match.logits: a new head has other classes than the teacher's; use 0")
        if self.head == "new" and not self.match.ce:
            raise UserError("match.ce: 0 leaves a new head untrained; use more than 0")
        if self.match.ce and self.match.ce_from >= self.optim.epochs:
            late = f"{self.match.ce_from} of {self.optim.epochs} epochs"
            raise UserError(f"match.ce_from: {late} leaves none with cross-entropy; use fewer, or match.ce 0")


def read_run(data: dict[str, Any], where: str) -> TrainConfig:
    """The config of a run as config.json has it: a DistillConfig where it names a teacher."""
    return from_dict(DistillConfig if data.get("teacher") else TrainConfig, data, where)
