"""Standard errors against a regression of statsmodels, closed forms, and coverage in simulated trials."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.clusters import Clusters, partitions
from shadowprice.experiments.effects import Contrast, TwoArms, with_missing
from shadowprice.experiments.prediction import predicted

TRIALS = 2000
COVERED = (0.93, 0.97)


def rows(seed: int, units: int = 60, partners: int = 17) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(units), rng.integers(1, 9, units))
    partner = rng.integers(0, partners, unit.size)
    treated = rng.random(units) < 0.4
    y = rng.normal(0, 1, units)[unit] + rng.normal(0, 1, partners)[partner] + rng.normal(0, 1, unit.size)
    return treated[unit], unit, partner, y


def regression(treated: np.ndarray, y: np.ndarray, *groups: np.ndarray) -> tuple[float, float]:
    """Coefficient of the arm and its cluster-robust standard error."""
    ids = groups[0] if len(groups) == 1 else np.stack(groups, axis=1)
    fit = sm.OLS(y, sm.add_constant(treated.astype(float))).fit(cov_type="cluster", cov_kwds={"groups": ids})
    return float(fit.params[1]), float(fit.bse[1])


@pytest.mark.parametrize("seed", range(5))
def test_the_standard_error_is_that_of_a_regression_with_clusters(seed: int) -> None:
    treated, unit, partner, y = rows(seed)
    small = np.sqrt((y.size - 1) / (y.size - 2))
    by_unit, by_partner, by_both = (regression(treated, y, *ids) for ids in ((unit,), (partner,), (unit, partner)))
    for partners, expected in ((None, by_unit[1]), (partner, max(by_unit[1], by_partner[1], by_both[1]))):
        two = TwoArms.of(treated, unit, partners)
        found = two.effect(two.difference(y))
        assert found.value == pytest.approx(by_unit[0])
        assert found.error * small == pytest.approx(expected)


def test_one_row_for_each_unit_gives_the_difference_of_two_means() -> None:
    rng = np.random.default_rng(0)
    y, treated = rng.exponential(size=200), np.arange(200) < 80
    two = TwoArms.of(treated, np.arange(200), level=0.9)
    found = two.effect(two.difference(y))
    variance = y[:80].var() / 80 + y[80:].var() / 120
    assert found.error == pytest.approx(np.sqrt(variance * 200 / 199))
    assert found.high - found.value == pytest.approx(stats.t.ppf(0.95, 79) * found.error)
    assert found.p_value == pytest.approx(2 * stats.t.sf(abs(found.value / found.error), 79))


def test_the_ratio_of_two_means_has_the_variance_of_the_delta_method() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.multivariate_normal([3.0, 5.0], [[1.0, 0.6], [0.6, 2.0]], 500).T
    influence = [Contrast(float(each.mean()), (each - each.mean()) / each.size) for each in (a, b)]
    ratio = influence[0].over(influence[1])
    covariance = np.cov(a, b, ddof=0) / a.size
    gradient = np.array([1 / b.mean(), -a.mean() / b.mean() ** 2])
    assert ratio.value == pytest.approx(a.mean() / b.mean())
    assert ratio.influence @ ratio.influence == pytest.approx(gradient @ covariance @ gradient)
    assert np.isnan(influence[0].over(Contrast(0.0, influence[1].influence)).value)


def test_a_covariate_is_used_with_the_multiple_that_a_regression_finds() -> None:
    rng = np.random.default_rng(2)
    x, treated = rng.normal(size=400), np.arange(400) < 200
    y = 2 * x + 0.5 * treated + rng.normal(size=400)
    two = TwoArms.of(treated, np.arange(400))
    found, plain = (two.effect(two.difference(y, each)) for each in (x[None], None))
    fit = sm.OLS(y, np.stack([np.ones(400), treated, x], axis=1)).fit()
    assert found.value == pytest.approx(fit.params[1])
    assert found.error == pytest.approx(fit.HC0_se[1], rel=0.02)
    assert found.error < 0.5 * plain.error


def test_missing_covariates_become_the_mean_with_an_indicator() -> None:
    found = with_missing([[1.0, np.nan, 3.0], [1.0, 2.0, 3.0], [np.nan] * 3])
    assert found.tolist() == [[1.0, 2.0, 3.0], [0.0, 1.0, 0.0], [1.0, 2.0, 3.0]]


def test_a_prediction_never_comes_from_the_units_own_rows() -> None:
    rng = np.random.default_rng(3)
    unit, x = np.repeat(np.arange(50), 4), rng.normal(size=(2, 200))
    y = x[0] + 0.3 * x[1] ** 2 + rng.normal(size=200)
    found = predicted(y, x, unit)
    assert np.corrcoef(found, y)[0, 1] > 0.5
    changed = predicted(np.where(unit == 7, 1e6, y), x, unit)
    assert changed[unit == 7] == pytest.approx(found[unit == 7])
    assert not np.allclose(changed, found)


def test_one_arm_or_too_many_covariates_are_refused() -> None:
    with pytest.raises(InvalidInput, match="both arms"):
        TwoArms.of([True, True], [1, 2])
    two = TwoArms.of([True, False, True, False], [1, 2, 3, 4])
    with pytest.raises(InvalidInput, match="a tenth"):
        two.difference([1.0, 2.0, 3.0, 4.0], np.ones((1, 4)))
    alone = TwoArms.of([True, False], [1, 2])
    assert np.isnan(alone.effect(alone.difference([1.0, 2.0])).low)


def covered(limits: list[tuple[float, float]], truth: float) -> float:
    low, high = np.array(limits).T
    return float(np.mean((low <= truth) & (truth <= high)))


def test_intervals_cover_the_effect_when_the_rows_of_an_account_depend_on_each_other() -> None:
    """Accounts that ask more often respond more, so that a mean per request is a ratio of two random sums."""
    rng, units = np.random.default_rng(4), 200
    limits, plain, per_money = [], [], []
    for _ in range(TRIALS):
        asks = rng.integers(1, 7, units)
        unit = np.repeat(np.arange(units), asks)
        own = rng.normal(0, 1, units) + 0.3 * (asks - 3.5)
        treated = rng.random(units) < 0.5
        y = own[unit] + rng.normal(0, 1, unit.size) + 0.4 * treated[unit]
        cost = treated[unit] * (2.0 + 0.5 * rng.normal(0, 1, units)[unit])
        two = TwoArms(treated[unit], (Clusters(unit, units),))
        value = two.difference(y)
        found, money = two.effect(value), two.effect(value.over(two.difference(cost)))
        limits.append((found.low, found.high))
        per_money.append((money.low, money.high))
        rowwise = TwoArms(treated[unit], (Clusters(np.arange(unit.size), unit.size),))
        found = rowwise.effect(value)
        plain.append((found.low, found.high))
    assert COVERED[0] <= covered(limits, 0.4) <= COVERED[1]
    assert COVERED[0] <= covered(per_money, 0.2) <= COVERED[1]
    assert covered(plain, 0.4) < 0.8


def test_intervals_cover_the_effect_when_partners_are_shared_too() -> None:
    """Units are drawn to arms within partners whose effect differs: both ways contribute to the variance."""
    rng, units, partners = np.random.default_rng(5), 240, 60
    unit = np.repeat(np.arange(units), 4)
    partner = rng.integers(0, partners, unit.size)
    ways = partitions(unit.size, unit, partner, fields=("unit", "partner"))
    two_way, one_way = [], []
    for _ in range(TRIALS):
        treated = (rng.random(units) < 0.5)[unit]
        effect = 0.5 + rng.normal(0, 1.0, partners)[partner]
        y = rng.normal(0, 1, units)[unit] + rng.normal(0, 1, unit.size) + effect * treated
        for limits, two in ((two_way, TwoArms(treated, ways)), (one_way, TwoArms(treated, ways[:1]))):
            found = two.effect(two.difference(y))
            limits.append((found.low, found.high))
    assert COVERED[0] <= covered(two_way, 0.5) <= COVERED[1]
    assert covered(one_way, 0.5) < covered(two_way, 0.5)


def test_intervals_with_covariates_cover_the_effect_and_are_narrower() -> None:
    rng, units = np.random.default_rng(6), 150
    unit = np.repeat(np.arange(units), 3)
    limits, widths = [], []
    for trial in range(TRIALS):
        past = rng.normal(0, 1, units)
        treated = (rng.random(units) < 0.4)[unit]
        y = 1.5 * (past + 0.3 * past**2)[unit] + rng.normal(0, 1, unit.size) + 0.2 * treated
        two = TwoArms(treated, (Clusters(unit, units),))
        covariates = np.stack([past[unit], predicted(y, past[unit][None], unit, seed=trial)])
        found, plain = two.effect(two.difference(y, covariates)), two.effect(two.difference(y))
        limits.append((found.low, found.high))
        widths.append(found.error / plain.error)
    assert COVERED[0] <= covered(limits, 0.2) <= COVERED[1]
    assert np.mean(widths) < 0.5
