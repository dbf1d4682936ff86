import numpy as np
import pytest
from scipy import stats

from shadowprice.errors import InvalidInput
from shadowprice.evaluation import Interval, metrics
from shadowprice.evaluation.prediction.calibration import calibration_table, equal_bins, worst_bin


def slow_ece(y, p, groups):
    total = 0.0
    for g in set(groups.tolist()):
        inside = groups == g
        total += inside.mean() * abs(p[inside].mean() - y[inside].mean())
    return total


def test_ece_agrees_with_a_loop_over_groups_and_bins():
    rng = np.random.default_rng(0)
    p = rng.random(1000)
    y = rng.random(1000) < p**2
    groups = rng.integers(0, 7, 1000)
    assert metrics.ece(y, p, groups=groups) == pytest.approx(slow_ece(y, p, groups), rel=1e-12)
    order = np.argsort(p)
    tenths = np.empty(1000, dtype=int)
    tenths[order] = np.arange(1000) // 100
    assert metrics.ece(y, p) == pytest.approx(slow_ece(y, p, tenths), rel=1e-12)


def test_the_interval_of_ece_covers_a_planted_error_and_nears_zero_without_one():
    covered, lows = 0, []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p = rng.uniform(0.1, 0.9, 2000)
        y = rng.random(2000) < p
        shifted = metrics.ece(y, p - 0.06, interval=Interval(replications=200))
        calibrated = metrics.ece(y, p, interval=Interval(replications=200))
        covered += shifted.low <= 0.06 <= shifted.high
        lows.append(calibrated.low / calibrated.value)
    assert covered >= 0.88 * 60
    assert np.mean(lows) < 0.3


def test_equal_bins_are_equally_filled_and_keep_equal_predictions_together():
    p = np.random.default_rng(2).random(1000)
    assert np.bincount(equal_bins(p, 10)).tolist() == [100] * 10
    tied = np.repeat([0.1, 0.1, 0.1, 0.7], 25)
    bins = equal_bins(tied, 10)
    assert len(set(zip(tied, bins, strict=True))) == 2
    assert bins.min() == 0


def test_the_calibration_table_holds_the_plain_means_of_each_group():
    rng = np.random.default_rng(3)
    y, p, groups = rng.integers(0, 2, 300), rng.random(300), rng.integers(0, 3, 300)
    table = calibration_table(y, p, groups, size=4)
    for g in range(3):
        assert table.predicted[g] == pytest.approx(p[groups == g].mean())
        assert table.observed[g] == pytest.approx(y[groups == g].mean())
        assert table.low[g] < table.observed[g] < table.high[g]
    assert table.rows.tolist() == [*np.bincount(groups), 0]
    assert np.isnan(table.predicted[3])
    assert table.ece == pytest.approx(slow_ece(y, p, groups))


def test_negative_groups_are_refused_with_their_rows():
    with pytest.raises(InvalidInput, match=r"groups.*first rows: 1"):
        metrics.ece([0, 1], [0.1, 0.2], groups=np.array([0, -1]))


def test_the_furthest_range_is_outside_its_interval_in_at_most_5_percent_of_calibrated_samples() -> None:
    rng, outside = np.random.default_rng(0), 0
    for _ in range(300):
        p = rng.beta(1, 6, 1500)
        outside += worst_bin((rng.random(p.size) < p).astype(float), p).distance > 0
    assert outside <= stats.binom.ppf(0.999, 300, 0.05)


def test_rows_of_one_account_do_not_count_as_independent_in_the_furthest_range() -> None:
    rng = np.random.default_rng(1)
    account = np.repeat(np.arange(300), 20)
    own = np.repeat(rng.random(300) < 0.3, 20)
    p = np.repeat(rng.uniform(0.25, 0.35, 300), 20)
    alone, together = (
        worst_bin(own.astype(float), p),
        worst_bin(own.astype(float), p, interval=Interval(cluster=account)),
    )
    assert alone.distance > 0
    assert together.distance == 0
