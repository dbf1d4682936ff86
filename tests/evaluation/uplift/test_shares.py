"""Shares found against propensities, by Pearson's test and by sums of inverse propensities."""

import numpy as np
import pytest
from scipy import stats

from shadowprice.evaluation.uplift.shares import CHANCE, shares

PLAN = np.array([0.4, 0.3, 0.2, 0.1])


def test_with_one_propensity_a_level_it_is_pearsons_chi_square() -> None:
    level = np.random.default_rng(0).choice(4, 3000, p=PLAN)
    found = shares(level, PLAN[level], 4)
    assert found.p_value == pytest.approx(stats.chisquare(np.bincount(level), 3000 * PLAN).pvalue, rel=1e-9)
    assert found.planned == pytest.approx(PLAN)
    assert found.found == pytest.approx(np.bincount(level) / 3000)
    assert found.uniform
    assert found.partial == ()


def test_an_account_that_keeps_its_level_counts_once() -> None:
    rng = np.random.default_rng(1)
    account = np.repeat(np.arange(400), rng.integers(1, 10, 400))
    own = rng.choice(4, 400, p=PLAN)
    found = shares(own[account], PLAN[own[account]], 4, account)
    assert found.p_value == pytest.approx(stats.chisquare(np.bincount(own), 400 * PLAN).pvalue, rel=1e-9)


def test_accounts_that_draw_again_now_and_then_raise_no_false_alarms() -> None:
    rng, alarms = np.random.default_rng(2), 0
    account, half = np.repeat(np.arange(300), 8), np.tile(np.arange(8) // 4, 300)
    for _ in range(300):
        level = rng.choice(4, (300, 2), p=PLAN)[account, half]
        alarms += (shares(level, PLAN[level], 4, account).p_value or 0.0) < 0.05
    assert alarms <= stats.binom.ppf(0.999, 300, 0.05)


def test_propensities_that_differ_between_rows_raise_no_false_alarms_and_wrong_ones_do() -> None:
    rng, alarms = np.random.default_rng(3), 0
    for _ in range(300):
        chance = np.exp(np.outer(rng.random(1500) - 0.5, [0.0, 1.0, 2.0, -1.0]))
        chance /= chance.sum(axis=1, keepdims=True)
        level = (rng.random(1500)[:, None] > chance.cumsum(axis=1)).sum(axis=1)
        given = chance[np.arange(1500), level]
        alarms += (shares(level, given, 4).p_value or 0.0) < 0.05
    assert alarms <= stats.binom.ppf(0.999, 300, 0.05)
    # Half the true propensity of one level: its inverse propensities add up to twice the rows.
    wrong = np.where(level == 1, given / 2, given)
    assert (shares(level, wrong, 4).p_value or 0.0) < CHANCE


def test_a_level_that_half_of_the_rows_cannot_get_is_named_and_is_no_fault() -> None:
    rng = np.random.default_rng(4)
    first = rng.random(4000) < 0.5
    level = np.where(first, rng.integers(0, 3, 4000), 2 * rng.integers(0, 2, 4000))
    found = shares(level, np.where(first, 1 / 3, 1 / 2), 3)
    assert found.partial == (1,)
    assert (found.p_value or 0.0) > 0.01


def test_impossible_sums_are_no_chance_and_rounded_ones_are_not_faults() -> None:
    level = np.random.default_rng(5).integers(0, 3, 3000)
    assert shares(level, np.full(3000, 0.5), 3).p_value == 0.0
    assert shares(level, np.full(3000, 0.1), 3).p_value == 0.0
    assert (shares(level, np.full(3000, 0.33), 3).p_value or 0.0) > 0.001


def test_a_log_without_a_draw_has_no_test() -> None:
    found = shares([0, 1, 1, 2], np.ones(4), 3)
    assert not found.drawn
    assert found.p_value is None
