"""What a training step minimises: cross-entropy plus penalties on the trajectory, as one module (so that DDP can wrap it)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from . import losses
from .backbone import Backbone
from .config import LossConfig
from .errors import UserError
from .field import VectorField
from .flow import find_method, integrate
from .trajectory import TimeGrid, Trajectory


class Objective(nn.Module):
    """(images, targets, grid) -> loss terms of a batch; a term with weight 0 is not computed.

    Attributes:
        needs_states: True where a term needs every step of the trajectory, not only its end.
        facts: what config.json is to say of the run beside its config.
    """

    def __init__(self, model: Backbone, config: LossConfig, segments: int = 0):
        super().__init__()
        if config.jasmin and find_method(model.solver.method).kind == "splitting":
            never = f"which {model.solver.method} never calls"
            raise UserError(f"loss.jasmin: watches the whole field, {never}; use 0 or another method")
        self.model, self.config, self.segments = model, config, segments
        self.facts: dict[str, Any] = {}

    @property
    def needs_states(self) -> bool:
        """Whether the trajectory must keep every step."""
        return bool(self.config.curvature)

    def forward(
        self, images: Tensor, targets: Tensor, grid: TimeGrid, ids: Tensor | None = None, epoch: int = 0
    ) -> dict[str, Tensor]:
        """Means over the batch: loss, ce, curvature, jasmin; nfe; and correct, the number of right answers.

        Args:
            ids, epoch: of the images in their set, and the number of finished epochs; here neither changes anything.
        """
        solved, terms = self.solve(images, grid)
        logits = self.model.readout(solved.x.unbind()[-1])
        terms = {"ce": losses.cross_entropy(logits, targets, self.config.label_smoothing)} | terms
        return summed(terms, {"ce": 1.0, **self.weights}, logits, targets, solved.nfe)

    @property
    def weights(self) -> dict[str, float]:
        """Weights of the penalties."""
        return {"curvature": self.config.curvature, "jasmin": self.config.jasmin}

    def solve(self, images: Tensor, grid: TimeGrid) -> tuple[Trajectory, dict[str, Tensor]]:
        """The trajectory of the images, and the penalties on it that have a weight."""
        watched = Watched(self.model.field, self.config, grid) if self.config.jasmin else None
        solver = self.model.solver
        solved = integrate(
            watched or self.model.field, self.model.initial_state(images), grid, solver.method,
            rtol=solver.rtol, atol=solver.atol, segments=self.segments,
        )  # fmt: skip
        terms = {"curvature": losses.curvature(solved)} if self.config.curvature else {}
        return solved, terms | ({"jasmin": watched.mean()} if watched is not None else {})


def summed(
    terms: dict[str, Tensor], weights: dict[str, float], logits: Tensor, targets: Tensor, nfe: int
) -> dict[str, Tensor]:
    """The terms with their weighted sum as `loss`, the number of right answers as `correct`, and the NFE."""
    loss = sum(weights[name] * term for name, term in terms.items() if weights[name])
    labels = targets if targets.ndim == 1 else targets.argmax(1)
    correct = (logits.argmax(1) == labels).sum()
    return {"loss": loss, **terms, "correct": correct, "nfe": torch.tensor(float(nfe))}  # type: ignore[dict-item]


class Watched:
    """A field that notes JaSMin of the maps of its own evaluations in a window of time, so that no map is computed twice."""

    def __init__(self, field: VectorField, config: LossConfig, grid: TimeGrid):
        self.field, self.k, self.breaks = field, config.jasmin_k, field.breaks
        self.first = grid.t1 - max(config.jasmin_window * (grid.t1 - grid.t0), grid.h) - grid.tolerance
        self.values: dict[float, Tensor] = {}

    def piece(self, t) -> Callable[..., Tensor]:
        """The smooth field around time t."""
        inside = self.field.piece(t)

        def evaluate(s, x: Tensor) -> Tensor:
            if float(s) < self.first:
                return inside(s, x)
            velocity, maps = inside.with_maps(s, x)
            value = losses.jasmin(maps[None], self.k)
            self.values.setdefault(float(s), value)  # a checkpointed segment evaluates again in its backward pass
            return velocity

        return evaluate

    def __call__(self, t, x: Tensor) -> Tensor:
        """dx/dt at (t, x)."""
        return self.piece(t)(t, x)

    def mean(self) -> Tensor:
        """Mean over the noted evaluations."""
        return torch.stack(list(self.values.values())).mean()
