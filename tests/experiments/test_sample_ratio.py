import numpy as np
import pytest
from scipy import stats

from shadowprice.errors import InvalidInput
from shadowprice.experiments.sample_ratio import sample_ratio, sequential_sample_ratio

TRIALS = 2000


def test_the_chi_square_of_three_arms_is_that_of_the_textbook() -> None:
    counts, shares = {"a": 130, "b": 270, "c": 600}, {"a": 1.0, "b": 3.0, "c": 6.0}
    found = sample_ratio(counts, shares)
    statistic = 30**2 / 100 + 30**2 / 300 + 0.0
    assert found.p_value == pytest.approx(stats.chi2.sf(statistic, 2))
    assert found.expected == pytest.approx({"a": 100, "b": 300, "c": 600})
    assert not found.mismatch
    assert sample_ratio({"a": 200, "b": 800}, {"a": 1, "b": 9}).mismatch


def test_units_of_an_arm_that_has_no_share_are_refused() -> None:
    with pytest.raises(InvalidInput, match="share is 0"):
        sample_ratio({"a": 1, "b": 5}, {"a": 0, "b": 1})
    with pytest.raises(InvalidInput, match="have no share"):
        sample_ratio({"x": 1}, {"a": 1, "b": 1})


def test_the_bayes_factor_is_the_ratio_of_the_two_likelihoods() -> None:
    new, share = np.array([[3, 9, 20]]), np.array([0.1, 0.3, 0.6])
    alternative = stats.dirichlet_multinomial(50 * share, 32).pmf(new[0])
    plan = stats.multinomial(32, share).pmf(new[0])
    expected = min(1.0, plan / alternative)
    assert sequential_sample_ratio(new, share, concentration=50)[0] == pytest.approx(expected)


def test_daily_looks_at_the_ratio_raise_few_false_alarms_and_find_lost_rows() -> None:
    rng, share = np.random.default_rng(2), np.array([0.1, 0.2, 0.7])
    days = rng.multinomial(300, share, size=(TRIALS, 28))
    alarms = np.array([sequential_sample_ratio(new, share)[-1] < 0.05 for new in days])
    assert alarms.mean() <= 0.05
    total = np.cumsum(days, axis=1)
    once = stats.chisquare(total, total.sum(axis=2, keepdims=True) * share, axis=2).pvalue
    # A test that is made for one look errs often when it is looked at daily.
    assert (once < 0.05).any(axis=1).mean() > 0.15
    lost = rng.binomial(days, [0.8, 1.0, 1.0])
    assert np.mean([sequential_sample_ratio(new, share)[-1] < 0.05 for new in lost[:300]]) > 0.95
