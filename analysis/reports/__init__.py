"""What analyses return: NumPy arrays with named axes, units and provenance, and their files (needs NumPy only)."""

from .base import FORMAT, Provenance, Report
from .spectral import InfluenceReport, RangeReport, SpectrumReport, ValueReport, WeightSpectraReport

__all__ = [
    "FORMAT", "InfluenceReport", "Provenance", "RangeReport", "Report", "SpectrumReport", "ValueReport", "WeightSpectraReport",
]  # fmt: skip
