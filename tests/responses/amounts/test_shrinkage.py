"""Penalties of most evidence, and the layer of amounts that is fitted by them."""

import numpy as np
import pytest
import statsmodels.api as sm
import torch
from scipy import optimize, stats

from shadowprice.responses.amounts.layer import AmountLayer
from shadowprice.responses.amounts.shrinkage import shrunk
from shadowprice.responses.layers.heads import AmountHead

LEVELS = np.array([0, 40, 80, 120])


def test_the_penalties_are_those_of_most_restricted_likelihood() -> None:
    """By a search over the likelihood of y with the coefficients integrated out, and no formula of the ridge."""
    rng, n = np.random.default_rng(3), 80
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 7))])
    groups = [np.arange(1, 5), np.arange(5, 8)]
    y = x @ np.array([2.0, *rng.normal(0, 0.5, 4), *rng.normal(0, 0.2, 3)]) + 0.7 * rng.normal(size=n)

    def parts(log: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        spread = np.exp(log)
        total = spread[-1] * np.eye(n)
        for group, own in zip(groups, spread, strict=False):
            total = total + own * x[:, group] @ x[:, group].T
        return total, spread

    def loss(log: np.ndarray) -> float:
        total, free = parts(log)[0], x[:, :1]
        solved = np.linalg.solve(total, np.column_stack([free, y]))
        mean = (free.T @ solved[:, 1]) / (free.T @ solved[:, 0])
        rest = y - free[:, 0] * mean
        inner = np.linalg.slogdet(free.T @ solved[:, :1])[1]
        return float(np.linalg.slogdet(total)[1] + inner + rest @ np.linalg.solve(total, rest))

    best = optimize.minimize(loss, np.log([0.2, 0.1, 0.5]), method="Nelder-Mead", options={"maxiter": 2000})
    total, spread = parts(best.x)
    solved = np.linalg.solve(total, np.ones(n))
    mean = float(solved @ y / solved.sum())
    found, variance = shrunk(x.T @ x, x.T @ y, float(y @ y), n, groups)
    assert found[0] == pytest.approx(mean, abs=0.005)
    for group, own in zip(groups, spread, strict=False):
        expected = own * x[:, group].T @ np.linalg.solve(total, y - mean)
        np.testing.assert_allclose(found[group], expected, atol=0.01)
    assert variance == pytest.approx(spread[-1], rel=0.03)


def test_a_group_without_effect_vanishes_and_the_rest_is_least_squares() -> None:
    rng, n = np.random.default_rng(5), 20_000
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 6))])
    y = x[:, :4] @ [3.0, 1.0, -1.0, 0.5] + rng.normal(size=n)
    found, variance = shrunk(x.T @ x, x.T @ y, float(y @ y), n, [np.arange(1, 4), np.arange(4, 7)])
    least = sm.OLS(y, x[:, :4]).fit()
    np.testing.assert_allclose(found[:4], least.params, atol=0.002)
    assert np.abs(found[4:]).max() < 0.3 * np.abs(sm.OLS(y, x).fit().params[4:]).max()
    assert variance == pytest.approx(least.mse_resid, rel=1e-3)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_layer_that_is_fitted_anew_finds_the_law_that_drew_the_amounts(ordered: bool) -> None:
    """Rows whose embedding is known: an effect of each account, and one that changes over the levels."""
    rng, n, width = np.random.default_rng(7), 30_000, 6
    layer = AmountLayer(width, LEVELS, "ziln", ordered=ordered)
    embedding = rng.normal(1.0, 1.0, (n, width))
    level = rng.integers(0, 4, n)
    change = np.linspace(0.0, -0.6, 4)[:, None] * np.array([0.0, 1.0, 0.0, 0.0, 0.5, 0.0])
    mean = 7.0 + embedding @ np.array([0.4, 0.0, -0.3, 0.0, 0.0, 0.2]) - 0.1 * level
    amount = np.exp(mean + (change[level] * embedding).sum(axis=1) + rng.normal(size=n))
    layer.start(amount, np.ones(n))
    parts = (torch.tensor(each, dtype=torch.float32) for each in (embedding, amount, np.ones(n)))
    z, paid, weight = parts
    layer.refit(z, torch.tensor(level), paid, weight)
    head = AmountHead(levels=LEVELS, **layer.head_weights())
    laws = head.amounts(z[:500].numpy())
    assert laws is not None
    expected = 7.0 + embedding[:500] @ np.array([0.4, 0.0, -0.3, 0.0, 0.0, 0.2]) + change @ embedding[:500].T
    expected -= 0.1 * np.arange(4)[:, None]
    assert np.abs(laws[0] - expected).mean() < 0.03
    assert stats.linregress(expected.ravel(), laws[0].ravel()).slope == pytest.approx(1.0, abs=0.03)
