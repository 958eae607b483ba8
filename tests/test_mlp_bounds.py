"""The MLP branch: slopes of the activations, and exact <= centred <= product over random fields."""

import math

import numpy as np
import pytest
import torch
from problems import quantile_line, random_case

from analysis.lipschitz.block_bounds import mlp_everywhere, mlp_local
from analysis.lipschitz.mlp_bounds import SLOPES, Slope, centred_bound, centred_log_norm_bound, product_bound, slopes_at
from analysis.operators import jacobian
from odevit.field import Mlp

FIELDS, DENSE = 200, 15  # the exact norm of the tokens is checked against the dense one on the first DENSE fields


def one_neuron(activation: str, z: float) -> float:
    """The slope of x -> act(x) at z, through the code of the model."""
    mlp = Mlp(1, 1, activation=activation)
    return float(slopes_at(mlp.act, torch.tensor([z], dtype=torch.float64))[0])


@pytest.mark.parametrize(
    ("activation", "high", "at"),
    [
        ("gelu", 1.1289041451851547863, math.sqrt(2)),
        ("gelu_tanh", 1.1289930687, 1.4185040),
        ("quick_gelu", 1.0998393201288669, 2.39935728 / 1.702),
    ],
)
def test_slope_is_the_largest_derivative_of_the_code(activation, high, at):
    slope, grid = SLOPES[activation], torch.linspace(-8, 8, 160_001, dtype=torch.float64)
    found = slopes_at(Mlp(1, 1, activation=activation).act, grid)
    assert slope.high == pytest.approx(high, abs=5e-11)
    assert slope.low == pytest.approx(1 - high, abs=5e-11)
    assert one_neuron(activation, at) == pytest.approx(slope.high, abs=1e-13)
    assert slope.high - 1e-8 < float(found.max()) <= slope.high + 1e-15
    assert slope.low - 1e-15 <= float(found.min()) < slope.low + 1e-8


def violations(slope: Slope, activation: str, z: float) -> int:
    """How many of the two bounds of x -> act(x) the slope at z exceeds."""
    one = torch.ones(1, 1, dtype=torch.float64)
    return sum(one_neuron(activation, z) > bound(one, one, slope) + 1e-12 for bound in (product_bound, centred_bound))


def test_a_wrong_constant_is_caught():
    assert violations(Slope(0.0, 1.0), "gelu", math.sqrt(2)) == 2
    assert violations(SLOPES["gelu"], "gelu_tanh", 1.4185040) == 2, "the exact GELU's constant is unsound for its tanh form"
    assert violations(SLOPES["gelu"], "gelu", math.sqrt(2)) == violations(SLOPES["gelu_tanh"], "gelu_tanh", 1.4185040) == 0


def test_exact_centred_and_product_are_ordered_and_sound():
    centred, product = [], []
    for seed in range(FIELDS):
        case = random_case(seed)
        block, x = case.field.blocks[0], 3 * case.x
        true, everywhere = mlp_local(block, x[0], None)["F exact per token"], mlp_everywhere(block)
        assert true <= everywhere["F centred"] <= everywhere["F product"] * (1 + 1e-12)
        if seed < DENSE:
            dense = jacobian(lambda t, y, f=case.field: f.mlp_part(y), x, batch_dims=1).dense()[0]
            assert true == pytest.approx(float(torch.linalg.matrix_norm(dense, ord=2)), rel=1e-10, abs=1e-13)
            assert float(torch.linalg.eigvalsh((dense + dense.T) / 2)[-1]) <= everywhere["F logarithmic norm"] + 1e-12
        centred.append(everywhere["F centred"] / true)
        product.append(everywhere["F product"] / true)
    print(quantile_line("centred", centred), quantile_line("product", product), sep="\n")
    assert 1 <= np.median(centred) < np.median(product) < 10


def test_logarithmic_norm_bound_can_be_negative():
    w = torch.eye(3, dtype=torch.float64)
    assert centred_log_norm_bound(w, -w, SLOPES["gelu"]) == pytest.approx(-0.5 + 0.6289041452)
    assert centred_log_norm_bound(w, -w, Slope(0.4, 0.6)) < 0
