"""Small reports with known numbers, for the tests of figures and tables."""

import numpy as np

from analysis.reports import (
    CertificateReport,
    DiscretizationReport,
    EffectMapReport,
    ExponentsOverReport,
    InfluenceReport,
    LipschitzReport,
    LyapunovReport,
    OrderReport,
    Provenance,
    RangeReport,
    RatesReport,
    RegionReport,
    SpectrumReport,
    SwapReport,
    TokenPathReport,
)

MODEL = Provenance(model="ODEViT 000000000000", command="test", commit="0")
OTHER = Provenance(model="ODEViT 111111111111", command="test", commit="0")


def eigenvalues(values, t: float = 0.0, **changes) -> SpectrumReport:
    values = np.asarray(values, dtype=complex)
    known = {"residuals": np.zeros(values.shape), "converged": values.size, "n": 9, "products": 1, "dense": True, "which": "LM"}
    return SpectrumReport(**({"provenance": MODEL, "eigenvalues": values, "t": t} | known | changes))


def euler_region() -> RegionReport:
    re, im = np.linspace(-3, 1, 81), np.linspace(-2, 2, 81)
    modulus = np.abs(1 + re[None, :] + 1j * im[:, None])
    return RegionReport(provenance=MODEL, method="euler", re=re, im=im, modulus=modulus)


def disc(radius: float = 1.0, angles: int = 32) -> RangeReport:
    theta = 2 * np.pi * np.arange(angles) / angles
    points = radius * np.exp(1j * theta)
    outer = points * np.exp(1j * np.pi / angles) / np.cos(np.pi / angles)
    return RangeReport(
        provenance=MODEL, angles=theta, support=np.full(angles, radius), points=points, outer=outer, radius=radius,
        radius_upper=float(np.abs(outer).max()), residual=0.0, products=1,
    )  # fmt: skip


def certificate(**changes) -> CertificateReport:
    """Three times, two images; mode (image, k) of time t is t + i k."""
    time = np.array([0.0, 1.0, 2.0])
    grown = np.outer(time + 1, [1.0, 2.0])
    modes = time[:, None, None] + 1j * np.array([[1.0, -1.0], [2.0, np.nan]])
    words = {
        "name": ["existence", "size", "step"], "question": ["Exists?", "How large?", "Is 50 % of it a step & more_?"],
        "answer": ["Yes.", "At most 1e9.", "No: |J| <= 3."], "status": ["proven", "vacuous", "measured"],
        "unit": ["", "state", "1/t"], "side": ["exact", "upper", "lower"],
        "region": ["-"] * 3, "formula": ["-"] * 3, "reference": ["-"] * 3,
    }  # fmt: skip
    known = {
        "subject": "a model", "solve": "euler", "images": 2, "tokens": 6, "dim": 4, "skipped": (), "notes": (), "products": 1,
        "holds": np.array([1, -1, 0]), "value": np.array([1.0, 1e9, 3.0]), "time": time, "jacobian_norm": 3 * grown,
        "local": 4 * grown, "logarithmic_norm": 2 * grown, "abscissa": grown, "eigenvalues": modes, "step_time": time[:2],
        "step_norm": grown[:2], "grid_time": time, "radius": np.array([1.0, 2.0, 3.0]),
        "radius_bound": np.array([1.0, 10.0, 100.0]),
        "sigma": np.array([1.0, 2.0]), "sigma_bound": np.array([3.0, 4.0]), "provenance": MODEL,
    }  # fmt: skip
    return CertificateReport(**({name: np.array(column) for name, column in words.items()} | known | changes))


def bounds(t: float = 0.0, **changes) -> LipschitzReport:
    names = ["lower", "F product", "G Castin et al.", "local", "upper"]
    known = {
        "lower": np.array([1.0, 2.0]), "local": np.array([3.0, 5.0]), "upper": 50.0, "ascent": 7.0, "residual": np.zeros(2),
        "radius": 2.0, "t": t, "products": 3, "vacuous": False, "part": np.array(names),
        "value": np.array([[1.0, 2], [4, 4], [90, 90], [3, 5], [50, 50]]),
        "side": np.array(["lower", "upper", "upper", "local", "upper"]), "region": np.array(["-"] * 5),
        "norm": np.array(["2", "2", "inf", "2", "2"]), "reference": np.array(["-"] * 5),
        "status": np.array(["measured", "proven", "vacuous", "proven", "proven"]), "provenance": MODEL,
    }  # fmt: skip
    return LipschitzReport(**(known | changes))


def rates(t: float = 0.0, **changes) -> RatesReport:
    """One image: ||J|| = 3 + t, mu = 2 + t, alpha = 1 + t, contraction -2 - t."""
    known = {
        "norm": np.array([3 + t]), "logarithmic_norm": np.array([2 + t]), "abscissa": np.array([1 + t]),
        "contraction": np.array([-2 - t]), "residuals": np.array([[1e-5, 2e-5, 3e-5, 4e-5]]), "dense": False, "products": 9,
        "t": t, "provenance": MODEL,
    }  # fmt: skip
    return RatesReport(**(known | changes))


def exponents(**changes) -> ExponentsOverReport:
    values = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    known = {
        "system": "6 steps", "horizon": 6.0, "exponents": values[:, None], "residuals": np.zeros((6, 1)),
        "predicted": np.array([0, 1, 2, 0, 1, 0]), "confidence": np.linspace(0.9, 0.4, 6),
        "labels": np.array([0, 1, 2, 0, 2, 2]),
        "correct": np.array([True, True, True, True, False, False]), "classes": np.array([0, 1, 2]),
        "class_mean": np.array([0.25, 0.2, 0.4667]), "class_std": np.array([0.15, 0.0, 0.12]),
        "class_count": np.array([2, 1, 3]),
        "mean": 0.35, "std": 0.17, "auc": 1.0, "auc_low": 0.9, "auc_high": 1.0, "confidence_rank_correlation": -1.0,
        "provenance": MODEL,
    }  # fmt: skip
    return ExponentsOverReport(**(known | changes))


def lyapunov(**changes) -> LyapunovReport:
    time = np.arange(1.0, 6.0)
    history = np.outer(1 / time, [1.0, -1.0]) + np.array([0.5, -0.5])
    known = {
        "quantity": "averaged log |R_ii| (QR)", "system": "5 steps", "exponents": history[-1], "residuals": np.full(2, np.nan),
        "converged": np.array([True, True]), "time": time, "history": history, "along_flow": 0.0, "kaplan_yorke": 2.0,
        "kaplan_yorke_exact": True, "dimensions": 2, "zeros_removed": 0, "horizon": 5.0, "products": 2, "provenance": MODEL,
    }  # fmt: skip
    return LyapunovReport(**(known | changes))


def euler(steps: int, error: float = 1.0, **changes) -> DiscretizationReport:
    """Two images; every estimate at T is a multiple of error / steps."""
    time, size = np.linspace(0, 1, steps + 1), error / steps * np.array([1.0, 2.0])
    along = size[:, None] * time
    known = {
        "h": 1 / steps, "steps": steps, "horizon": 1.0, "time": time, "jacobian_norm": np.ones((2, steps + 1)),
        "step_norm": np.ones((2, steps)), "acceleration": np.ones((2, steps + 1)), "lipschitz": np.ones(2), "gamma": np.ones(2),
        "curvature": np.ones(2), "classical": 100 * size, "logarithmic": 50 * size, "stepwise": 10 * along,
        "principal": 1.1 * along,
        "direction": np.ones((2, 3)), "logits_shift": np.ones((2, 3)), "true_error": along, "reference_error": np.zeros(2),
        "cosine": np.ones(2), "vacuous": np.array([False, False]), "residual": 0.0, "provenance": MODEL,
    }  # fmt: skip
    return DiscretizationReport(**(known | changes))


def order() -> OrderReport:
    return OrderReport(
        provenance=MODEL, method="euler", steps=4, h=0.25, expected=1, observed=np.array([0.98, 1.02]), difference=np.ones(2),
        error=np.ones(2), in_ode_regime=np.array([True, True]), verdict="order 1",
    )  # fmt: skip


def swap(**changes) -> SwapReport:
    known = {
        "trained_method": "euler", "trained_steps": 4, "images": 10, "method": np.array(["euler", "euler", "rk4", "dopri5"]),
        "steps": np.array([4, 8, 4, 0]), "nfe": np.array([4, 8, 16, 50]), "max_logit_change": np.array([0.0, 1.0, 2.0, 2.0]),
        "max_shift": np.array([0.0, 1.0, 1.0, 1.0]), "flip_rate": np.array([0.0, 0.1, 0.2, 0.3]),
        "certain_rate": np.array([1.0, 0.8, 0.5, 0.4]), "accuracy": np.array([0.9, 0.8, 0.7, 0.6]),
        "accuracy_change": np.array([0.0, -0.1, -0.2, -0.3]), "radius": np.ones(10), "provenance": MODEL,
    }  # fmt: skip
    return SwapReport(**(known | changes))


def influence(t: float = 0.0, **changes) -> InfluenceReport:
    """One image of six tokens (CLS, 2 x 2 patches, a register): influence of j on i is 10 i + j + 1."""
    values = 10.0 * np.arange(6)[:, None] + np.arange(6)[None, :] + 1
    known = {"provenance": MODEL, "influence": values, "norm": "spectral", "method": "dense", "t": t}
    return InfluenceReport(**(known | changes))


def effects(**changes) -> EffectMapReport:
    """Two times, six tokens, two images; KL of region r at time t is t + r."""
    kl = np.repeat((np.array([0.0, 1.0])[:, None] + np.arange(6.0))[..., None], 2, -1)
    known = {
        "change": "tokens 0 to zero", "time": np.array([0.0, 1.0]), "regions": tuple("012345"), "size": kl, "kl": kl,
        "flipped": kl > 3, "logit_change": -kl, "margin_change": 2.5 - kl, "provenance": MODEL,
    }  # fmt: skip
    return EffectMapReport(**(known | changes))


def layout() -> TokenPathReport:
    """A report that knows the layout of six tokens: CLS, 2 x 2 patches, a register."""
    times, state, token = np.arange(2.0), np.ones((2, 1)), np.ones((2, 1, 6))
    along = dict.fromkeys(("speed", "acceleration", "curvature", "norm"), token)
    per_state = dict.fromkeys(
        ("mean_cosine", "mean_cosine_centred", "collapse", "collapse_centred", "stable_rank", "participation_ratio",
         "effective_rank", "clusters"), state,
    )  # fmt: skip
    per_token = dict.fromkeys(("length", "polyline", "straightness", "turning"), np.ones((1, 6)))
    return TokenPathReport(
        provenance=MODEL, time=times, coordinates=np.ones((2, 1, 6, 3)), basis_mean=np.zeros(4), basis_components=np.eye(3, 4),
        variances=np.ones(4), delta=0.1, derivatives="exact", registers=1, patch_grid=(2, 2), **along, **per_state, **per_token,
    )  # fmt: skip
