"""Parts of a report, each over some of the images, joined into the report over all of them.

Arrays are joined along their axis "image" (or "batch", the samples); what has no such axis must be the same in every part,
or is a count or a residual, of which the largest is kept.
"""

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from ..lyapunov.dataset_exponents import TOLERANCE, summarise
from ..reports import ExponentsOverReport, Report

SAMPLES = ("image", "batch")


def merge(parts: Sequence[Report]) -> Report:
    """One report from parts in the order of their images; a single part comes back as it is.

    Raises ValueError for arrays that belong to no image and yet differ: such reports cannot be made in parts.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, ExponentsOverReport):
        return _exponents(parts)  # type: ignore[arg-type]
    names = [f.name for f in fields(first) if f.name != "provenance"]
    joined = {name: _join(first, name, [getattr(part, name) for part in parts]) for name in names}
    return type(first)(provenance=first.provenance, **joined)


def _join(report: Report, name: str, values: list):
    first = values[0]
    if isinstance(first, np.ndarray):
        axis = next((i for i, axis in enumerate(report.axes_of(name)) if axis in SAMPLES), None)
        if axis is not None:
            return np.concatenate(values, axis)
        if not all(np.array_equal(first, v, equal_nan=first.dtype.kind in "fc") for v in values):
            raise ValueError(f"{report.kind}.{name}: differs between parts, but has no axis of images")
        return first
    if all(value == first for value in values):
        return first
    if isinstance(first, tuple):
        return tuple(dict.fromkeys(entry for value in values for entry in value))
    if isinstance(first, str):
        return "; ".join(dict.fromkeys(value for value in values if value))
    return max(values)


def _exponents(parts: Sequence[ExponentsOverReport]) -> ExponentsOverReport:
    """Exponents joined, and their statistics made anew."""
    first, names = parts[0], ("exponents", "residuals", "predicted", "confidence", "labels")
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    missing = int((~(joined["residuals"] <= 2 * TOLERANCE)).sum())
    notes = (f"{missing} of {joined['residuals'].size} values not converged: lower bounds",) if missing else ()
    return summarise(
        **joined, notes=notes, system=first.system, horizon=first.horizon, provenance=first.provenance
    )  # fmt: skip
