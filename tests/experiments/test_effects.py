"""Standard errors against a regression of statsmodels, closed forms, and coverage in simulated trials."""

import doctest

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from shadowprice.errors import InvalidInput
from shadowprice.experiments import effects
from shadowprice.experiments.covariates import adjusted, predicted, with_missing
from shadowprice.experiments.effects import Cells, Contrast

TRIALS = 1200
COVERED = (0.93, 0.97)


def rows(seed: int, units: int = 60, partners: int = 17) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(units), rng.integers(1, 9, units))
    partner = rng.integers(0, partners, unit.size)
    treated = rng.random(units) < 0.4
    y = rng.normal(0, 1, units)[unit] + rng.normal(0, 1, partners)[partner] + rng.normal(0, 1, unit.size)
    return treated[unit], unit, partner, y


def bell_mccaffrey(treated: np.ndarray, y: np.ndarray, unit: np.ndarray) -> tuple[float, float]:
    """Coefficient of the arm and its CR2 standard error, with the hat matrices of the clusters written out."""
    design = np.stack([np.ones(y.size), treated], axis=1)
    bread = np.linalg.inv(design.T @ design)
    found = bread @ design.T @ y
    residual, meat = y - design @ found, np.zeros((2, 2))
    for each in np.unique(unit):
        own = design[unit == each]
        values, vectors = np.linalg.eigh(np.eye(len(own)) - own @ bread @ own.T)
        score = own.T @ (vectors / np.sqrt(values)) @ vectors.T @ residual[unit == each]
        meat += np.outer(score, score)
    return float(found[1]), float(np.sqrt((bread @ meat @ bread)[1, 1]))


@pytest.mark.parametrize("seed", range(5))
def test_the_standard_error_is_that_of_a_regression_with_bias_reduced_clusters(seed: int) -> None:
    treated, unit, partner, y = rows(seed)
    two = Cells.of(treated, unit)
    found = two.effect(two.contrast(y))
    value, error = bell_mccaffrey(treated, y, unit)
    assert found.value == pytest.approx(value)
    assert found.error == pytest.approx(error)
    crossed = Cells.of(treated, unit, partner)
    ids = np.stack([unit, partner], axis=1)
    design = sm.add_constant(treated.astype(float))
    fits = [
        sm.OLS(y, design).fit(cov_type="cluster", cov_kwds={"groups": each}).bse[1] for each in (unit, partner, ids)
    ]
    assert crossed.effect(crossed.contrast(y)).error == pytest.approx(max(fits), rel=0.06)


def test_groups_of_one_size_give_the_test_of_welch_on_their_means() -> None:
    assert doctest.testmod(effects).failed == 0
    rng = np.random.default_rng(0)
    means = rng.normal(size=20) * np.where(np.arange(20) < 6, 3.0, 1.0)
    y = np.repeat(means, 5) + np.tile([-0.2, -0.1, 0.0, 0.1, 0.2], 20)
    group, treated = np.repeat(np.arange(20), 5), np.repeat(np.arange(20) < 6, 5)
    two = Cells.of(treated, group, level=0.9)
    found = two.effect(two.contrast(y))
    reference = stats.ttest_ind(means[:6], means[6:], equal_var=False)
    limits = reference.confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((limits.low, limits.high))
    assert (found.p_value, found.degrees) == pytest.approx((reference.pvalue, reference.df))


def test_the_interval_of_a_ratio_holds_what_the_test_of_the_difference_does_not_reject() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.multivariate_normal([3.0, 2.0], [[1.0, 0.6], [0.6, 4.0]], 60).T
    cells = Cells.of(np.arange(60) % 2, np.arange(60))
    top, bottom = cells.contrast(a, (0.5, 0.5)), cells.contrast(b, (0.5, 0.5))
    found = cells.ratio(top, bottom)
    assert found.value == pytest.approx(top.value / bottom.value)
    for end in (found.low, found.high):
        line = cells.effect(Contrast(top.value - end * bottom.value, top.influence - end * bottom.influence))
        assert abs(line.value / line.error) == pytest.approx(stats.t.ppf(0.975, found.degrees))
    assert found.high - found.value > found.value - found.low
    nothing = cells.ratio(top, cells.contrast(b - b.mean() + 0.01, (0.5, 0.5)))
    assert (nothing.low, nothing.high) == (-np.inf, np.inf)
    assert nothing.p_value == cells.effect(top).p_value
    assert np.isnan(cells.ratio(top, Contrast(0.0, bottom.influence)).value)


def test_a_covariate_is_used_with_the_multiple_that_a_regression_finds() -> None:
    rng = np.random.default_rng(2)
    x, treated = rng.normal(size=(2, 60)), np.arange(60) < 30
    y = 2 * x[0] - x[1] + 0.5 * treated + rng.normal(size=60)
    two = Cells.of(treated, np.arange(60))
    plain = two.contrast(y)
    found = two.effect(adjusted(two, plain, x))
    fit = sm.OLS(y, np.stack([np.ones(60), treated, *x], axis=1)).fit()
    assert found.value == pytest.approx(fit.params[1])
    assert found.error == pytest.approx(fit.HC2_se[1], rel=0.005)
    assert found.degrees < 57
    assert found.error < 0.5 * two.effect(plain).error


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
        Cells.of([True, True], [1, 2])
    two = Cells.of([True, False, True, False], [1, 2, 3, 4])
    with pytest.raises(InvalidInput, match="a tenth"):
        adjusted(two, two.contrast([1.0, 2.0, 3.0, 4.0]), np.ones((1, 4)))
    with pytest.raises(InvalidInput, match="one entry per row"):
        two.contrast([1.0, 2.0])
    alone = Cells.of([True, False], [1, 2])
    assert np.isnan(alone.effect(alone.contrast([1.0, 2.0])).low)


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
        two = Cells.of(treated[unit], unit)
        value = two.contrast(y)
        found, money = two.effect(value), two.ratio(value, two.contrast(cost))
        limits.append((found.low, found.high))
        per_money.append((money.low, money.high))
        alone = Cells.of(treated[unit], np.arange(unit.size))
        found = alone.effect(value)
        plain.append((found.low, found.high))
    assert COVERED[0] <= covered(limits, 0.4) <= COVERED[1]
    assert COVERED[0] <= covered(per_money, 0.2) <= COVERED[1]
    assert covered(plain, 0.4) < 0.8


def test_intervals_cover_the_effect_when_partners_are_shared_too() -> None:
    """Units are drawn to arms within partners whose effect differs: both ways contribute to the variance."""
    rng, units, partners = np.random.default_rng(5), 240, 60
    unit = np.repeat(np.arange(units), 4)
    partner = rng.integers(0, partners, unit.size)
    two_way, one_way = [], []
    for _ in range(TRIALS):
        treated = (rng.random(units) < 0.5)[unit]
        effect = 0.5 + rng.normal(0, 1.0, partners)[partner]
        y = rng.normal(0, 1, units)[unit] + rng.normal(0, 1, unit.size) + effect * treated
        for limits, two in ((two_way, Cells.of(treated, unit, partner)), (one_way, Cells.of(treated, unit))):
            found = two.effect(two.contrast(y))
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
        two = Cells.of(treated, unit)
        covariates = np.stack([past[unit], predicted(y, past[unit][None], unit, seed=trial)])
        plain = two.contrast(y)
        found = two.effect(adjusted(two, plain, covariates))
        limits.append((found.low, found.high))
        widths.append(found.error / two.effect(plain).error)
    assert COVERED[0] <= covered(limits, 0.2) <= COVERED[1]
    assert np.mean(widths) < 0.5


def test_a_fifth_of_twenty_groups_and_a_weak_denominator_are_covered() -> None:
    """Groups of 2 to 40 accounts, four of which are in the holdout; costs that hardly differ."""
    rng = np.random.default_rng(8)
    few, ratio = [], []
    for _ in range(TRIALS):
        size = rng.integers(2, 41, 20)
        group = np.repeat(np.arange(20), size)
        treated = (rng.permutation(20) >= 4)[group]
        y = rng.normal(0, 1, 20)[group] + rng.normal(0, 1, group.size) + 0.5 * treated
        two = Cells.of(treated, group)
        found = two.effect(two.contrast(y))
        few.append((found.low, found.high))
        cost = rng.normal(1.0, 1.0, 40) + 0.7 * (np.arange(40) % 2)
        money = Cells.of(np.arange(40) % 2, np.arange(40))
        worth = money.contrast(2 * cost + rng.normal(0, 1, 40))
        found = money.ratio(worth, money.contrast(cost))
        ratio.append((found.low, found.high))
    assert COVERED[0] <= covered(few, 0.5) <= 0.98
    # Where the costs may not differ the interval has no limits, and covers.
    assert COVERED[0] <= covered(ratio, 2.0) <= 0.985
