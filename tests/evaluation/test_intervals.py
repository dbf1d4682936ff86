from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from shadowprice.errors import InvalidInput
from shadowprice.evaluation import Interval, metrics
from shadowprice.evaluation.intervals import resamples


def test_the_interval_of_independent_rows_agrees_with_scipys_bootstrap():
    rng = np.random.default_rng(0)
    y, p = rng.normal(size=400), rng.normal(size=400)
    found = metrics.mse(y, p, interval=Interval(replications=4000))
    reference = stats.bootstrap(
        ((y - p) ** 2,), np.mean, n_resamples=4000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    assert found.low == pytest.approx(reference.low, rel=0.02)
    assert found.high == pytest.approx(reference.high, rel=0.02)


def test_intervals_by_account_cover_the_truth_where_intervals_by_row_do_not():
    covered = {"account": 0, "row": 0}
    account = np.repeat(np.arange(60), 8)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        error = rng.normal(size=60)[account] + 0.3 * rng.normal(size=account.size)
        truth = 1 + 0.3**2
        for name, cluster in (("account", account), ("row", None)):
            found = metrics.mse(error, np.zeros_like(error), interval=Interval(replications=200, cluster=cluster))
            covered[name] += found.low <= truth <= found.high
    # A percentile bootstrap over 60 skewed accounts covers a little less than it says.
    assert 0.87 * 200 <= covered["account"] <= 0.98 * 200
    assert covered["row"] < 0.75 * 200


def test_a_resample_draws_whole_accounts_and_as_many_as_there_are():
    account = np.array(["a", "b", "b", "c", "a", "d"])
    counts = np.concatenate(list(resamples(6, Interval(replications=500, cluster=account, seed=3))))
    assert counts.shape == (500, 6)
    assert np.array_equal(counts[:, 0], counts[:, 4])
    assert np.array_equal(counts[:, 1], counts[:, 2])
    assert np.all(counts[:, [0, 1, 3, 5]].sum(axis=1) == 4)
    assert counts[:, 0].mean() == pytest.approx(1, abs=0.15)


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    y, p = [0, 1, 0, 1, 1], [0.2, 0.4, 0.4, 0.9, 0.3]
    first, again, other = (metrics.brier(y, p, interval=Interval(seed=seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_undefined_replicates_are_left_out_of_an_interval():
    found = metrics.auc([0, 0, 0, 1], [0.1, 0.3, 0.2, 0.9], interval=Interval(replications=300))
    assert (found.low, found.high) == (1.0, 1.0)


def test_the_chunks_of_a_large_bootstrap_are_no_larger_than_the_memory_they_may_use(monkeypatch):
    monkeypatch.setattr("shadowprice.evaluation.intervals.CELLS_AT_ONCE", 1000)
    shapes = [counts.shape for counts in resamples(300, Interval(replications=10))]
    assert shapes == [(3, 300)] * 3 + [(1, 300)]


@pytest.mark.parametrize(
    "cluster", [["a", "a", "a"], ["a", None, "b"], ["a", "b"], [0.5, 1.5, 2.5], [["a"], ["b"], ["c"]]]
)
def test_accounts_that_are_one_or_missing_or_misshaped_are_refused(cluster):
    with pytest.raises(InvalidInput, match=r"interval\.cluster"):
        metrics.mse([1, 2, 3], [1, 2, 4], interval=Interval(cluster=np.array(cluster)))


@pytest.mark.parametrize("options", [{"level": 1.0}, {"replications": 0}])
def test_an_impossible_interval_is_refused(options):
    with pytest.raises(InvalidInput, match="interval"):
        Interval(**options)
