"""Means by level against Welch's test and weighted least squares with cluster-robust errors."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from shadowprice.evaluation.statistics.level_means import LevelMeans

STEP = np.array([-1.0, 0.0, 1.0])


@pytest.fixture
def rows() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    size = 4000
    account, level = rng.integers(0, 600, size), rng.integers(0, 3, size)
    of_account = rng.normal(size=600)
    return {
        "level": level,
        "account": account,
        "partner": account % 40,
        "weight": rng.uniform(0.5, 3.0, size),
        "y": of_account[account] + 0.1 * level + rng.normal(size=size),
    }


def test_the_difference_of_two_levels_is_welchs_test(rows: dict[str, np.ndarray]) -> None:
    means = LevelMeans(rows["level"], 3).of(rows["y"])
    welch = stats.ttest_ind(rows["y"][rows["level"] == 2], rows["y"][rows["level"] == 0], equal_var=False)
    step = means.contrast(STEP)
    found, interval = means.estimate(step), welch.confidence_interval()
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert means.p_value(step) == pytest.approx(welch.pvalue, rel=1e-9)
    assert means.degrees(step) == pytest.approx(welch.df)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_error_by_account_is_that_of_least_squares_with_clusters(
    rows: dict[str, np.ndarray], weighted: bool
) -> None:
    weight = rows["weight"] if weighted else None
    means = LevelMeans(rows["level"], 3, weight=weight, account=rows["account"]).of(rows["y"])
    fit = sm.WLS(rows["y"], np.eye(3)[rows["level"]], weights=1.0 if weight is None else weight)
    fit = fit.fit(cov_type="cluster", cov_kwds={"groups": rows["account"]})
    expected = float(np.sqrt(STEP @ fit.cov_params() @ STEP))
    step = means.contrast(STEP)
    assert means.at(step) == pytest.approx(float(STEP @ fit.params))
    assert np.sqrt(means.variance(step)) == pytest.approx(expected, rel=0.005)


def test_crossed_accounts_and_partners_add_up_as_in_least_squares_with_two_ways() -> None:
    rng = np.random.default_rng(1)
    size = 6000
    account, partner, level = rng.integers(0, 400, size), rng.integers(0, 60, size), rng.integers(0, 3, size)
    steps = rng.normal(scale=0.5, size=(60, 3))
    y = rng.normal(size=400)[account] + steps[partner, level] + rng.normal(size=size)
    means = LevelMeans(level, 3, account=account, partner=partner).of(y)
    fit = sm.OLS(y, np.eye(3)[level]).fit(
        cov_type="cluster", cov_kwds={"groups": np.column_stack([account, partner]), "use_correction": True}
    )
    expected = float(np.sqrt(STEP @ fit.cov_params() @ STEP))
    assert np.sqrt(means.variance(means.contrast(STEP))) == pytest.approx(expected, rel=0.03)
    assert means.clusters == 60
    assert means.degrees(means.contrast(STEP)) <= 59


def test_means_of_two_measures_have_the_covariance_of_their_clusters(rows: dict[str, np.ndarray]) -> None:
    money = 250.0 * rows["y"] + np.random.default_rng(2).normal(size=rows["y"].size)
    means = LevelMeans(rows["level"], 3, account=rows["account"]).of(rows["y"], money)
    one, other = means.contrast(STEP), means.contrast(STEP, 1)
    correlation = means.covariance(one, other) / np.sqrt(means.variance(one) * means.variance(other))
    assert correlation == pytest.approx(1.0, abs=1e-3)
    assert means.covariance(one, means.contrast([1.0, 0.0, 0.0])) < 0


def test_a_level_where_nobody_responded_still_has_an_error() -> None:
    level = np.repeat([0, 1], 500)
    y = np.r_[np.zeros(500), np.ones(5), np.zeros(495)]
    means = LevelMeans(level, 2).of(y)
    step = means.contrast([-1.0, 1.0])
    # Fisher's exact test is above 5 % too, while the plain error of the rows is 2.2 of its own units away from 0.
    assert stats.fisher_exact([[0, 500], [5, 495]]).pvalue > 0.05
    assert means.p_value(step) > 0.05


def test_one_cluster_at_a_level_leaves_its_error_unknown() -> None:
    means = LevelMeans([0, 0, 0, 1, 1], 2, account=["a", "b", "c", "d", "d"]).of([0.0, 1.0, 0.5, 1.0, 0.0])
    assert np.isnan(means.variance(means.contrast([-1.0, 1.0])))
    assert means.groups.tolist() == [3, 1]
