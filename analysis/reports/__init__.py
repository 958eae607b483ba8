"""What analyses return: NumPy arrays with named axes, units and provenance, and their files (needs NumPy only)."""

from .base import FORMAT, Provenance, Report
from .bounds import FlowBoundReport, LipschitzReport
from .effects import EffectMapReport, InterventionReport
from .exponents import ExponentsOverReport, LyapunovReport
from .model_folders import ConfigReport, HistoryReport
from .paths import AttentionReport, LensReport, MatchReport, PlaneReport, TokenPathReport
from .perturbed import PerturbationReport, StretchReport
from .spectral import InfluenceReport, RangeReport, RatesReport, SpectrumReport, ValueReport, WeightSpectraReport
from .stepping import DiscretizationReport, OrderReport, RegionReport, SplittingReport, StabilityReport, SwapReport
from .swapped import AnswersReport, SolverPathsReport
from .teaching import PairReport
from .verdicts import CertificateReport, Verdict

__all__ = [
    "AnswersReport", "AttentionReport", "CertificateReport", "ConfigReport", "DiscretizationReport", "EffectMapReport",
    "ExponentsOverReport", "FlowBoundReport", "FORMAT", "HistoryReport", "InfluenceReport", "InterventionReport", "LensReport",
    "LipschitzReport", "LyapunovReport", "MatchReport", "OrderReport", "PairReport", "PerturbationReport", "PlaneReport",
    "Provenance", "RangeReport", "RatesReport", "RegionReport", "Report", "SolverPathsReport", "SpectrumReport",
    "SplittingReport", "StabilityReport", "StretchReport", "SwapReport", "TokenPathReport", "ValueReport", "Verdict",
    "WeightSpectraReport",
]  # fmt: skip
