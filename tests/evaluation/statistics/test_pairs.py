from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from shadowprice.errors import InvalidInput
from shadowprice.evaluation import Interval, metrics, paired_difference, paired_over_seeds


def test_the_paired_interval_is_the_one_of_the_difference_and_narrower_than_unpaired_ones():
    rng = np.random.default_rng(0)
    y = rng.normal(size=500)
    first = y + rng.normal(size=500)
    second = first + 0.1 * rng.normal(size=500)
    found = paired_difference(metrics.mse, y, first, second, interval=Interval(replications=2000))
    direct = stats.bootstrap(
        ((y - first) ** 2 - (y - second) ** 2,),
        np.mean,
        n_resamples=2000,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    assert found.value == pytest.approx(metrics.mse(y, first) - metrics.mse(y, second))
    assert (found.low, found.high) == pytest.approx((direct.low, direct.high), abs=0.004)
    alone = metrics.mse(y, first, interval=Interval(replications=500))
    assert found.high - found.low < 0.5 * (alone.high - alone.low)


def test_a_better_model_is_told_from_a_worse_one_by_auc_and_equal_models_are_not():
    rng = np.random.default_rng(1)
    z = rng.normal(size=4000)
    y = rng.random(4000) < 1 / (1 + np.exp(-z))
    noisy = z + rng.normal(size=4000)
    account = np.arange(4000) // 2
    assert paired_difference(metrics.auc, y, z, noisy, interval=Interval(cluster=account, replications=300)).low > 0
    same = paired_difference(metrics.auc, y, z, z, interval=Interval(cluster=account, replications=100))
    assert (same.value, same.low, same.high) == (0, 0, 0)


def test_the_interval_over_seeds_is_the_one_of_a_paired_t_test():
    rng = np.random.default_rng(2)
    a, b = rng.normal(0.1, 1, 8), rng.normal(0, 1, 8)
    reference = stats.ttest_rel(a, b).confidence_interval()
    found = paired_over_seeds(a, b)
    assert (found.value, found.low, found.high) == pytest.approx((np.mean(a - b), reference.low, reference.high))


def test_one_seed_is_no_sample_of_seeds():
    with pytest.raises(InvalidInput, match="two seeds"):
        paired_over_seeds([0.9], [0.8])
