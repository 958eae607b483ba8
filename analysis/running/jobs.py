"""The reports that a run writes: for each, the tasks that make it, the settings that identify it, and its headline.

A task is the unit of work that one process does; its images do not depend on the number of processes, so
neither do the numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from odevit.flow import find_method
from odevit.trajectory import TimeGrid

from ..attention_maps import attention_along
from ..discretization import euler_error, observed_order, solver_swap, stability_region
from ..interventions import KnockOut, effect_map
from ..lipschitz import flow_bound, lipschitz
from ..lyapunov import exponents_over, finite_time_exponents, lyapunov_spectrum
from ..reports import Report
from ..spectra import block_influence, has_center_norms, jacobian_spectrum, numerical_range, singular_values, weight_spectra
from ..spectra.influence import closed_block
from ..token_paths import logit_lens, token_paths
from ..wellposed import certificate
from .headlines import HEADLINES
from .subject import Subject
from .token_reports import CHANGES, change, cls_paths, cls_plane

FEW = 4  # images of the reports that cost much
TIMES = 7  # steps of the grid at which a Jacobian is looked at, at most
MODES = 16  # eigenvalues and singular values
EXPONENTS = 8
TOLERANCE = 1e-4
ANGLES, RANGE_TOLERANCE = 16, 1e-3  # of the numerical range, which is drawn
REFINED = (2, 4)  # times the trained steps


@dataclass(frozen=True)
class Task:
    """What one process computes: `file` is the name of the report, or of its part number `part` where it is made in parts."""

    job: str
    file: str
    part: int
    compute: Callable[[], Report]


@dataclass(frozen=True)
class Job:
    """One entry of `odevit analyze --reports`.

    Attributes:
        name: of the report and its files.   settings: constants that change its numbers; raised when its computation changes.
        compute: (subject, images, labels) -> Report, of these images; or (subject, k) -> Report at the k-th saved time.
        unless: subject -> why this report makes no sense for it, or "".
        images: at most this many, the first ones; None: all.
        chunk: images of one task, the parts being joined; 0: all at once.
        times: one file for each time that is looked at instead.
    """

    name: str
    settings: str
    compute: Callable[..., Report]
    unless: Callable[[Subject], str] = lambda subject: ""
    images: int | None = FEW
    chunk: int = 0
    times: bool = False

    def tasks(self, subject: Subject) -> list[Task]:
        """The tasks of this report, the same for every process."""
        count = min(len(subject.images), self.images or len(subject.images))
        if self.times:
            return [self._at(subject, k, count) for k in times_of(subject)]
        size = self.chunk or count
        return [self._part(subject, first, min(first + size, count)) for first in range(0, count, size)]

    def _part(self, subject: Subject, first: int, last: int) -> Task:
        images = subject.images[first:last]
        labels = None if subject.labels is None else subject.labels[first:last]
        part = first // (self.chunk or max(1, len(subject.images)))
        return Task(self.name, self.name, part, lambda: self.compute(subject, images, labels))

    def _at(self, subject: Subject, k: int, count: int) -> Task:
        time = subject.model.grid.times[k]
        return Task(self.name, f"{self.name}-t{time:.6g}", 0, lambda: self.compute(subject, subject.images[:count], k))

    def headline(self, reports: Sequence[Report]) -> str:
        """The report in one line."""
        return HEADLINES[self.name](reports)


def times_of(subject: Subject) -> list[int]:
    """Indices of at most TIMES grid times, both ends included; of a discrete net the layers' inputs."""
    last = subject.model.grid.steps - _discrete(subject)
    return np.unique(np.linspace(0, last, min(TIMES, last + 1)).round().astype(int)).tolist()


def _discrete(subject: Subject) -> bool:
    return hasattr(subject.model.config, "depth")


def _state(subject: Subject, images, k: int) -> tuple[Any, Any, float]:
    """(field, states of the images at the k-th time, that time)."""
    return subject.model.field, subject.trajectory(images).x[k], subject.model.grid.times[k]


def _eigenvalues(subject: Subject, images, k: int) -> Report:
    f, x, t = _state(subject, images, k)
    free = x[0].numel() - (x.shape[1] if has_center_norms(f, t) else 0)
    return jacobian_spectrum(f, x, t, min(MODES, free), batch_dims=1, tolerance=TOLERANCE, seed=subject.seed)


def _singular(subject: Subject, images, k: int) -> Report:
    f, x, t = _state(subject, images, k)
    return singular_values(f, x, t, min(MODES, x[0].numel()), batch_dims=1, tolerance=TOLERANCE, seed=subject.seed)


def _lipschitz(subject: Subject, images, k: int) -> Report:
    f, x, t = _state(subject, images, k)
    return lipschitz(f, x, t=t, seed=subject.seed)


def _flow_bound(subject: Subject, images, labels) -> Report:
    return flow_bound(subject.model.field, subject.trajectory(images), batch_dims=1)


def _finite_time(subject: Subject, images, labels) -> Report:
    return finite_time_exponents(*_start(subject, images), batch_dims=1, tolerance=TOLERANCE, seed=subject.seed)


def _spectrum(subject: Subject, images, labels) -> Report:
    f, x0, grid, method, k = _start(subject, images)
    centred = all(has_center_norms(f, t) for t in (grid.t0, *f.breaks))
    return lyapunov_spectrum(f, x0, grid, method, k, project=centred, batch_dims=1)


def _start(subject: Subject, images) -> tuple:
    model, x0 = subject.model, subject.trajectory(images).x[0]
    return model.field, x0, model.grid, model.solver.method, min(EXPONENTS, x0[0].numel() - x0.shape[1])


def _euler(subject: Subject, images, labels) -> Report:
    model = subject.model
    return euler_error(model.field, subject.trajectory(images), model=model, refine=8, batch_dims=1, seed=subject.seed)


def _order(subject: Subject, images, labels) -> Report:
    model = subject.model
    return observed_order(model.field, subject.trajectory(images).x[0], model.grid, model.solver.method, batch_dims=1)


def _swap(subject: Subject, images, labels) -> Report:
    n, pieces = subject.model.grid.steps, len(subject.model.field.blocks)
    steps = [s for s in sorted({max(1, n // 2), n, 2 * n, 4 * n}) if s % pieces == 0]
    methods = dict.fromkeys((subject.model.solver.method, "euler", "midpoint", "rk4", "dopri5"))
    return solver_swap(subject.model, images, tuple(methods), steps, labels=labels)


def _effects(subject: Subject, images, labels) -> Report:
    return effect_map(subject.model, images, [subject.model.grid.times[k] for k in times_of(subject)], KnockOut(mode="zero"))


def _exponents(subject: Subject, images, labels) -> Report:
    return exponents_over(subject.model, images, labels, batch_size=len(images), seed=subject.seed)


def _influence(subject: Subject, images, k: int) -> Report:
    f, x, t = _state(subject, images, k)
    return block_influence(f, x, t, "frobenius", batch_dims=1, seed=subject.seed)


def _range(subject: Subject, images, labels) -> Report:
    times = times_of(subject)
    f, x, t = _state(subject, images, times[len(times) // 2])
    return numerical_range(f, x[0], t, ANGLES, tolerance=RANGE_TOLERANCE, seed=subject.seed)


def _refined(factor: int) -> Callable[..., Report]:
    """The Euler error of `factor` times the trained steps."""

    def compute(subject: Subject, images, labels) -> Report:
        model = subject.model
        grid = TimeGrid(model.grid.t0, model.grid.t1, factor * model.grid.steps)
        solved = subject.trajectory(images, grid)
        return euler_error(model.field, solved, model=model, refine=8, batch_dims=1, seed=subject.seed)

    return compute


def _not_euler(subject: Subject) -> str:
    method = subject.model.solver.method
    return "" if method == "euler" else f"belongs to Euler steps, and this model is solved by {method}"


def _no_step(subject: Subject) -> str:
    if _discrete(subject):
        return "a discrete net has no step to halve"
    adaptive = find_method(subject.model.solver.method).kind == "adaptive"
    return f"{subject.model.solver.method} chooses its own steps" if adaptive else ""


def _no_closed_form(subject: Subject) -> str:
    field = subject.model.field
    if all(closed_block(field, t) is not None for t in (subject.model.grid.t0, *field.breaks)):
        return ""
    return "block norms of J are cheap only for parallel dot-product blocks behind a linear norm"


def _no_factor(subject: Subject) -> str:
    method = subject.model.solver.method
    return "" if find_method(method).tableau is not None else f"{method} is a splitting, which has no factor of one eigenvalue"


def _certificate(subject: Subject, images, labels) -> Report:
    return certificate(subject.model, images, seed=subject.seed)


def _along(analysis: Callable) -> Callable[..., Report]:
    """An analysis of (model, trajectory) as the compute of a job."""
    return lambda subject, images, labels: analysis(subject.model, subject.trajectory(images))


JOBS: dict[str, Job] = {
    job.name: job
    for job in (
        Job("certificate", "1", _certificate),
        Job("eigenvalues", f"1: {MODES}, {TOLERANCE}", _eigenvalues, images=2, times=True),
        Job("singular_values", f"1: {MODES}, {TOLERANCE}", _singular, images=2, times=True),
        Job("lipschitz", "1", _lipschitz, images=2, times=True),
        Job("flow_bound", "1", _flow_bound, images=2),
        Job("numerical_range", f"1: {ANGLES}, {RANGE_TOLERANCE}", _range, images=1),
        Job("influence", "1", _influence, unless=_no_closed_form, images=2, times=True),
        Job(
            "stability_region", "1", lambda subject, images, labels: stability_region(subject.model.solver.method),
            unless=_no_factor, images=1,
        ),
        Job("weight_spectra", "1", lambda subject, images, labels: weight_spectra(subject.model.field), images=1),
        Job("exponents", "1", _exponents, images=None, chunk=8),
        Job("finite_time", f"1: {EXPONENTS}, {TOLERANCE}", _finite_time),
        Job("lyapunov", f"1: {EXPONENTS}", _spectrum),
        Job("euler_error", "1", _euler, unless=_not_euler),
        Job("observed_order", "1", _order, unless=_no_step),
        *(
            Job(f"euler_error_x{n}", "1", _refined(n), unless=lambda who: _not_euler(who) or _no_step(who), images=2)
            for n in REFINED
        ),
        Job("solver_swap", "1", _swap, images=None),
        Job("token_paths", "1", _along(token_paths), images=64),
        Job("lens", "1", _along(logit_lens), images=None, chunk=32),
        Job("attention", "1", _along(attention_along), images=64, chunk=8),
        Job("effects", "1", _effects, chunk=1),
        Job("cls_paths", "1", cls_paths, images=64),
        Job("cls_plane", "1", cls_plane, images=1),
        *(Job(f"intervention_{name}", "1", change(name), unless=unless, images=16) for name, (*_, unless) in CHANGES.items()),
    )
}
