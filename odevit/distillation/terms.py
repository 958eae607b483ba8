"""The objective of a student: terms that draw it to its teacher, cross-entropy from a chosen epoch, the usual penalties.

Hidden state l of the teacher stands for the student's state at control time t_l, and the map of its layer l (0, 1, ..), which
sees hidden state l, for the student's map at t_l (t_0 = 0).
"""

import torch
from torch import Tensor

from .. import losses
from ..config import LossConfig, MatchConfig
from ..model import ODEViT
from ..objective import Objective, summed
from ..trajectory import TimeGrid, Trajectory
from .lessons import Lessons, looks_of_cls, matched_tokens


class Matching(Objective):
    """(images, targets, grid, ids, epoch) -> loss terms of a batch; a term with weight 0 is not computed.

    Args:
        model: the student.
        lessons: its teacher.
        times: t_1 .. t_L, where the student should be after each layer; (T,) where only the end counts.
        match, loss: weights of the terms.
        segments: activation checkpointing.
    """

    def __init__(
        self, model: ODEViT, lessons: Lessons, times: tuple[float, ...], match: MatchConfig, loss: LossConfig, segments: int = 0
    ):
        super().__init__(model, loss, segments)
        self.lessons, self.match = lessons, match
        ends = (0.0, *times)
        self.times = tuple(ends[-1] if match.points == "last" else ends[layer] for layer in lessons.points)
        self.looked = tuple(ends[layer] for layer in lessons.looked)

    def train(self, mode: bool = True) -> "Matching":
        """As usual, but what the student took over stays as it is, the statistics of BatchNorm in its stem too."""
        super().train(mode)
        self.model.tokenizer.stem.eval()
        return self

    def forward(
        self, images: Tensor, targets: Tensor, grid: TimeGrid, ids: Tensor | None = None, epoch: int = 0
    ) -> dict[str, Tensor]:
        """Means over the batch: loss, trajectory, attention, logits, ce, curvature, jasmin; nfe; correct, a number of images.

        Args:
            ids: of the images in the set whose lessons are kept.
            epoch: number of finished epochs; cross-entropy has weight 0 until match.ce_from.
        """
        match = self.match
        if not self.config.curvature:
            grid = grid.with_save(sorted({grid.t0, *self.times, *self.looked, grid.t1}))
        solved, penalties = self.solve(images, grid)
        terms, logits = self._matched(solved, images, ids)
        terms["ce"] = losses.cross_entropy(logits, targets, self.config.label_smoothing)
        weights = {"trajectory": match.trajectory, "attention": match.attention, "logits": match.logits, **self.weights}
        weights["ce"] = match.ce if epoch >= match.ce_from else 0.0
        return summed(terms | penalties, weights, logits, targets, solved.nfe)

    def _matched(self, solved: Trajectory, images: Tensor, ids: Tensor | None) -> tuple[dict[str, Tensor], Tensor]:
        """The terms that draw the student to its teacher, and the student's logits."""
        lesson, match, layout = self.lessons(images, ids), self.match, self.model.layout
        # unbind: a slice would fill a gradient of all states
        states = dict(zip((round(float(t), 9) for t in solved.t), solved.x.unbind()))
        terms, tokens = {}, matched_tokens(layout, match.tokens)
        if match.trajectory:
            own = torch.stack([states[round(t, 9)][:, tokens] for t in self.times])
            terms["trajectory"] = losses.trajectory_matching(own, lesson.states)
        if match.attention:
            maps = [self.model.field.attention(t, states[round(t, 9)]) for t in self.looked]
            terms["attention"] = losses.attention_matching(looks_of_cls(torch.stack(maps), layout), lesson.looks)
        logits = self.model.readout(solved.x.unbind()[-1])
        if match.logits:
            terms["logits"] = losses.logit_distillation(logits, lesson.logits, match.logit_temperature)
        return terms, logits
