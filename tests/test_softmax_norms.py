"""The norm of diag(p) - p p^T: closed forms, the eigenvalue chain of theory section 2.1, and what is false."""

import pytest
import torch

from analysis.lipschitz.softmax_norms import softmax_gap, softmax_inf_norm, softmax_lower, softmax_norm, softmax_upper


def rows(p) -> torch.Tensor:
    return torch.tensor(p, dtype=torch.float64)


def draws(count: int, n: int, seed: int) -> torch.Tensor:
    """Probabilities from flat to nearly one-hot, some with zeros and ties."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(count, n, generator=generator, dtype=torch.float64)
    logits *= 10 * torch.rand(count, 1, generator=generator, dtype=torch.float64)
    logits[: count // 8] = logits[: count // 8].round()
    if n > 1:
        logits[count // 8 : count // 4, -1] = -torch.inf
    return logits.softmax(-1)


def jacobian_of(p: torch.Tensor) -> torch.Tensor:
    return torch.diag_embed(p) - p[..., :, None] * p[..., None, :]


@pytest.mark.parametrize(
    ("p", "norm"),
    [
        ([0.2] * 5, 0.2),
        ([0.7, 0.3], 0.42),
        ([0.5, 0.5, 0.0, 0.0], 0.5),
        ([1.0, 0.0, 0.0], 0.0),
        ([0.4, 0.2, 0.2, 0.2], 0.32),
        ([0.5, 0.3, 0.15, 0.05], 0.3846262),
        ([1.0], 0.0),
    ],
)
def test_norm_has_its_closed_values(p, norm):
    assert float(softmax_norm(rows(p))) == pytest.approx(norm, abs=5e-8)


def test_gap_is_the_norm_iff_the_smaller_entries_are_equal():
    p = rows([[0.4, 0.2, 0.2, 0.2], [0.7, 0.3, 0.0, 0.0], [0.5, 0.3, 0.15, 0.05]])
    assert (softmax_gap(p) - softmax_norm(p)).tolist() == pytest.approx([0, 0, 0.4 - 0.3846262], abs=5e-8)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 20])
def test_eigenvalues_lie_between_the_next_probability_and_the_gap(n):
    p = draws(1000, n, n)
    values = torch.linalg.eigvalsh(jacobian_of(p)).flip(-1)
    ordered = p.sort(-1, descending=True).values
    for k in range(1, n + 1):
        gap, following = softmax_gap(p, k), ordered[:, k] if k < n else 0 * p[:, 0]
        assert bool((following <= values[:, k - 1] + 1e-15).all())
        assert bool((values[:, k - 1] <= gap + 1e-15).all())
        assert bool((gap <= ordered[:, k - 1] + 1e-15).all())
    assert float((softmax_norm(p) - values[:, 0]).abs().max()) < 2e-15
    assert bool((softmax_lower(p) <= values[:, 0] + 1e-15).all())
    assert bool((values[:, 0] <= softmax_upper(p) + 1e-15).all())


def test_half_the_entropy_is_not_an_upper_bound():
    p = draws(2000, 6, 3)
    entropy = -torch.xlogy(p, p).sum(-1)
    assert bool((softmax_norm(p) <= entropy.clamp_max(0.5) + 1e-15).all())
    assert bool((softmax_norm(p) > entropy / 2).any())


def test_infinity_norm_is_the_largest_row_sum():
    p = draws(200, 5, 1)
    assert torch.allclose(softmax_inf_norm(p), jacobian_of(p).abs().sum(-1).amax(-1), atol=1e-16)
    assert float(softmax_inf_norm(p).max()) <= 0.5
