"""Trajectories: where the tokens go on shared principal axes, CLS by class, the field around its path, motion and collapse."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import streamlit as st

from analysis import figures
from analysis.figures.space_plots import token_trajectories_3d
from analysis.reports import LensReport, PlaneReport, Report, TokenPathReport
from analysis.running.subject import Subject
from analysis.running.token_reports import cls_plane_at
from app import charts, computing, panels
from app.charts.look import thin
from app.charts.trajectory_charts import Way
from app.state import Visit
from app.views.patience import wanted

COUNTS = (1, 2, 4, 8, 16, 32, 64)  # images that can be looked at together
FIRST = 8
PATH_SOLVES, FIELD_SOLVES = 8, 250  # cost of the paths of an image (with a JVP at every state) and of the field, in solves
PLANES = 7  # times of the plane of arrows, at most
ON_PAPER = 3  # images in a figure of all tokens

_PCA = r"""Each token is a point $x_i(t) \in \mathbb{R}^D$. It is drawn at $((x_i - \bar x) \cdot e_1, (x_i - \bar x)
\cdot e_2, ..)$, with $e_1, e_2, ..$ the eigenvectors of the covariance $\mathrm{E}[(x - \bar x)(x - \bar x)^\top]$ of
all states pooled over tokens, times and images: one basis for everything on this plot, so that distances can be
compared. The share in an axis title is $\lambda_k / \sum_j \lambda_j$; what the drawn axes do not explain cannot be
seen here."""
_CLS = r"""The path of the token that the class is read from, $z(t) = W x_\mathrm{CLS}(t) + b$, on the principal axes of
CLS states alone. All images start in the same learned state (ring). Colour and shape of the end tell the class: the
label where it is known, else the prediction $\arg\max z(T)$. **Open markers with a dot and dotted lines are wrong
predictions**; the chosen image is bold."""
_FIELD = r"""$\dot x_\mathrm{CLS} = f_\mathrm{CLS}(t, x)$ at points of the plane $c + u\,e_1 + v\,e_2$ through the mean
$c$ of this image's CLS path, with all other tokens held at their states at the time of the slider. An arrow shows the
part of the velocity in the plane; the dot at its tail shows the share $\|v_\perp\| / \|v\|$ that it does not show. The
path itself leaves the plane, so it need not follow the arrows. For a discrete ViT the field is the update of the layer
that follows."""
_MOTION = r"""Velocity $v = f(t, x)$ and acceleration $a = \partial_t f + J f$ by one Jacobian-vector product at every
saved state; curvature $\kappa = \|a_\perp\| / \|v\|^2$ with $a_\perp$ the part of $a$ normal to $v$ (do Carmo,
*Differential Geometry of Curves and Surfaces*, 1.5); length $\int \|v\|\,dt$ by trapezoids. A discrete ViT has states
only: differences, and Menger's curvature of three states. Line: median over tokens and images; band: 10 % to 90 %."""
_SHAPE = r"""Straightness $\|x(T) - x(0)\| / \mathrm{length} \in [0, 1]$ of the polygon through the saved states, 1 for
a straight line; turning $\int \kappa\,\|v\|\,dt$ in radians, 0 for a straight line, $2\pi$ for a full circle. Straight
paths are those that few solver steps follow well."""
_ALIKE = r"""Mean cosine of pairs of different tokens, $(\|\sum_i x_i / \|x_i\|\|^2 - N) / (N (N - 1))$: 1 when all
point one way. Distance from equal tokens, $\|X - \mathbf{1}\bar x^\top\|_F / \|X\|_F$: 0 when all are equal (rank
collapse, Dong et al. 2021, arXiv 2103.03404). Both also of $\Pi x = x$ less its mean over channels, which is all that a
CenterNorm sees."""
_RANKS = r"""With $p$ the squared singular values of the $N \times D$ matrix of a state: stable rank $\sum p / \max p$
$\le$ participation ratio $(\sum p)^2 / \sum p^2$ $\le$ effective rank $e^{H(p / \sum p)}$ (Roy and Vetterli 2007) $\le$
rank. Clusters: connected components of tokens with cosine above $1 - \delta$; tokens as interacting particles that
cluster: Geshkovski et al. 2023 (arXiv 2312.10794)."""


def show(visit: Visit) -> None:
    """All tokens, then CLS and the field around it, then how they move and how alike they become."""
    panels.head("Trajectories", "Where do the tokens go? Each token is a curve; one set of principal axes for all images.")
    numbers = st.container()
    count, by = _controls(visit)
    paths = shown = None
    with panels.section():
        if wanted(visit, PATH_SOLVES * count, f"the paths of {count} images", "ask_paths", "token_paths"):
            (paths,) = computing.reports(visit, "token_paths", count)
            shown = _shown(visit, paths, count, by)
    if paths is None:
        return
    left, right = st.columns(2)
    with left, panels.section():
        if shown:
            _tokens(visit, shown)
    with right, panels.section():
        _numbers(numbers, paths, _cls(visit, count))
    left, right = st.columns(2)
    with left, panels.section():
        if shown:
            _tokens_in_space(visit, shown)
    with right, panels.section():
        if wanted(visit, FIELD_SOLVES, "the field on the plane", "ask_field", "cls_plane"):
            _field(visit)
    st.subheader("Motion", anchor=False)
    names = tuple(charts.QUANTITIES)
    quantity = st.segmented_control("Over t", names, default="speed", key="motion", bind="query-params", required=True)
    left, right = st.columns(2)
    with left, panels.section():
        _motion(visit, paths, quantity or "speed")
    with right, panels.section():
        _shape(visit, paths)
    st.subheader("Do the tokens become one?", anchor=False)
    left, right = st.columns(2)
    with left, panels.section():
        _alike(visit, paths)
    with right, panels.section():
        _ranks(visit, paths)


def _controls(visit: Visit) -> tuple[int, Way]:
    """Number of images, and what colour tells."""
    left, right = st.columns([2, 3])
    help_text = "The chosen image and others evenly spread over the split; all on the same principal axes."
    count = left.select_slider("Images", COUNTS, FIRST, key="paths", bind="query-params", help=help_text)
    by = right.segmented_control("Colour by", charts.WAYS, default="token", key="by", bind="query-params", required=True)
    return min(count, len(visit.data)), by or "token"


@dataclass(frozen=True)
class _Shown:
    """Paths of all tokens and what their colour needs.   images: of a figure for a paper."""

    paths: TokenPathReport
    lens: LensReport | None
    by: Way
    classes: list[int] | None
    images: range

    @property
    def used(self) -> list[Report]:
        """The reports."""
        return [self.paths] if self.lens is None else [self.paths, self.lens]

    @property
    def note(self) -> str:
        """What was left out, and on what grounds the plot stands."""
        return _joined(charts.left_out(self.paths), _grounds(self.paths))


def _shown(visit: Visit, paths: TokenPathReport, count: int, by: Way) -> _Shown:
    lens, classes = _classes(visit, count) if by == "class" else (None, None)
    return _Shown(paths, lens, by, classes, range(min(ON_PAPER, count)))


def _tokens(visit: Visit, s: _Shown) -> None:
    """All tokens on two axes, with the time slider."""
    on_paper = partial(
        figures.token_trajectories, s.paths, s.lens, by=s.by, images=s.images, labels=s.classes, names=visit.classes,
    )  # fmt: skip
    panels.plot(
        visit, partial(charts.token_plane, s.paths, s.classes, visit.classes, by=s.by, at=visit.t), s.used, name="token-paths",
        first=True, title="Paths of the tokens, two principal axes", status="measured", note=s.note, paper=on_paper,
        what=f"{_PCA}\n\nRing: $t = 0$. The slider moves a marker along every path.",
    )  # fmt: skip


def _tokens_in_space(visit: Visit, s: _Shown) -> None:
    """All tokens on three axes."""
    if s.paths.coordinates.shape[-1] < 3:
        panels.nothing(f"The state has {s.paths.coordinates.shape[-1]} channels, three principal axes need 3.")
        return
    panels.plot(
        visit, partial(charts.token_space, s.paths, s.classes, visit.classes, by=s.by), s.used, name="token-paths-3d",
        title="Paths of the tokens, three principal axes", status="measured", note=s.note, what=_PCA,
        paper=partial(token_trajectories_3d, s.paths, images=s.images, classes=s.classes),
    )  # fmt: skip


def _classes(visit: Visit, count: int) -> tuple[LensReport, list[int]]:
    """The lens of the images, and the class of each: its label where it is known, else the prediction."""
    (lens,) = computing.reports(visit, "lens", count)
    labels = visit.some(count).labels.numpy()
    return lens, np.where(labels >= 0, labels, lens.prediction[-1]).tolist()


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _grounds(paths: TokenPathReport) -> str:
    images, tokens = paths.norm.shape[1:]
    return f"{images} image{'s' * (images > 1)} x {tokens} tokens, {paths.provenance.dtype}, at {len(paths.time)} saved times."


def _cls(visit: Visit, count: int) -> TokenPathReport:
    """CLS paths by class."""
    (cls,) = computing.reports(visit, "cls_paths", count)
    lens, _ = _classes(visit, count)
    labels = visit.some(count).labels.numpy()
    given = labels.tolist()
    known = labels >= 0
    wrong = int((lens.prediction[-1] != labels)[known].sum())
    said = f"{wrong} of {int(known.sum())} predicted wrong." if known.any() else "No labels: colour tells the prediction."
    panels.plot(
        visit, partial(charts.cls_by_class, cls, lens, given, visit.classes), [cls, lens], name="cls-paths", first=True,
        title="Paths of CLS by class", status="measured", what=_CLS,
        note=_joined(said, _grounds(cls).replace("1 tokens", "CLS")),
        paper=partial(figures.cls_trajectory, cls, lens, labels=given if known.all() else None, names=visit.classes),
    )  # fmt: skip
    return cls


def _numbers(place, paths: TokenPathReport, cls: TokenPathReport) -> None:
    """Four numbers: how far, how straight, how flat CLS is, and how alike the tokens end."""
    total = cls.variances.sum()
    flat = f"{cls.variances[:2].sum() / total:.0%}" if total > 0 else "no variance"
    with place:
        panels.numbers([
            ("Length of CLS path", f"{np.median(paths.length[:, 0]):.3g} state", "Median over the images."),
            ("Straightness of CLS", f"{np.nanmedian(cls.straightness):.3f} of 1", "Median over the images; 1: straight."),
            ("CLS on two axes", flat, "Share of the variance of all CLS states that the first two principal axes explain."),
            ("Mean cosine of tokens at T", f"{np.median(paths.mean_cosine[-1]):.3f}", "Median; 1: all tokens point one way."),
        ])  # fmt: skip


def _field(visit: Visit) -> None:
    """The vector field on the plane of the CLS path, the rest held at each of a few times."""
    chosen = thin(visit.model.grid.steps + 1, PLANES).tolist()
    parts = [(f"field at t = {visit.model.grid.times[k]:.3g}", partial(_plane, k=k)) for k in chosen]
    planes: tuple[PlaneReport, ...] = computing.custom(visit, "cls_planes", f"1: {chosen}", parts)
    off = float(np.nanmedian([p.off_plane for p in planes]))
    panels.plot(
        visit, partial(charts.vector_field, planes, at=visit.t), planes, name="field-plane", status="measured", what=_FIELD,
        title="Vector field on the plane of the CLS path", note=f"{off:.0%} of the velocity points out of the plane (median).",
        paper=partial(figures.field_plane, planes[len(planes) // 2]),
    )  # fmt: skip


def _plane(who: Subject, k: int) -> Report:
    return cls_plane_at(who, who.images, k)


def _motion(visit: Visit, paths: TokenPathReport, quantity: str) -> None:
    """One quantity of the motion over t."""
    by = "exact derivatives" if paths.derivatives == "exact" else "by differences of the saved states"
    panels.plot(
        visit, partial(charts.token_motion, paths, quantity), [paths], name="token-motion", title="Motion over t",
        status="measured", what=_MOTION, note=f"{by}; {_grounds(paths)}", paper=partial(figures.token_motion, paths),
    )  # fmt: skip


def _shape(visit: Visit, paths: TokenPathReport) -> None:
    """Straightness and turning of every path."""
    median = float(np.nanmedian(paths.straightness))
    panels.plot(
        visit, partial(charts.path_shape, paths), [paths], name="path-shape", title="Straightness and turning",
        status="measured", what=_SHAPE, note=_joined(f"Median straightness {median:.3f}.", charts.dots_left_out(paths)),
        paper=partial(figures.token_motion, paths),
    )  # fmt: skip


def _alike(visit: Visit, paths: TokenPathReport) -> None:
    """Cosines and distance from equal tokens."""
    panels.plot(
        visit, partial(charts.token_alikeness, paths), [paths], name="token-alikeness", title="How alike the tokens are",
        status="measured", what=_ALIKE, note=f"Median over {paths.norm.shape[1]} images, band 10 % to 90 %.",
        paper=partial(figures.token_collapse, paths),
    )  # fmt: skip


def _ranks(visit: Visit, paths: TokenPathReport) -> None:
    """Ranks and clusters."""
    panels.plot(
        visit, partial(charts.token_ranks, paths), [paths], name="token-ranks", title="Ranks and clusters of the state",
        status="measured", what=_RANKS, note=f"Clusters: cosine above {1 - paths.delta:g}.",
        paper=partial(figures.token_collapse, paths),
    )  # fmt: skip
