"""Norms of weights and normalisations against dense twins and closed forms."""

import pytest
import torch
from torch import nn

from analysis.lipschitz.matrix_norms import (
    layer_norm_global,
    layer_norm_jacobians,
    layer_norm_norms,
    norm_matrix,
    right_norms,
    spectral_norm,
)
from analysis.operators import jacobian
from odevit.errors import NonFiniteError
from odevit.field import CenterNorm


def norm_of(center: CenterNorm) -> float:
    return float(spectral_norm(norm_matrix(center, center.gamma)))


@pytest.mark.parametrize(("dim", "norm"), [(192, 1.00524), (768, 1.00130), (2, 2.0)])
def test_center_norm_is_not_1_lipschitz(dim, norm):
    found = norm_of(CenterNorm(dim).double())
    assert found == pytest.approx(dim / (dim - 1), rel=1e-12)
    assert found == pytest.approx(norm, abs=6e-6)


def test_center_norm_is_below_the_product_for_a_random_gamma():
    center = CenterNorm(8).double().requires_grad_(False)
    nn.init.normal_(center.gamma, generator=torch.Generator().manual_seed(0))
    dense = jacobian(lambda t, x: center(x), torch.ones(8, dtype=torch.float64)).dense()
    crude = 8 / 7 * float(center.gamma.abs().max())
    assert norm_of(center) == pytest.approx(float(torch.linalg.svdvals(dense)[0]), rel=1e-12)
    assert norm_of(center) < crude - 1e-3


@pytest.mark.parametrize("dim", [2, 3, 7])
@pytest.mark.parametrize("gamma", ["ones", "random", "ties"])
def test_layer_norm_norm_is_exact_at_every_token(dim, gamma):
    generator = torch.Generator().manual_seed(dim)
    layer = nn.LayerNorm(dim, eps=0.05).double().requires_grad_(False)
    if gamma == "random":
        nn.init.normal_(layer.weight, generator=generator)
    elif gamma == "ties":
        layer.weight[1:] = -1.5
    x = (
        torch.randn(100, dim, generator=generator, dtype=torch.float64)
        * torch.logspace(-2, 1, 100, dtype=torch.float64)[:, None]
    )
    x[0] = 1.0
    dense = jacobian(lambda t, y: layer(y), x, batch_dims=1).dense()
    assert torch.allclose(layer_norm_jacobians(layer, x), dense, atol=1e-12)
    assert torch.allclose(layer_norm_norms(layer, x), torch.linalg.matrix_norm(dense, ord=2), rtol=1e-12)
    if gamma == "ones" and dim > 2:
        s = (x.var(-1, unbiased=False) + layer.eps).sqrt()
        assert torch.allclose(layer_norm_norms(layer, x), 1 / s, rtol=1e-12)


def test_layer_norm_global_constant_is_attained_where_channels_are_equal():
    layer = nn.LayerNorm(16, eps=1e-6).double().requires_grad_(False)
    x = torch.full((1, 16), 3.0, dtype=torch.float64)
    assert layer_norm_global(layer) == pytest.approx(1000.0)
    assert float(layer_norm_norms(layer, x)[0]) == pytest.approx(1000.0)


def test_right_norms_equal_those_of_the_wide_products():
    generator = torch.Generator().manual_seed(0)
    small = torch.randn(6, 3, 4, generator=generator, dtype=torch.float64)
    wide = torch.randn(4, 11, generator=generator, dtype=torch.float64)
    assert torch.allclose(right_norms(small, wide), torch.linalg.matrix_norm(small @ wide, ord=2), rtol=1e-13)


def test_a_matrix_with_nan_is_named_and_never_reaches_lapack():
    with pytest.raises(NonFiniteError, match="mlp.fc1: holds NaN"):
        spectral_norm(torch.tensor([[1.0, float("nan")]]), "mlp.fc1")
