"""Spectra of the attention weights: eig(W_q^T W_k) and eig(W_o^h W_v^h) per head (Tong et al. 2025, 2503.01329).

The non-zero eigenvalues of a product A B are those of B A, so d x d matrices do: W_k W_q^T and W_v^h W_o^h. Complex values are
kept: a rotation in the weights turns tokens.
"""

import numpy as np
import torch

from odevit.errors import UserError
from odevit.field import VectorField

from ..operators import check_finite, provenance
from ..reports import WeightSpectraReport
from .krylov import order


def weight_spectra(field: VectorField) -> WeightSpectraReport:
    """QK and OV eigenvalues of every block and head, complex (block, head, d), descending modulus; no field evaluation.

    QK: how scores grow with the tokens; real and positive for tied L2 attention. OV: what a head does to what it reads. Norms,
    scales and temperatures are left out. Raises UserError where `field` is not one of ours.
    """
    if not isinstance(field, VectorField):
        raise UserError(f"field: a {type(field).__name__} has no attention weights; give a VectorField")
    qk, ov = [], []
    attn = field.block_at(0.0).attn
    for block in field.blocks:
        attn = block.attn  # type: ignore[assignment]
        heads = (attn.num_heads, attn.head_dim)
        q = attn.q.weight.unflatten(0, heads)  # (H, d, D)
        k = q if attn.k is None else attn.k.weight.unflatten(0, heads)
        v = attn.v.weight.unflatten(0, heads)
        out = attn.proj.weight.unflatten(1, heads).transpose(0, 1)  # (H, D, d)
        qk.append(_eigenvalues("W_k W_q^T", k @ q.transpose(1, 2)))
        ov.append(_eigenvalues("W_v W_o", v @ out))
    weight = attn.q.weight
    return WeightSpectraReport(provenance=provenance(field, weight), qk=np.stack(qk), ov=np.stack(ov), attention=attn.kind)


def _eigenvalues(name: str, matrices: torch.Tensor) -> np.ndarray:
    check_finite(name, matrices.detach())
    values = np.linalg.eigvals(matrices.detach().double().cpu().numpy()).astype(complex)
    return np.stack([row[order(row, "LM")] for row in values])
