"""Charts of Lipschitz bounds: lower <= ||J|| <= local <= upper over t, every bound by name, and what the flow can stretch."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from analysis.reports import FlowBoundReport, LipschitzReport, LyapunovReport
from analysis.reports.bounds import Part

from . import look

GREY = "#7f7f7f"  # readable on both themes
BRANCHES = {"F": "MLP", "G": "attention"}
SIDES = {
    "lower": (look.OKABE_ITO[0], "circle"),
    "local": (look.OKABE_ITO[1], "square"),
    "upper": (look.OKABE_ITO[2], "triangle-up"),
}
WHOLE = ("lower", "ascent", "J block influence", "local", "upper")  # bounds of the whole field, in the order of the list
MEANING = {
    "lower": "lower: ‖Jv‖ / ‖v‖ found", "ascent": "ascent: largest found in the ball",
    "local": "local: proven at the state", "upper": "upper: proven on the ball",
}  # fmt: skip
NORMS = {"inf": "∞-norm", "mu_2": "logarithmic norm"}


def bounds_over_time(reports: Sequence[LipschitzReport]) -> go.Figure:
    """Lower, local and upper bound of ||J|| over t, one image; between lower and local lies the truth.

    Logarithmic axis; hollow: vacuous. The ascent is measured in the ball of `upper` and may exceed `local`.
    """
    figure, time = go.Figure(), [r.t for r in reports]
    curves = {name: [_first(getattr(r, name)) for r in reports] for name in ("lower", "local", "upper", "ascent")}
    vacuous = [r.vacuous for r in reports]
    for i, (name, values) in enumerate(curves.items()):
        symbol = look.SYMBOLS[(0, 1, 3, 2)[i]]
        hollow = [symbol + "-open" if name == "upper" and empty else symbol for empty in vacuous]
        said = MEANING[name] + (" (hollow: vacuous)" if name == "upper" and any(vacuous) else "")
        figure.add_scatter(
            x=time, y=_drawable(values), name=said, mode="lines+markers", marker={"symbol": hollow, "size": 8},
            line={"color": look.OKABE_ITO[i], "dash": look.DASHES[i], "width": 2},
            fill="tonexty" if name == "local" else "none", fillcolor="rgba(127, 127, 127, 0.18)",
            hovertemplate=f"{name} = %{{y:.4g}}<extra>t = %{{x:.4g}}</extra>",
        )  # fmt: skip
    look.lay_out(figure, look.TIME, "bound of ‖J‖₂ (1/t)", log_y=True)
    return figure.update_layout(legend_traceorder="normal")


def branch_over_time(reports: Sequence[LipschitzReport], branch: str) -> go.Figure:
    """Every bound of one branch over t: solid at the state, dashed on the ball or everywhere, hollow and grey where vacuous.

    Args:
        reports: one image, one for each time.   branch: F (the MLP) or G (attention).
    """
    figure, time = go.Figure(), [r.t for r in reports]
    names = [name for name in _names(reports) if name.startswith(branch + " ")]
    best = {sharpest(r, branch, local=local) for r in reports for local in (True, False)}
    for i, name in enumerate(names):
        parts = [r.parts.get(name) for r in reports]
        known = next(p for p in parts if p is not None)
        empty = all(p is None or p.status == "vacuous" for p in parts)
        colour, symbol = GREY if empty else look.OKABE_ITO[i % 6], look.SYMBOLS[i % len(look.SYMBOLS)]
        figure.add_scatter(
            x=time, y=_drawable([np.nan if p is None else p.value for p in parts]), mode="lines+markers",
            name=_title(name, known.norm) + (", vacuous" if empty else ""),
            marker={"symbol": symbol + "-open" if empty else symbol, "size": 8},
            line={"color": colour, "dash": "solid" if known.side == "local" else "dash", "width": 3.5 if name in best else 1.5},
            hovertemplate=f"%{{y:.4g}} ({known.side}, {known.region})<extra>t = %{{x:.4g}}</extra>",
        )  # fmt: skip
    return look.lay_out(figure, look.TIME, f"bound of the {BRANCHES[branch]} branch (1/t)", log_y=True)


def bounds_by_name(reports: Sequence[LipschitzReport], *, at: float | None = None) -> go.Figure:
    """Every bound by name at the time of the slider: sign and colour tell the side, hollow is vacuous, a ring the sharpest.

    Bounds in another norm are named as such and are not comparable with the others.
    """
    names = _names(reports)
    norms = {name: r.parts[name].norm for r in reports for name in r.parts}
    titles = {name: _title(name, norms[name], full=True) for name in names}
    figure = go.Figure()
    frames = [_row(r, titles) for r in reports]
    for trace in frames[-1]:
        figure.add_scatter(**trace)
    look.lay_out(figure, "bound of the Jacobian of the field or branch (1/t)", "", height=110 + 23 * len(names))
    figure.update_xaxes(type="log", exponentformat="power", range=_decades(reports))
    figure.update_yaxes(categoryorder="array", categoryarray=[titles[n] for n in reversed(names)], automargin=True)
    figure.update_yaxes(range=[-0.7, len(names) - 0.3])
    return look.framed(figure, [r.t for r in reports], frames, at=at)


def flow_stretch(flow: FlowBoundReport, measured: LyapunovReport | None = None) -> go.Figure:
    """What the flow up to t can do to a tiny change: at most exp int mu(J), at least exp -int mu(-J), one image.

    Where the field changes its block in time only the ends are drawn. Cross: largest stretch that was measured at T.

    Args:
        flow: FlowBoundReport.   measured: finite-time exponents of the same image, or None.
    """
    figure = go.Figure()
    for i, (name, rate, sign, end) in enumerate((
        ("at most exp ∫μ(J) dt", flow.expansion, 1, flow.most), ("at least exp −∫μ(−J) dt", flow.contraction, -1, flow.least),
    )):  # fmt: skip
        time, values = _growth(flow.t, sign * rate.reshape(-1, len(flow.t))[0], _first(end))
        figure.add_scatter(
            x=time, y=values, name=name, mode="lines+markers" if len(time) > 1 else "markers",
            marker={"symbol": look.SYMBOLS[3 + i], "size": 8}, line={"color": look.OKABE_ITO[1 + i], "dash": look.DASHES[i]},
            fill="tonexty" if i and len(time) > 1 else "none", fillcolor="rgba(127, 127, 127, 0.18)",
            hovertemplate=f"{name} = %{{y:.4g}}<extra>t = %{{x:.4g}}</extra>",
        )  # fmt: skip
    if measured is not None:
        largest = np.exp(measured.horizon * np.ravel(measured.exponents)[0])
        figure.add_scatter(
            x=[flow.t[-1]], y=[largest], mode="markers", name="σ₁ of the solver's flow (measured)",
            marker={"symbol": "x", "size": 11, "color": look.OKABE_ITO[0]}, hovertemplate="σ₁ = %{y:.4g}<extra></extra>",
        )  # fmt: skip
    figure.add_hline(y=1.0, line={"color": GREY, "width": 1, "dash": "dot"})
    look.lay_out(figure, look.TIME, "factor on a tiny change of x(0)", log_y=True)
    return figure.update_layout(legend_traceorder="normal")


def sharpest(report: LipschitzReport, branch: str, *, local: bool) -> str:
    """Name of the smallest proven 2-norm bound of a branch ("F" or "G"); '' where all are vacuous.

    Args:
        local: also those that hold at the states only; else those of the ball or of all states.
    """
    sides = ("local", "upper") if local else ("upper",)
    found = {
        name: part.value for name, part in report.parts.items()
        if name.startswith(branch + " ") and part.norm == "2" and part.status == "proven" and part.side in sides
    }  # fmt: skip
    return min(found, key=lambda name: found[name]) if found else ""


def sharpest_whole(report: LipschitzReport) -> str:
    """Which bound `local` of the whole field comes from, in words."""
    whole = report.parts.get("J block influence")
    if whole is not None and whole.value <= _first(report.local) * (1 + 1e-9):
        return "J block influence"
    names = [sharpest(report, branch, local=True) for branch in BRANCHES]
    return " with ".join(names) if all(names) else "none"


def bound_table(report: LipschitzReport) -> list[dict[str, object]]:
    """A row for every bound: value, side, region, norm, status, and how many times the smallest comparable one it is.

    Comparable are the whole field's bounds with `lower`, and the 2-norm bounds of one branch with the sharpest of them.
    """
    least = {branch: sharpest(report, branch, local=True) for branch in BRANCHES}
    smallest = {branch: report.parts[name].value for branch, name in least.items() if name} | {"": _first(report.lower)}

    def times(name: str, part: Part) -> float | None:
        base = smallest.get(name[0] if name.split(" ")[0] in BRANCHES else "", np.nan)
        return part.value / base if part.norm == "2" and base > 0 else None

    return [
        {
            "bound": _title(name, "2", full=True), "value (1/t)": part.value, "times the smallest": times(name, part),
            "side": part.side, "status": part.status, "region": part.region, "norm": NORMS.get(part.norm, "2-norm"),
            "reference": part.reference,
        }
        for name, part in sorted(report.parts.items(), key=lambda item: _order(item[0]))
    ]  # fmt: skip


def _first(values) -> float:
    return float(np.ravel(values)[0])


def _drawable(values) -> np.ndarray:
    """What a logarithmic axis can show; the rest is a gap."""
    array = np.asarray(values, dtype=float)
    return np.where(np.isfinite(array) & (array > 0), array, np.nan)


def _order(name: str) -> tuple[int, int]:
    return (0, WHOLE.index(name)) if name in WHOLE else (1 + (not name.startswith("F ")), 0)


def _names(reports: Sequence[LipschitzReport]) -> list[str]:
    """All bounds at any time: those of the whole field, of the MLP, of attention."""
    return sorted(dict.fromkeys(str(name) for r in reports for name in r.part), key=_order)


def _title(name: str, norm: str, *, full: bool = False) -> str:
    """The name of a bound: with its branch in words where `full`, else without; with its norm where that is another one."""
    branch, _, rest = name.partition(" ")
    said = (f"{BRANCHES[branch]}: {rest}" if full else rest) if branch in BRANCHES else name
    return f"{said} ({NORMS[norm]})" if norm in NORMS and norm not in said and NORMS[norm].split("-")[0] not in said else said


def _row(report: LipschitzReport, titles: dict[str, str]) -> list[dict]:
    """The traces of one time: proven or measured by side, vacuous, and rings around the sharpest."""
    parts = {name: p for name, p in report.parts.items() if np.isfinite(p.value) and p.value > 0}
    groups = {side: [n for n, p in parts.items() if p.side == side and p.status != "vacuous"] for side in SIDES}
    looks = {side: {"color": colour, "symbol": symbol, "size": 10} for side, (colour, symbol) in SIDES.items()}
    groups["vacuous"] = [n for n, p in parts.items() if p.status == "vacuous"]
    looks["vacuous"] = {"color": GREY, "symbol": "triangle-up-open", "size": 10}
    best = [sharpest(report, b, local=local) for b in BRANCHES for local in (True, False)]
    groups["sharpest of its branch"] = [n for n in dict.fromkeys(best) if n in parts]
    looks["sharpest of its branch"] = {"color": GREY, "symbol": "circle-open", "size": 17, "line": {"width": 2}}
    return [
        {
            "x": [parts[n].value for n in members], "y": [titles[n] for n in members], "mode": "markers", "name": group,
            "marker": looks[group], "customdata": [[parts[n].side, parts[n].region, parts[n].status] for n in members],
            "hovertemplate": "%{x:.4g} (%{customdata[0]}, %{customdata[2]}, %{customdata[1]})<extra>%{y}</extra>",
        }
        for group, members in groups.items()
    ]  # fmt: skip


def _decades(reports: Sequence[LipschitzReport]) -> list[float]:
    """Ends of a logarithmic axis that holds all bounds of all times."""
    seen = _drawable(np.concatenate([np.ravel(r.value) for r in reports]))
    seen = np.log10(seen[np.isfinite(seen)])
    return [float(seen.min()) - 0.2, float(seen.max()) + 0.2] if seen.size else [-1.0, 1.0]


def _growth(time: np.ndarray, rate: np.ndarray, end: float) -> tuple[np.ndarray, np.ndarray]:
    """(times, exp of the integral of the rate up to them) by the trapezoid rule; the end alone where it does not lead there."""
    integral = np.concatenate([[0.0], np.cumsum(np.diff(time) * (rate[1:] + rate[:-1]) / 2)])
    if np.isfinite(end) and end > 0 and abs(integral[-1] - np.log(end)) <= 1e-6 * (1 + abs(integral[-1])):
        return time, np.exp(integral)
    return time[-1:], np.array([end])
