"""The four rates against closed forms, LAPACK and their own order."""

import numpy as np
import pytest
import torch
from problems import TRANSIENT_MU, random_case, rotation, spread, transient

from analysis.references import dense_abscissa, dense_jacobian, dense_logarithmic_norm
from analysis.spectra import growth_rates
from odevit.errors import NonFiniteError

ORIGIN = torch.zeros(2, dtype=torch.float64)


def test_a_normal_matrix_has_no_gap():
    found = growth_rates(rotation(-0.1, 2.0), ORIGIN, 0.5)
    assert found.logarithmic_norm == pytest.approx(-0.1) and found.abscissa == pytest.approx(-0.1)
    assert found.contraction == pytest.approx(-0.1) and found.norm == pytest.approx(4.01**0.5)
    assert found.dense and found.remark == "" and found.t == 0.5


def test_transient_growth_is_seen_by_mu_and_not_by_the_eigenvalues():
    found = growth_rates(transient(), ORIGIN)
    assert found.abscissa == pytest.approx(-1.0) and found.logarithmic_norm == pytest.approx(TRANSIENT_MU)
    assert found.contraction == pytest.approx((-3 - 101**0.5) / 2)


def test_above_the_dense_limit_the_residuals_say_how_far():
    f, values = spread(600)
    found = growth_rates(f, torch.zeros(600, dtype=torch.float64), tolerance=1e-5)
    matrix = f.matrix.numpy()
    assert not found.dense and (found.residuals <= 2e-5 * found.norm).all() and (found.residuals > 0).all()
    assert found.norm == pytest.approx(np.linalg.norm(matrix, 2), rel=1e-6)
    assert found.contraction == pytest.approx(-dense_logarithmic_norm(-torch.as_tensor(matrix)), rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_rates_are_in_order_on_random_fields(seed):
    case = random_case(seed)
    found = growth_rates(case.field, case.x, batch_dims=1)
    matrix = dense_jacobian(case.field, case.x)
    expected = [-dense_logarithmic_norm(-matrix), dense_logarithmic_norm(matrix), np.linalg.norm(matrix, 2)]
    rates = [found.contraction[0], found.logarithmic_norm[0], found.norm[0]]
    assert np.allclose(rates, expected) and found.residuals.shape == (1, 4)
    assert rates[0] - 1e-9 <= found.abscissa[0] <= dense_abscissa(matrix) + 1e-9 <= rates[1] + 1e-8 <= rates[2] + 2e-8


def test_a_broken_field_is_named():
    with pytest.raises(NonFiniteError):
        growth_rates(lambda t, x: x * float("nan"), ORIGIN)
