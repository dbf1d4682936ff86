import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from shadowprice.evaluation.statistics.means import mean, wilson


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


def crossed_effects(seed: int, binary: bool = False) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    account, partner = rng.integers(0, 150, 600), rng.integers(0, 40, 600)
    y = rng.normal(size=150)[account] + rng.normal(size=40)[partner] + rng.normal(size=600)
    return (y > 0).astype(float) if binary else y, account, partner


def test_the_interval_of_a_quantity_in_two_ways_of_clusters_agrees_with_statsmodels():
    y, account, partner = crossed_effects(2)
    weight = np.random.default_rng(3).uniform(0.5, 2, 600)
    for weights in (None, weight):
        model = sm.OLS(y, np.ones(600)) if weights is None else sm.WLS(y, np.ones(600), weights)
        fitted = model.fit(
            cov_type="cluster", cov_kwds={"groups": np.column_stack([account, partner])}, use_t=True
        )  # fmt: skip
        low, high = fitted.conf_int()[0]
        found = mean(y, weights, account, partner=partner)
        assert (found.value, found.low, found.high) == pytest.approx((fitted.params[0], low, high), rel=1e-6)
        assert found.high - found.low > mean(y, weights, account).high - mean(y, weights, account).low


def test_a_rate_of_partners_that_differ_is_less_certain_than_accounts_alone_say():
    y, account, partner = crossed_effects(4, binary=True)
    one, two = mean(y, cluster=account), mean(y, cluster=account, partner=partner)
    variance = [float(sm.OLS(y, np.ones(600)).fit(
        cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False}).cov_params()[0, 0])
        for groups in (account, partner, account * 40 + partner)]  # fmt: skip
    effective = y.mean() * (1 - y.mean()) / (variance[0] + variance[1] - variance[2])
    expected = wilson(float(y.mean()), effective)
    assert (two.low, two.high) == pytest.approx((expected.low, expected.high), rel=1e-9)
    assert two.high - two.low > 1.5 * (one.high - one.low)


def test_a_mean_over_a_single_partner_has_no_interval():
    found = mean([1.0, 2.0, 4.0], cluster=["a", "b", "c"], partner=["m", "m", "m"])
    assert np.isnan(found.low)
