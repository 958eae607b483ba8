"""What a training run is: data, augmentation, losses, optimisation, and the run itself."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..errors import UserError
from .architecture import ODEViTConfig, SolverConfig, ViTConfig
from .reading import one_of


@dataclass(frozen=True)
class DataConfig:
    """Where the images come from and how they are split and augmented."""

    source: str = "digits"
    """digits, cifar10, cifar100, a .npz file (MedMNIST's array names) or a folder of images in class folders."""
    root: Path = Path("data")
    """Where torchvision keeps CIFAR."""
    download: bool = True
    """Let torchvision download a CIFAR that is not under root."""
    split_seed: int = 0
    """Seed of the stratified split where the source has none."""
    val_fraction: float = 0.1
    """Share of the training images set aside for validation where the source has none."""
    bad_images: Literal["stop", "skip", "report"] = "stop"
    """An unreadable image file: stop with its name, skip and count it, or report all of them and stop."""
    crop: int = 0
    """Random crop after padding by this many pixels (reflected)."""
    flip: bool = False
    """Random horizontal flip."""
    erasing: float = 0.0
    """Probability that a random rectangle is erased."""
    mixup: float = 0.0
    """Beta parameter of mixup; 0 = off."""
    cutmix: float = 0.0
    """Beta parameter of CutMix; 0 = off. With mixup too, each batch draws one of the two."""

    def __post_init__(self):
        one_of("data.bad_images", self.bad_images, ("stop", "skip", "report"))
        for name in ("val_fraction", "erasing"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"data.{name}: {getattr(self, name)} is not between 0 and 1")
        for name in ("crop", "mixup", "cutmix"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UserError(f"data.{name}: {getattr(self, name)} must be 0 or more")


@dataclass(frozen=True)
class LossConfig:
    """Terms of the loss besides cross-entropy; a weight of 0 costs nothing."""

    label_smoothing: float = 0.1
    """Share of the target spread over all classes."""
    curvature: float = 0.1
    """Weight of the curvature penalty, which makes a net of few steps an ODE (losses.curvature)."""
    jasmin: float = 0.0
    """Weight of JaSMin on the attention maps (losses.jasmin)."""
    jasmin_k: int = 0
    """k of JaSMin: 0 pushes down log g_1, k > 1 pushes down log(g_1 / g_k)."""
    jasmin_window: float = 0.85
    """JaSMin looks at the last share of the steps."""

    def __post_init__(self):
        if not 0 <= self.label_smoothing < 1:
            raise UserError(f"loss.label_smoothing: {self.label_smoothing} is not in [0, 1)")
        for name in ("curvature", "jasmin", "jasmin_k"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UserError(f"loss.{name}: {getattr(self, name)} must be 0 or more")
        if self.jasmin and self.jasmin_k == 1:
            raise UserError("loss.jasmin_k: 1 makes JaSMin identically 0, it would train nothing; use 0 or more than 1")
        if not 0 < self.jasmin_window <= 1:
            raise UserError(f"loss.jasmin_window: {self.jasmin_window} is not in (0, 1]")


@dataclass(frozen=True)
class OptimConfig:
    """AdamW with warm-up and a cosine."""

    epochs: int = 40
    """Passes over the training images."""
    batch_size: int = 128
    """Images in one optimiser step, over all processes and accumulation."""
    accumulate: int = 1
    """Micro-batches that one optimiser step averages."""
    lr: float = 1.5e-3
    """Peak learning rate."""
    weight_decay: float = 0.05
    """Decoupled weight decay, on matrices only."""
    warmup: float = 0.1
    """Share of all steps over which the learning rate rises."""
    clip: float = 1.0
    """Largest gradient norm; 0 = off."""
    ema: float = 0.0
    """Decay of the exponential moving average of the weights per step; 0 = off."""

    def __post_init__(self):
        for name in ("epochs", "batch_size", "accumulate"):
            if getattr(self, name) < 1:
                raise UserError(f"optim.{name}: {getattr(self, name)} must be at least 1")
        if self.batch_size % self.accumulate:
            raise UserError(f"optim.accumulate: {self.accumulate} does not divide batch_size {self.batch_size}")
        if not 0 < self.lr < math.inf:
            raise UserError(f"optim.lr: {self.lr} must be positive")
        for name in ("weight_decay", "clip"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UserError(f"optim.{name}: {getattr(self, name)} must be 0 or more")
        for name in ("warmup", "ema"):
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"optim.{name}: {getattr(self, name)} is not in [0, 1)")


@dataclass(frozen=True)
class TrainConfig:
    """One training run: `odevit train`, or `Trainer(config)` from a script."""

    preset: str = "odevit_tiny_conv_32"
    """Named model and solver; the fields under model and solver override it."""
    model: ODEViTConfig | ViTConfig = field(default_factory=ODEViTConfig)
    """The model."""
    solver: SolverConfig = field(default_factory=SolverConfig)
    """The solver."""
    data: DataConfig = field(default_factory=DataConfig)
    """The data."""
    loss: LossConfig = field(default_factory=LossConfig)
    """The loss."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """The optimiser."""
    out: Path = Path("runs/train")
    """Folder of the run: model, log, training state."""
    seed: int = 0
    """Seed of weights, order and augmentation."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    amp: Literal["none", "bf16"] = "none"
    """bf16: matrix products inside the field in bfloat16; the state stays float32."""
    compile: bool = False
    """torch.compile the field."""
    segments: int = 0
    """Activation checkpointing: segments of the trajectory; 0 = off."""
    random_steps: int = 0
    """Each batch draws its number of steps from steps - n .. steps + n."""
    threads: int = 0
    """CPU threads; 0 = torch's choice."""
    resume: bool = False
    """Go on from the training state under out, if there is one."""
    force: bool = False
    """Overwrite a run that is under out."""

    def __post_init__(self):
        one_of("amp", self.amp, ("none", "bf16"))
        if self.segments < 0 or self.random_steps < 0:
            raise UserError("segments and random_steps must be 0 or more")
        if isinstance(self.model, ViTConfig) and self.solver.method != "euler":
            raise UserError(f"solver.method: {self.solver.method}, but a discrete ViT is not solved: its layers are its steps")
        if self.solver.method in ("dopri5", "dopri8", "bosh3", "fehlberg2", "adaptive_heun"):
            self._check_adaptive()
        if self.loss.jasmin and self.solver.method.startswith(("lie_trotter", "strang")):
            raise UserError(f"loss.jasmin: reads the maps of whole evaluations, {self.solver.method} makes none; use 0")
        self._check_steps()

    def _check_adaptive(self) -> None:
        method = self.solver.method
        if self.amp != "none":
            raise UserError(f"amp: {self.amp} rounding looks like error to {method}; use none or a fixed-step method")
        for name, value in (
            ("random_steps", self.random_steps), ("segments", self.segments), ("loss.curvature", self.loss.curvature)
        ):  # fmt: skip
            if value:
                raise UserError(f"{name}: {value}, but {method} chooses its own steps; use 0 or a fixed-step method")

    def _check_steps(self) -> None:
        discrete = isinstance(self.model, ViTConfig)
        steps, pieces = (self.model.depth,) * 2 if discrete else (self.solver.steps, self.model.blocks)  # type: ignore[union-attr]
        if self.random_steps and pieces > 1:
            raise UserError(f"random_steps: {self.random_steps}, but {pieces} blocks must divide the steps; use 0 or one block")
        if self.random_steps and self.random_steps >= steps:
            raise UserError(f"random_steps: {self.random_steps} must be below solver.steps {steps}")
        if self.loss.curvature and steps - self.random_steps < 2:
            raise UserError(f"loss.curvature: needs 2 steps in each batch, not {steps - self.random_steps}; use more, or 0")
