import doctest

import numpy as np
import pytest
from scipy import optimize

from shadowprice.errors import InvalidInput
from shadowprice.experiments import always_valid as module
from shadowprice.experiments.always_valid import always_valid

TRIALS = 1200


def test_the_limits_are_those_where_the_mixture_likelihood_ratio_reaches_its_bound() -> None:
    """A normal mixture N(0, ρ²s_1²) of the effect against 0: the interval holds the effects that it does not reject."""
    assert doctest.testmod(module).failed == 0
    value, error, alpha, planned = np.array([0.3, 0.5]), np.array([0.4, 0.25]), 0.05, 10
    found = always_valid(value, error, planned=planned)
    rho = (-2 * np.log(alpha) + np.log(1 - 2 * np.log(alpha))) / planned
    for at in range(2):
        information = 1 / error[at] ** 2
        scale = error[0] ** 2 * rho * information

        def log_ratio(effect: float, at: int = at, information: float = information, scale: float = scale) -> float:
            z = (value[at] - effect) * np.sqrt(information)
            return float(0.5 * z**2 * scale / (1 + scale) - 0.5 * np.log1p(scale) - np.log(1 / alpha))

        low = optimize.brentq(log_ratio, value[at] - 20, value[at])
        assert found.low[at] == pytest.approx(max(low, found.low[0]))


def test_daily_looks_miss_the_effect_in_at_most_five_percent_of_trials() -> None:
    """Accounts return on many days, with an effect of their own; a look after each of 28 days."""
    rng, accounts, days = np.random.default_rng(7), 400, 28
    missed, once, found_by_then = [], [], []
    for _ in range(TRIALS):
        treated = rng.permutation(accounts) < accounts // 2
        own, start = rng.normal(0, 0.7, accounts), rng.integers(0, 14, accounts)
        asks = rng.poisson(0.4, (days, accounts)) * (np.arange(days)[:, None] >= start)
        asks[start, np.arange(accounts)] += 1
        sums = np.cumsum(asks * (own + 0.25 * treated) + np.sqrt(asks) * rng.normal(0, 1, asks.shape), axis=0)
        counts = np.cumsum(asks, axis=0).astype(float)
        value, variance = np.zeros(days), np.zeros(days)
        for sign, arm in ((1, treated), (-1, ~treated)):
            total = counts[:, arm].sum(axis=1)
            mean = sums[:, arm].sum(axis=1) / total
            value += sign * mean
            variance += ((sums[:, arm] - mean[:, None] * counts[:, arm]) ** 2).sum(axis=1) / total**2
        sequence = always_valid(value, np.sqrt(variance))
        missed.append(not sequence.low[-1] <= 0.25 <= sequence.high[-1])
        once.append(bool((np.abs(value - 0.25) > 1.96 * np.sqrt(variance)).any()))
        found_by_then.append(sequence.low[-1] > 0)
    assert np.mean(missed) <= 0.05
    assert np.mean(once) > 0.1
    assert np.mean(found_by_then) > 0.3


def test_an_analysis_without_a_standard_error_leaves_the_interval_as_it_was() -> None:
    found = always_valid([np.nan, 1.0, np.nan], [np.nan, 0.5, 0.0])
    assert found.low[0] == -np.inf
    assert found.low[1] == found.low[2] == always_valid([1.0], [0.5]).low[0]
    with pytest.raises(InvalidInput, match="per analysis"):
        always_valid([1.0], [1.0, 2.0])
    with pytest.raises(InvalidInput, match="planned"):
        always_valid([1.0], [1.0], planned=0)
