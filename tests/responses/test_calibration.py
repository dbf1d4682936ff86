"""Corrections of the level of a response, against statsmodels and planted drifts."""

import numpy as np
import pytest
import statsmodels.api as sm

from shadowprice.responses.calibration import Offset, agreed, hazard_factor, hazard_offset, mean_offset


def current_status(seed: int, factor: float, rows: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    hazard = rng.gamma(2.0, 0.2, rows)
    return hazard, (rng.random(rows) < -np.expm1(-factor * hazard)).astype(float)


def test_an_offset_and_its_error_are_the_intercept_of_a_cloglog_regression() -> None:
    hazard, y = current_status(0, 1.6)
    family = sm.families.Binomial(link=sm.families.links.CLogLog())
    fit = sm.GLM(y, np.ones((y.size, 1)), family=family, offset=np.log(hazard)).fit(cov_type="HC0")
    found = hazard_offset(hazard, y)
    assert found.value == pytest.approx(fit.params[0], abs=1e-6)
    assert np.sqrt((found.influence**2).sum()) == pytest.approx(fit.bse[0], rel=0.02)
    assert found.influence.sum() == pytest.approx(0.0, abs=1e-9)
    assert hazard_factor(hazard, y, np.arange(y.size)) == pytest.approx(found.value)


def test_the_offset_of_a_ratio_is_its_mean_error() -> None:
    found = mean_offset([1.0, 2.0, 3.0], [2.0, 2.0, 5.0])
    assert found.value == pytest.approx(1.0)
    np.testing.assert_allclose(found.influence, [0.0, -1 / 3, 1 / 3])


def week(value: float, error: float = 0.01, rows: int = 200, seed: int = 0) -> Offset:
    return Offset(value, np.random.default_rng(seed).normal(0, error / rows**0.5, rows))


def test_weeks_that_agree_are_followed_and_weeks_that_disagree_are_not() -> None:
    groups = [np.arange(200)] * 4
    for sign in (1.0, -1.0):
        together = [week(sign * value, seed=k) for k, value in enumerate([0.30, 0.31, 0.29, 0.30])]
        assert 0.25 < sign * agreed(together, groups) < 0.31
        apart = [week(sign * value, seed=k) for k, value in enumerate([0.9, -0.4, 0.1, 0.6])]
        assert agreed(apart, groups) == 0
    assert agreed([week(0.5)], groups[:1]) == 0
    assert agreed([], []) == 0


def test_one_group_that_makes_the_error_of_every_week_is_no_agreement() -> None:
    weeks = [week(0.3, seed=k) for k in range(4)]
    own = [np.arange(200) + 200 * k for k in range(4)]
    assert agreed(weeks, own) > 0.25
    assert agreed([Offset(0.3, np.r_[0.2, each.influence[1:]]) for each in weeks], [np.arange(200)] * 4) == 0
