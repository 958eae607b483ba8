"""Reports on tokens that figures are drawn from: CLS on principal axes of its own, the field around its path, four changes."""

from collections.abc import Callable
from dataclasses import replace

from ..interventions import KnockOut, Perturb, intervene
from ..interventions.changes import Change
from ..reports import Report
from ..token_paths import plane_field, principal_basis, token_paths
from .subject import Subject

SIZE = 1.0  # norm of a perturbation, in units of the state

def _always(subject: Subject) -> str:
    return ""


def _registers(subject: Subject) -> str:
    return "" if subject.model.layout.num_registers else "the model has no registers"


CHANGES: dict[str, tuple[Change, bool, Callable[[Subject], str]]] = {  # name -> (what, halfway or at t = 0, unless)
    "cls": (KnockOut("cls"), False, _always),
    "registers": (KnockOut("registers"), False, _registers),
    "random": (Perturb(SIZE), True, _always),
    "sensitive": (Perturb(SIZE, "most_sensitive"), True, _always),
}


def cls_paths(subject: Subject, images, labels) -> Report:
    """Paths of CLS by itself, on the principal axes of its own states; derivatives by differences."""
    solved = subject.trajectory(images)
    return token_paths(None, replace(solved, x=solved.cls, layout=None))


def cls_plane(subject: Subject, images, labels) -> Report:
    """The field of CLS in the plane of its path in the first image, everything else held halfway."""
    return cls_plane_at(subject, images, subject.model.grid.steps // 2)


def cls_plane_at(subject: Subject, images, k: int) -> Report:
    """The field of CLS in the plane of its path in the first image, everything else held at the k-th grid time."""
    solved = subject.trajectory(images)
    basis = principal_basis(solved.cls[:, :1], k=2)
    return plane_field(subject.model.field, solved, basis, time=float(solved.t[k]))


def change(name: str) -> Callable[..., Report]:
    """The compute of a job that makes the change of this name."""
    what, halfway, _ = CHANGES[name]

    def compute(subject: Subject, images, labels) -> Report:
        grid = subject.model.grid
        made = replace(what, seed=subject.seed) if isinstance(what, Perturb) else what
        return intervene(subject.model, images, grid.times[grid.steps // 2 if halfway else 0], made)

    return compute
