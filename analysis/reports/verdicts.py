"""CertificateReport: what can be said of a model as a dynamical system, each statement with its status and its grounds."""

import math
import textwrap
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from .base import Report

WIDTH, HEIGHT = 100, 24  # one screen
STATUSES = ("proven", "measured", "vacuous")
_MEANING = "proven: a theorem on the weights; measured: at these images; vacuous: true, but says nothing"


@dataclass(frozen=True)
class Verdict:
    """One statement on a model.

    Attributes:
        name: short name.   question, answer: in plain words.
        status: "proven" (a theorem whose constants come from the weights), "measured" (at the given images and times), or
            "vacuous" (true, and far too weak to say anything).
        holds: True or False where the question is one of yes and no and the answer is known, else None.
        value, unit: the number behind the answer.   side: lower, upper, local, exact or estimate.   region: where it holds.
        formula, reference: what was computed, and whose it is.
    """

    name: str
    question: str
    answer: str
    status: str
    holds: bool | None
    value: float
    unit: str
    side: str
    region: str
    formula: str
    reference: str


@dataclass(frozen=True, kw_only=True, eq=False)
class CertificateReport(Report):
    """Well-posedness of a model at the given images: a row for each verdict, and the measurements behind them.

    Attributes:
        subject, solve: the model and its solver in words.   images, tokens, dim: how many, N, D.
        skipped: statements that make no sense for this model, with the reason.   notes: what a reader must know.
        name, question, answer, status, holds, value, unit, side, region, formula, reference: of each verdict; `holds` is 1 for
            yes, 0 for no, -1 for neither.
        time: times at which Jacobians were looked at.   jacobian_norm: ||J||.   local: proven bound of it.
        logarithmic_norm: mu(J).   abscissa: largest Re lambda found.   eigenvalues: those of largest modulus, NaN as padding.
        step_time, step_norm: start of each step looked at, and the norm of its derivative, ||I + hJ|| for Euler.
        grid_time, radius, radius_bound: largest token norm over the images at every step, and its proven bound.
        sigma: largest singular value of dx(T)/dx(0).   sigma_bound: product of all step_norms, or exp int mu where steps are
            left out.
        products: J v and J^T u spent.
    """

    subject: str
    solve: str
    images: int
    tokens: int
    dim: int
    skipped: tuple[str, ...]
    notes: tuple[str, ...]
    name: np.ndarray
    question: np.ndarray
    answer: np.ndarray
    status: np.ndarray
    holds: np.ndarray
    value: np.ndarray
    unit: np.ndarray
    side: np.ndarray
    region: np.ndarray
    formula: np.ndarray
    reference: np.ndarray
    time: np.ndarray
    jacobian_norm: np.ndarray
    local: np.ndarray
    logarithmic_norm: np.ndarray
    abscissa: np.ndarray
    eigenvalues: np.ndarray
    step_time: np.ndarray
    step_norm: np.ndarray
    grid_time: np.ndarray
    radius: np.ndarray
    radius_bound: np.ndarray
    sigma: np.ndarray
    sigma_bound: np.ndarray
    products: int

    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        **{f.name: ("verdict",) for f in fields(Verdict)},
        **dict.fromkeys(("jacobian_norm", "local", "logarithmic_norm", "abscissa"), ("time", "image")),
        "time": ("time",), "eigenvalues": ("time", "image", "k"), "step_time": ("step_time",),
        "step_norm": ("step_time", "image"), "grid_time": ("grid_time",), "radius": ("grid_time",),
        "radius_bound": ("grid_time",), "sigma": ("image",), "sigma_bound": ("image",),
    }  # fmt: skip
    units: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("time", "step_time", "grid_time"), "t"), "radius": "state", "radius_bound": "state",
        **dict.fromkeys(("jacobian_norm", "local", "logarithmic_norm", "abscissa", "eigenvalues"), "1/t"),
    }  # fmt: skip

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts, in reading order."""
        known = {-1: None, 0: False, 1: True}
        columns = {f.name: getattr(self, f.name).tolist() for f in fields(Verdict)}
        columns["holds"] = [known[h] for h in columns["holds"]]
        return tuple(Verdict(**dict(zip(columns, row))) for row in zip(*columns.values()))

    def verdict(self, name: str) -> Verdict:
        """The verdict of this name; KeyError where it was left out."""
        return {v.name: v for v in self.verdicts}[name]

    @property
    def grounds(self) -> str:
        """On what it rests, one line: images, seed, dtype, device, times."""
        origin = self.provenance
        count = f"{self.images} image{'s' if self.images != 1 else ''}"
        times = ", ".join(f"{t:.3g}" for t in self.time)
        where = f"seed {origin.seed}, {origin.dtype} on {origin.device}; looked at t = {times}"
        return f"{count}, {self.tokens} tokens x {self.dim}, {where}"

    def to_text(self) -> str:
        """One screen: at most 24 lines of 100 columns; what does not fit is in `to_markdown`."""
        lines = [_fit(f"Certificate of {self.subject}: {self.solve}"), _fit(self.grounds)]
        for v in self.verdicts:
            head = f"{v.status:<9}{v.name:<15}"
            body = textwrap.wrap(v.answer, WIDTH - len(head), max_lines=2, placeholder=" ..") or [""]
            lines += [head + body[0], *(" " * len(head) + line for line in body[1:])]
        if self.skipped:
            names = ", ".join(reason.partition(":")[0] for reason in self.skipped)
            lines.append(_fit(f"left out, since they make no sense here: {names}"))
        return "\n".join([*lines, _fit(_MEANING)][:HEIGHT])

    def to_markdown(self) -> str:
        """Everything in words, for a file: a summary table, then each verdict with its number, side, region and formula."""
        origin = self.provenance
        known = (
            ("model", origin.model), ("commit", origin.commit), ("command", origin.command), ("made by", origin.created_by)
        )  # fmt: skip
        facts = ", ".join(f"{what} `{value}`" for what, value in known if value)
        lines = [f"# Certificate of {self.subject}", "", f"{self.solve}. {self.grounds}.", "", f"{facts}.", "", _MEANING, ""]
        lines += ["| question | answer | status |", "|---|---|---|"]
        lines += [f"| {_cell(v.question)} | {_cell(v.answer)} | {v.status} |" for v in self.verdicts]
        for v in self.verdicts:
            lines += ["", f"## {v.name[0].upper()}{v.name[1:]}", "", f"**{v.question}** {v.answer}", "", *_grounds_of(v)]
        for title, entries in (("Left out", self.skipped), ("Notes", self.notes)):
            if entries:
                lines += ["", f"## {title}", "", *(f"- {entry}" for entry in entries)]
        return "\n".join(lines) + "\n"


def _grounds_of(v: Verdict) -> list[str]:
    number = f"{v.value:.6g} {v.unit}".strip() if math.isfinite(v.value) else ("infinite" if math.isinf(v.value) else "none")
    return [
        f"- status: {v.status}", f"- value: {number} ({v.side})", f"- where: {v.region}", f"- formula: `{v.formula}`",
        f"- reference: {v.reference}",
    ]  # fmt: skip


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _fit(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + " .."
