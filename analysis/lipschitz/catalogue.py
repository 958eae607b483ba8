"""What every bound of a LipschitzReport is called, from which side it comes, where it holds and whose it is.

"In the form of" marks published results whose wording was restated; their validity is tested on random fields. "Derived here"
marks ours, with the proof in the docstring of the function.
"""

from dataclasses import dataclass

import numpy as np

OURS = "derived here"
STATES, EVERYWHERE, BALL = "at the states", "everywhere", "ball max_i |x_i| <= {radius:.6g}"


@dataclass(frozen=True)
class Entry:
    """side: lower, local or upper.   norm: 2, inf or mu_2.   region, reference: as in reports.bounds.Part."""

    side: str
    region: str
    reference: str
    norm: str = "2"

    def bounds(self, local: bool) -> bool:
        """Whether it bounds ||J||_2 of its branch from above: on the whole ball, or also at the states where `local` is set."""
        return self.norm == "2" and (self.side == "upper" or (local and self.side == "local"))


_SPECTRAL_NORM_PRODUCT = "product of spectral norms (Szegedy et al. 2014, 1312.6199), constant of the activation"
_MAPS = "in the form of Yudin et al. 2025 (2507.07814)"
_KIM, _LIPSFORMER = "in the form of Kim et al. 2020 (2006.04710)", "in the form of LipsFormer (2304.09856), theorem 1"

CATALOGUE = {
    "lower": Entry("lower", STATES, "power iteration on J^T J"),
    "ascent": Entry("lower", BALL, "projected gradient ascent of sigma_1"),
    "F exact per token": Entry("local", STATES, "singular values of J_ii, " + OURS),
    "F centred, LayerNorm at the state": Entry("local", STATES, OURS),
    "F product": Entry("upper", EVERYWHERE, _SPECTRAL_NORM_PRODUCT),
    "F centred": Entry("upper", EVERYWHERE, OURS),
    "F logarithmic norm": Entry("upper", EVERYWHERE, OURS, "mu_2"),
    "G block norm": Entry("local", STATES, OURS),
    "G attention map, exact": Entry("local", STATES, _MAPS),
    "G attention map, closed": Entry("local", STATES, _MAPS + ", lambda_1 bounded by g_1"),
    "G attention map, weighted": Entry("local", STATES, OURS),
    "G ball": Entry("upper", BALL, OURS),
    "G ball, norm folded": Entry("upper", BALL, OURS),
    "G Castin et al.": Entry("upper", BALL, "in the form of Castin et al. 2023 (2312.14820)"),
    "G Kim et al.": Entry("upper", EVERYWHERE, _KIM + ", homogeneous"),
    "G Kim et al., infinity norm": Entry("upper", EVERYWHERE, _KIM, "inf"),
    "G tied L2, sharper": Entry("upper", EVERYWHERE, OURS),
    "G LipsFormer": Entry("upper", EVERYWHERE, _LIPSFORMER),
    "G LipsFormer, refined": Entry("upper", EVERYWHERE, _LIPSFORMER + " with softmax's 1/2"),
    "G cosine, sharper": Entry("upper", EVERYWHERE, OURS),
    "J block influence": Entry("local", STATES, "norm of the map of all block norms |J_ij|, closed form, " + OURS),
    "local": Entry("local", STATES, "smallest bounds of F and G together"),
    "upper": Entry("upper", BALL, "smallest bounds of F and G together"),
}


def least(values: dict[str, np.ndarray], branch: str, *, local: bool) -> np.ndarray:
    """The smallest valid 2-norm bound of a branch ("F" or "G") for every state, from those of the ball alone unless `local`."""
    chosen = [v for name, v in values.items() if name.startswith(branch + " ") and CATALOGUE[name].bounds(local)]
    return np.min(chosen, axis=0)


def describe(values: dict[str, np.ndarray], radius: float, layered: bool) -> dict[str, np.ndarray]:
    """The arrays part, value, side, region, norm, reference and status of a LipschitzReport, in the order of the catalogue.

    Args:
        values: bounds by name, each over the states.
        layered: LayerNorm is in the block: what holds beyond the states goes through its global constant and is vacuous.
    """
    names = [name for name in CATALOGUE if name in values and not np.isnan(values[name]).all()]
    entries = [CATALOGUE[name] for name in names]

    def status(name: str, entry: Entry) -> str:
        if entry.side == "lower":
            return "measured"
        beyond = layered and entry.side == "upper"
        return "vacuous" if beyond or np.isinf(values[name]).all() else "proven"

    words = {
        "side": [e.side for e in entries],
        "region": [e.region.format(radius=radius) for e in entries],
        "norm": [e.norm for e in entries],
        "reference": [e.reference for e in entries],
        "status": [status(name, entry) for name, entry in zip(names, entries)],
    }
    arrays = {key: np.array(column) for key, column in words.items()}
    return {"part": np.array(names), "value": np.stack([values[name] for name in names])} | arrays
