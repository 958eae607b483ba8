"""What a training step minimises: cross-entropy plus penalties on the trajectory, as one module (so that DDP can wrap it)."""

import torch
from torch import Tensor, nn

from . import losses
from .backbone import Backbone
from .config import LossConfig
from .trajectory import TimeGrid, Trajectory


class Objective(nn.Module):
    """(images, targets, grid) -> loss terms of a batch; a term with weight 0 is not computed.

    Attributes:
        needs_states: True where a term needs every step of the trajectory, not only its end.
    """

    def __init__(self, model: Backbone, config: LossConfig, segments: int = 0):
        super().__init__()
        self.model, self.config, self.segments = model, config, segments

    @property
    def needs_states(self) -> bool:
        """Whether the trajectory must keep every step."""
        return bool(self.config.curvature or self.config.jasmin)

    def forward(self, images: Tensor, targets: Tensor, grid: TimeGrid) -> dict[str, Tensor]:
        """Means over the batch: loss, ce, curvature, jasmin; nfe; and correct, the number of right answers."""
        solved = self.model.trajectory(images, grid, segments=self.segments)
        logits = self.model.readout(solved.x.unbind()[-1])
        terms = {"ce": losses.cross_entropy(logits, targets, self.config.label_smoothing)}
        if self.config.curvature:
            terms["curvature"] = losses.curvature(solved)
        if self.config.jasmin:
            terms["jasmin"] = self.jasmin(solved)
        loss = terms["ce"]
        for name in ("curvature", "jasmin"):
            if name in terms:
                loss = loss + getattr(self.config, name) * terms[name]
        labels = targets if targets.ndim == 1 else targets.argmax(1)
        correct = (logits.argmax(1) == labels).sum()
        nfe = torch.tensor(float(solved.nfe))
        return {"loss": loss, **terms, "correct": correct, "nfe": nfe}

    def jasmin(self, solved: Trajectory) -> Tensor:
        """JaSMin over the last share of the states at which the field is evaluated; maps are recomputed state by state."""
        states = solved.x.unbind()[:-1]
        first = len(states) - max(1, round(self.config.jasmin_window * len(states)))
        times = solved.t.tolist()
        values = [
            losses.jasmin(self.model.field.attention(times[k], states[k])[None], self.config.jasmin_k)
            for k in range(first, len(states))
        ]
        return torch.stack(values).mean()
