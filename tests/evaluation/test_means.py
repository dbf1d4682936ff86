from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from shadowprice.evaluation.means import mean, wilson


@pytest.mark.parametrize(("responders", "rows"), [(0, 10), (3, 10), (10, 10), (137, 4000)])
def test_the_interval_of_a_rate_agrees_with_statsmodels_wilson(responders, rows):
    y = np.r_[np.ones(responders), np.zeros(rows - responders)]
    low, high = proportion_confint(responders, rows, method="wilson")
    found = mean(y)
    assert (found.value, found.low, found.high) == pytest.approx((responders / rows, low, high), abs=1e-12)


def test_the_interval_of_a_quantity_is_students():
    y = np.random.default_rng(0).lognormal(0, 1, 40)
    low, high = stats.t.interval(0.95, 39, y.mean(), stats.sem(y))
    found = mean(y)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_repeating_every_row_of_an_account_leaves_its_interval_unchanged():
    rng = np.random.default_rng(1)
    for y in (rng.integers(0, 2, 200), rng.random(200)):
        once = mean(y, cluster=np.arange(200))
        thrice = mean(np.repeat(y, 3), cluster=np.repeat(np.arange(200), 3))
        assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high), rel=1e-9)


def test_weights_widen_the_interval_by_their_effective_sample_size():
    y = np.tile([0, 1], 100)
    weight = np.repeat([1.0, 3.0], 100)
    effective = weight.sum() ** 2 / (weight**2).sum()
    expected = wilson(0.5, effective)
    found = mean(y, weight)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_the_mean_of_a_quantity_seen_once_has_no_interval():
    found = mean([1.3])
    assert found.value == 1.3
    assert np.isnan(found.low)
