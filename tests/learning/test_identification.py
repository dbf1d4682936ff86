"""Identification of the incentive's effect by a log, and its check in the gate."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from shadowprice.evaluation.policy.gate import gate
from shadowprice.evaluation.uplift.slope import Slope
from shadowprice.learning.identification import identification, slope_within_cells, trial

LEVELS = (100, 500, 1000)
DAY = 86400.0


def log(effect: list[float], seed: int = 0, rows: int = 1500) -> pd.DataFrame:
    """Weeks of requests at 30 shops; the response rises by ``effect`` per level, which differs by week."""
    rng = np.random.default_rng(seed)
    size = rows * len(effect)
    week, shop, level = np.repeat(np.arange(len(effect)), rows), rng.integers(0, 30, size), rng.integers(0, 3, size)
    p = 0.3 + 0.005 * shop + np.array(effect)[week] * (level - 1)
    return pd.DataFrame(
        {
            "partner_id": [f"s{k}" for k in shop],
            "level": level,
            "response": (rng.random(size) < p).astype(float),
            "snapshot_at": week * 7 * DAY + rng.uniform(0, 7 * DAY, size),
        }
    )


def found(rows: pd.DataFrame) -> Slope:
    slope = slope_within_cells(rows, LEVELS, ["partner_id"])
    assert slope is not None
    return slope


def test_an_effect_that_weeks_agree_on_is_identified_and_flat_curves_miss_it() -> None:
    rows = log([0.1] * 6)
    slope = found(rows)
    truth = 0.1 * np.polyfit(LEVELS, [0, 1, 2], 1)[0]
    assert slope.identified
    assert slope.low < truth < slope.high
    assert identification("customer", rows, LEVELS, slope, truth).passed
    assert not identification("customer", rows, LEVELS, slope, 0.0).passed
    assert "not identified" not in identification("customer", rows, LEVELS, slope, truth).found


def test_the_gate_says_that_the_effect_is_not_identified_and_which_trial_would_identify_it() -> None:
    rows = log([0.25, -0.2, 0.2, -0.15, 0.2, -0.25])
    slope = found(rows)
    flat = identification("customer", rows, LEVELS, slope, 0.0)
    steep = identification("customer", rows, LEVELS, slope, 2 * slope.high)
    assert flat.passed
    assert not steep.passed
    metrics = {"customer": {"auc": 0.8, "ece": 0.01, "base_rate": 0.3, "rpr": 0.0}}
    for check in (flat, steep):
        result = gate(metrics, extra=[check])
        assert result.passed == check.passed
        assert "the effect of the incentive is not identified by this log" in str(result)
        assert "100 and 1000 minor units at random, half each, to" in str(result)


def test_the_trial_finds_a_rise_by_a_quarter_or_half_of_what_the_log_leaves_open() -> None:
    rows = log([0.1, -0.1, 0.1, -0.1, 0.1, -0.1])
    slope = found(rows)
    plan = trial(rows, LEVELS, slope)
    assert plan is not None
    assert plan.slope == pytest.approx(0.25 * rows["response"].mean() / 900)
    small = replace(slope, high=1e-5)
    assert trial(rows, LEVELS, small).slope == pytest.approx(5e-6)  # type: ignore[union-attr]
    assert (plan.lowest, plan.highest) == (100, 1000)
    rate = len(rows) / 42
    assert plan.share == pytest.approx(plan.requests / (plan.days * rate), rel=0.01)


def test_a_log_in_which_no_cell_has_two_levels_identifies_nothing() -> None:
    rows = log([0.1] * 3)
    rows["level"] = rows["partner_id"].str[1:].astype(int) % 3
    assert slope_within_cells(rows, LEVELS, ["partner_id"]) is None
    check = identification("customer", rows, LEVELS, None, 0.0)
    assert check.passed
    assert "not identified" in check.found
    assert not identification("customer", rows, LEVELS, None, 1e-5).passed


def test_a_response_that_falls_within_cells_asks_for_confounders() -> None:
    rows = log([-0.1] * 6)
    slope = found(rows)
    assert slope.high < 0
    check = identification("customer", rows, LEVELS, slope, 0.0)
    assert check.passed
    assert check.found.endswith("confounders are missing")
    assert trial(rows, LEVELS, slope) is None
