"""How much it matters in which order attention and MLP act: leading local errors of unsplit and split steps of dx/dt = F + G.

Numerical minus exact solution after one step, divided by h^2 (F'G = derivative of F along G; Hairer, Lubich & Wanner,
Geometric Numerical Integration, ch. II.5 and III.4):

    Euler on F + G           -(F' + G')(F + G) / 2
    lie_trotter, exact flows  (F'G - G'F) / 2                    attention first
    lie_trotter, Euler flows  (F'G - G'F - F'F - G'G) / 2        the sequential layer
    strang, Euler flows      -(F'F / 4 + G'G / 2)                Macaron: order 1, only the commutator is gone

The sequential minus the parallel layer is h^2 F'G + O(h^3).
"""

import numpy as np
import torch
from torch import Tensor

from odevit.errors import UserError

from ..operators import jacobian, prepared, provenance
from ..reports import SplittingReport


def parts_of(f, t: float):
    """(F, G) as callables of (t, x): the two parts of f in its piece around t. UserError where f has none."""
    if not (hasattr(f, "attention_part") and hasattr(f, "mlp_part")):
        raise UserError(f"field: {type(f).__name__} has no attention_part and mlp_part, so there is nothing to split")
    if hasattr(f, "piece"):
        f = f.piece(t)
    return (lambda s, y: f.mlp_part(y, s)), (lambda s, y: f.attention_part(y, s))


def local_error_terms(f, x: Tensor, t: float = 0.0) -> dict[str, Tensor]:
    """Coefficients of h^2 in one step's error, each of the shape of x, and "commutator" = F'G - G'F, "gap" = F'G.

    Args:
        f: field with attention_part(x, t) and mlp_part(x, t), such as a VectorField or a piece of one.
        x: state.

    Cost: 2 linearisations and 4 JVPs in two passes. Holds for parts that do not depend on t (t is frozen).
    """
    mlp, attention = parts_of(f, t)
    f_jacobian, g_jacobian = jacobian(mlp, x, t), jacobian(attention, x, t)
    both = torch.stack([f_jacobian.value, g_jacobian.value])
    ff, fg = f_jacobian.matvec(both)
    gf, gg = g_jacobian.matvec(both)
    return {
        "euler": -(ff + fg + gf + gg) / 2,
        "lie_trotter_exact": (fg - gf) / 2,
        "lie_trotter": (fg - gf - ff - gg) / 2,
        "strang": -(ff / 4 + gg / 2),
        "commutator": fg - gf,
        "gap": fg,
    }


def splitting_error(f, x: Tensor, t: float = 0.0, h: float = 1.0, *, batch_dims: int = 0) -> SplittingReport:
    """Norms of the leading local errors at (t, x), and the commutator's share ||F'G - G'F|| / ||(F' + G')(F + G)||.

    Args:
        f: field with attention_part(x, t) and mlp_part(x, t), such as a VectorField or a piece of one.
        x: state of any shape, or (B, ...) with batch_dims=1.
        h: step size for `relative`, the error of one step over ||h f||.

    Returns:
        SplittingReport.

    Raises:
        UserError: a field without parts.
    """
    given = f
    f, x = prepared(f, x)
    terms = local_error_terms(f, x, t)
    mlp, attention = parts_of(f, t)
    with torch.no_grad():
        speed = mlp(t, x) + attention(t, x)

    def size(v: Tensor):
        norms = v.reshape(x.shape[0] if batch_dims else 1, -1).norm(dim=1).cpu().numpy()
        return norms if batch_dims else norms[0]

    commutator, total = size(terms.pop("commutator")), 2 * size(terms["euler"])
    gap, moved = size(terms.pop("gap")), size(speed)
    notes = []
    if getattr(given, "time_weight", None) is not None:
        notes.append("t is frozen: terms of the field's own time dependence are left out")
    if hasattr(f, "block_at") and getattr(f.block_at(t), "sequential", False):
        notes.append("this layer is sequential, G(x) + F(x + G(x)): the terms belong to the parallel field F + G of its parts")
    return SplittingReport(
        time=float(t), h=float(h), commutator=commutator, total=total, ratio=_ratio(commutator, total), architecture_gap=gap,
        terms={name: size(v) for name, v in terms.items()},
        relative={name: abs(h) * _ratio(size(v), moved) for name, v in terms.items()},
        notes=tuple(notes), provenance=provenance(given, x),
    )  # fmt: skip


def _ratio(above, below):
    """above / below, NaN where below is 0."""
    return np.divide(above, below, out=np.full_like(np.asarray(above), np.nan), where=np.asarray(below) > 0)[()]
