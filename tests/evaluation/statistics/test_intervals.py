import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from shadowprice.errors import InvalidInput
from shadowprice.evaluation import Interval, metrics
from shadowprice.evaluation.statistics.clusters import Clusters
from shadowprice.evaluation.statistics.intervals import resamples


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
    account = Clusters(np.array([0, 1, 1, 2, 0, 3]), 4)
    counts = np.concatenate(list(resamples(account, Interval(replications=500, seed=3))))
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
    monkeypatch.setattr("shadowprice.evaluation.statistics.intervals.CELLS_AT_ONCE", 1000)
    shapes = [counts.shape for counts in resamples(Clusters(np.arange(300), 300), Interval(replications=10))]
    assert shapes == [(3, 300)] * 3 + [(1, 300)]


def shared_partners(seed: int, accounts: int = 500, partners: int = 60) -> tuple[np.ndarray, ...]:
    """Two rows per account, each with a partner drawn at random; effects of both and noise, with mean 0."""
    rng = np.random.default_rng(seed)
    account = np.repeat(np.arange(accounts), 2)
    partner = rng.integers(0, partners, account.size)
    y = rng.normal(0, 1, accounts)[account] + rng.normal(0, 0.5, partners)[partner] + rng.normal(0, 1, account.size)
    return y, account, partner


def test_two_way_intervals_cover_the_truth_where_rows_of_one_partner_are_dependent_and_one_way_intervals_do_not():
    covered = {"one": 0, "two": 0}
    for seed in range(400):
        y, account, partner = shared_partners(seed)
        same = (y, np.ones(y.size), np.ones(y.size))
        # A hundred trials tell a coverage of a half from 85 %.
        for name, second in (("one", None), ("two", partner)) if seed < 100 else (("two", partner),):
            how = Interval(replications=250, cluster=account, partner=second, seed=seed)
            found = metrics.ips_value(*same, interval=how)
            covered[name] += found.low <= 0 <= found.high
    assert covered["one"] < 0.85 * 100
    assert 0.93 * 400 <= covered["two"] <= 0.97 * 400, covered


def test_the_two_way_bootstrap_has_the_width_of_statsmodels_two_way_clustered_errors():
    y, account, partner = shared_partners(1, accounts=3000, partners=300)
    groups = np.column_stack([account, partner])
    reference = sm.OLS(y, np.ones(y.size)).fit(cov_type="cluster", cov_kwds={"groups": groups})
    how = Interval(replications=3000, cluster=account, partner=partner)
    found = metrics.ips_value(y, np.ones(y.size), np.ones(y.size), interval=how)
    assert found.high - found.low == pytest.approx(2 * 1.96 * float(reference.bse[0]), rel=0.06)


def test_partners_that_share_nothing_hardly_widen_an_interval():
    rng = np.random.default_rng(0)
    account, partner = np.repeat(np.arange(500), 2), rng.integers(0, 60, 1000)
    ratio = []
    for seed in range(40):
        y = np.random.default_rng(seed).normal(size=1000)
        one, two = (
            metrics.mae(y, np.zeros(1000), interval=Interval(replications=400, cluster=account, partner=second))
            for second in (None, partner)
        )
        ratio.append((two.high - two.low) / (one.high - one.low))
    # A product of both draws' counts would triple the variance: a ratio of 1.7.
    assert 1.0 <= np.mean(ratio) < 1.15


def test_where_accounts_lie_within_partners_the_partners_alone_are_drawn():
    rng = np.random.default_rng(2)
    account = np.repeat(np.arange(90), 3)
    y, p = rng.normal(size=270), rng.normal(size=270)
    nested = metrics.mse(y, p, interval=Interval(cluster=account, partner=account // 5))
    assert nested == metrics.mse(y, p, interval=Interval(cluster=account // 5))
    own = metrics.mse(y, p, interval=Interval(cluster=account, partner=np.arange(270)))
    assert own == metrics.mse(y, p, interval=Interval(cluster=account))


def test_one_partner_for_all_or_a_missing_one_is_refused():
    for partner in (["m", "m", "m"], ["m", None, "n"], ["m", "n"]):
        with pytest.raises(InvalidInput, match=r"interval\.partner"):
            metrics.mse([1, 2, 3], [1, 2, 4], interval=Interval(partner=np.array(partner)))


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
