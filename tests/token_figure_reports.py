"""Small reports on tokens with numbers that are all different, for the tests of their figures."""

import numpy as np
from figure_reports import MODEL, OTHER

from analysis.reports import AttentionReport, InterventionReport, LensReport, PairReport, PlaneReport, TokenPathReport

TIME = np.array([0.0, 1.0, 2.0])
IMAGES, TOKENS, HEADS, CLASSES = 2, 6, 2, 3  # tokens: CLS, 2 x 2 patches, a register


def numbers(*shape, seed=0):
    """Random numbers between 0 and 1."""
    return np.random.default_rng(seed).random(shape)


def paths(**changes) -> TokenPathReport:
    token, state = (3, IMAGES, TOKENS), (3, IMAGES)
    names = ("mean_cosine", "mean_cosine_centred", "collapse", "collapse_centred", "stable_rank", "participation_ratio",
             "effective_rank", "clusters")  # fmt: skip
    known = {name: numbers(*token, seed=i) for i, name in enumerate(("speed", "acceleration", "curvature", "norm"))}
    known |= {name: numbers(*state, seed=10 + i) for i, name in enumerate(names)}
    totals = ("length", "polyline", "straightness", "turning")
    known |= {name: numbers(*token[1:], seed=20 + i) for i, name in enumerate(totals)}
    fixed = {
        "provenance": MODEL, "time": TIME, "coordinates": numbers(*token, 3, seed=30), "basis_mean": np.zeros(4),
        "basis_components": np.eye(3, 4), "variances": np.array([4.0, 3.0, 2.0, 1.0]), "delta": 0.1, "derivatives": "exact",
        "registers": 1, "patch_grid": (2, 2),
    }  # fmt: skip
    return TokenPathReport(**(known | fixed | changes))


def lens(**changes) -> LensReport:
    """Image 0 is class 2 from t = 1 on, image 1 is class 1 all along."""
    logits = np.zeros((3, 2, CLASSES))
    logits[:, 0, 2] = [-1.0, 1.0, 2.0]
    logits[:, 1, 1] = [1.0, 2.0, 3.0]
    known = {
        "provenance": MODEL, "time": TIME, "logits": logits, "prediction": logits.argmax(-1), "margin": np.ones((3, 2)),
        "radius": np.ones((3, 2)), "decision_time": np.array([1.0, 0.0]), "linear": True,
        "resolved": np.array([[False, True], [True, True]]), "decision_resolved": np.array([False, True]),
    }  # fmt: skip
    return LensReport(**(known | changes))


def attention(times: int = 3, seed: int = 0, **changes) -> AttentionReport:
    """Rows that sum to 1, kept in full."""
    maps = numbers(times, IMAGES, HEADS, TOKENS, TOKENS, seed=seed)
    maps /= maps.sum(-1, keepdims=True)
    kinds = [maps[..., :1].sum(-1), maps[..., 1:5].sum(-1), maps[..., 5:].sum(-1)]
    rollout = numbers(times - 1, IMAGES, TOKENS, seed=seed + 1)
    known = {
        "provenance": MODEL, "time": np.arange(float(times)), "entropy": -(maps * np.log(maps)).sum(-1),
        "distance": numbers(times, IMAGES, HEADS, 4, seed=seed + 2), "softmax_bound": np.ones((times, IMAGES, HEADS)),
        "mass": np.stack([k.mean(-1) for k in kinds], -1), "cls_mass": np.stack([k[..., 0] for k in kinds], -1),
        "cls_maps": maps[..., 0, 1:5].reshape(times, IMAGES, HEADS, 2, 2), "rollout": rollout,
        "rollout_time": np.arange(1.0, times), "row_sum_error": 0.0, "maps": maps, "patch_grid": (2, 2), "registers": 1,
    }  # fmt: skip
    return AttentionReport(**(known | changes))


def plane(**changes) -> PlaneReport:
    known = {
        "provenance": MODEL, "u": np.array([0.0, 1.0, 2.0]), "v": np.array([0.0, 1.0]), "arrows": numbers(2, 3, 2, seed=1),
        "off_plane": numbers(2, 3, seed=2), "path": np.array([[0.0, 0.5], [1.0, 0.2], [2.0, 1.0]]), "time": TIME,
        "held_at": 1.0, "image": 0, "token": 0,
    }  # fmt: skip
    return PlaneReport(**(known | changes))


def intervention(t: float = 1.0, change: str = "tokens cls to zero", **changes) -> InterventionReport:
    time = TIME[t <= TIME]
    known = {
        "provenance": MODEL, "change": change, "t": t, "time": time, "size": np.array([2.0, 4.0]),
        "logits_before": np.zeros((2, 3)), "logits_after": np.ones((2, 3)), "kl": np.zeros(2),
        "flipped": np.array([True, False]),
        "token_distance": numbers(len(time), 2, TOKENS, seed=5), "restart_gap": 0.0,
    }  # fmt: skip
    return InterventionReport(**(known | changes))


def pair(**changes) -> PairReport:
    """Two layers of the teacher, three saved times of the student, control points at 0, 0.5 and 2."""
    known = {
        "provenance": MODEL, "teacher": "ViT 0", "split": "val", "images": IMAGES, "control": "distance", "horizon": 2.0,
        "control_times": np.array([0.0, 0.5, 2.0]), "steps": 4, "temperature": 1.0, "moved": np.array([1.0, 3.0]),
        "distance": np.array([0.0, 0.2, 0.3]), "overlap": np.array([0.9, 0.8]), "agreement": 1.0, "accuracy": np.ones(2),
        "parameters": np.array([2, 1]), "macs": np.array([2, 4]), "nfe": np.array([2, 4]), "after": {},
        "before": {"distance": np.array([0.0, 1.0, 1.5]), "overlap": np.array([0.5, 0.4]), "n": 7}, "time": TIME,
        "student_cls": numbers(3, IMAGES, 3, seed=40), "teacher_cls": numbers(3, IMAGES, 3, seed=41),
        "basis_mean": np.zeros(4), "basis_components": np.eye(3, 4), "variances": np.array([4.0, 3.0, 2.0, 1.0]),
    }  # fmt: skip
    return PairReport(**(known | changes))


__all__ = ["MODEL", "OTHER", "attention", "intervention", "lens", "numbers", "pair", "paths", "plane"]
