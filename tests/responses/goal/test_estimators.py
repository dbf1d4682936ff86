"""Gradient estimators against closed forms, quadrature and each other."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from shadowprice.errors import InvalidInput, NotFound
from shadowprice.responses.goal import estimator_names, make_estimator
from shadowprice.responses.goal.estimator import hard_matched, spread

NAMES = estimator_names()
every = pytest.mark.parametrize("name", NAMES)


def rows(n: int = 200, j: int = 4, seed: int = 0):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(n, j, generator=random), torch.randint(0, j, (n,), generator=random)


def test_the_four_are_registered_and_another_is_refused() -> None:
    assert set(NAMES) == {"nes", "ifd", "softmax", "perturbed"}
    with pytest.raises(NotFound, match="softmax"):
        make_estimator("score")
    with pytest.raises(InvalidInput, match="width"):
        make_estimator("nes", width=0.0)


@pytest.mark.parametrize("gap", [-1.5, -0.3, 0.0, 0.4, 2.0])
@pytest.mark.parametrize("sigma", [0.5, 1.0])
def test_of_two_levels_evolution_strategies_have_the_closed_form(gap: float, sigma: float) -> None:
    """P(s_0 + σe_0 > s_1 + σe_1) = Φ(gap / σ√2); N = 1, over many draws, within four standard errors."""
    want = stats.norm.pdf(gap / (sigma * np.sqrt(2))) / (sigma * np.sqrt(2))
    scores, level = torch.tensor([[gap, 0.0]]), torch.zeros(1, dtype=torch.long)
    found = np.array(
        [
            make_estimator("nes", width=sigma, relative=False, directions=16, seed=seed).gradient(scores, level)[0, 0]
            for seed in range(150)
        ]
    )
    assert abs(found.mean() - want) < 4 * found.std(ddof=1) / np.sqrt(found.size) + 1e-6
    closed = make_estimator("perturbed", width=sigma, relative=False)
    assert float(closed.matched(scores, level)) == pytest.approx(stats.norm.cdf(gap / (sigma * np.sqrt(2))), abs=1e-6)
    assert float(closed.gradient(scores, level)[0, 0]) == pytest.approx(want, abs=1e-6)


def test_of_many_levels_the_perturbed_argmax_is_its_integral() -> None:
    scores, sigma = np.array([0.3, -0.2, 0.5, 0.1]), 0.7
    for t in range(4):
        others = np.delete(scores, t)
        want = integrate.quad(
            lambda u, t=t, others=others: stats.norm.pdf(u) * stats.norm.cdf((scores[t] - others) / sigma + u).prod(),
            -8, 8,
        )[0]  # fmt: skip
        exact = make_estimator("perturbed", width=sigma, relative=False, nodes=40)
        found = exact.matched(torch.tensor(scores)[None], torch.tensor([t]))
        assert float(found) == pytest.approx(want, abs=1e-6)


@pytest.mark.parametrize("name", ["softmax", "perturbed"])
def test_the_gradient_is_that_of_the_smoothed_indicator(name: str) -> None:
    estimator = make_estimator(name, width=0.6, relative=False)
    scores, level = rows(20)
    scores = scores.double()
    gradient = estimator.gradient(scores, level)
    step = 1e-5
    for j in range(4):
        moved = torch.zeros_like(scores)
        moved[:, j] = step
        slope = (estimator.matched(scores + moved, level) - estimator.matched(scores - moved, level)) / (2 * step)
        torch.testing.assert_close(gradient[:, j], slope, atol=1e-5, rtol=1e-4)


def test_evolution_strategies_estimate_the_perturbed_argmax() -> None:
    scores, level = rows(50)
    exact = make_estimator("perturbed", width=0.5, relative=False).gradient(scores, level)
    drawn = make_estimator("nes", width=0.5, relative=False, directions=2000, seed=1).gradient(scores, level)
    assert float((drawn - exact).abs().max()) < 0.08


@pytest.mark.parametrize("name", ["nes", "ifd", "perturbed"])
def test_far_from_every_tie_the_mean_gradient_is_zero(name: str) -> None:
    scores, level = rows()
    far = 100.0 * torch.nn.functional.one_hot(scores.argmax(dim=1), 4).float()
    gradient = make_estimator(name, width=0.5, relative=False).gradient(far, level)
    assert float(gradient.abs().max()) < 1e-6


def test_as_its_temperature_falls_the_softmax_becomes_the_hard_decision() -> None:
    scores, level = rows()
    hard = hard_matched(scores, level)
    errors = [
        float((make_estimator("softmax", width=width, relative=False).matched(scores, level) - hard).abs().mean())
        for width in (1.0, 0.1, 0.01, 1e-4)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-3


def test_the_flip_difference_moves_the_two_levels_that_trade_places() -> None:
    scores = torch.tensor([[1.0, 0.8, 0.0], [1.0, 0.8, 0.0], [1.0, 0.8, 0.0], [1.0, 0.0, -1.0]])
    level = torch.tensor([0, 1, 2, 0])
    found = make_estimator("ifd", width=0.5, relative=False).gradient(scores, level)
    want = torch.tensor([[2.0, -2.0, 0.0], [-2.0, 2.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(found, want)


@every
def test_a_common_shift_of_a_rows_scores_changes_nothing(name: str) -> None:
    scores, level = rows()
    gradient = make_estimator(name).gradient(scores, level)
    assert float(gradient.sum(dim=1).abs().max()) < 1e-5
    torch.testing.assert_close(make_estimator(name).gradient(scores + 3.0, level), gradient, atol=1e-4, rtol=1e-3)


@every
def test_scaling_all_scores_scales_a_relative_gradient_inversely(name: str) -> None:
    scores, level = rows()
    small, large = (make_estimator(name).gradient(factor * scores, level) for factor in (1.0, 8.0))
    torch.testing.assert_close(8.0 * large, small, atol=1e-4, rtol=1e-3)
    assert spread(8.0 * scores) == pytest.approx(8 * spread(scores), rel=1e-5)


def test_credit_by_row_has_far_less_variance_than_credit_by_batch() -> None:
    """The same perturbations, each row credited with its own change or with the whole batch's."""
    scores, level = rows(200, 3)
    gain = torch.randn(200, generator=torch.Generator().manual_seed(9))
    by_row, by_batch = [], []
    random = torch.Generator().manual_seed(4)
    for _ in range(200):
        noise = torch.randn(scores.shape, generator=random)
        change = hard_matched(scores + 0.5 * noise, level) - hard_matched(scores - 0.5 * noise, level)
        by_row.append((gain * change)[:, None] * noise)
        by_batch.append((gain * change).sum() * noise)
    row, batch = torch.stack(by_row), torch.stack(by_batch)
    assert float(batch.var(dim=0).mean()) > 30 * float(row.var(dim=0).mean())
    difference = (row - batch).mean(dim=0) / (batch.std(dim=0) / np.sqrt(200))
    assert float(difference.abs().mean()) < 1.5
