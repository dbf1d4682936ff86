"""Identification of the incentive's effect by a log, and its check in the gate."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.world.training_set import training_set
from shadowprice.campaign import Side
from shadowprice.currency import Currency
from shadowprice.curves import Curves
from shadowprice.datasets import Dataset
from shadowprice.evaluation.policy.gate import gate
from shadowprice.evaluation.uplift.evidence import SideEvidence
from shadowprice.evaluation.uplift.slope import Slope
from shadowprice.evidence.sides import evidence_of
from shadowprice.learning.comparison.value import CampaignWindow
from shadowprice.learning.evaluate import Comparison, Facts, evaluate
from shadowprice.learning.identification import identification, slope_within_cells, trial
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.separate import SeparateModels
from shadowprice.tables import campaign_from_tables

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


@pytest.fixture(scope="module")
def drawn() -> tuple[Dataset, TrainingSet, SideEvidence]:
    """A promotion whose effect is known, its training set and its evidence."""
    dataset, data = training_set("promotion", 0, rows=4000, features=(3,), levels=(0, 50, 100))
    campaign = campaign_from_tables(dataset.tables)
    (found,) = evidence_of(dataset.tables, campaign, Currency())
    return dataset, data, found


class Claimed(SeparateModels):
    """Curves that rise from the mean response by a share of what the trial shows."""

    personal = True

    def __init__(self, found: SideEvidence, times: float) -> None:
        mean = np.array([each.response.value for each in found.levels])
        self.mean = (mean.mean() + times * (mean - mean.mean())).astype(np.float32)
        self.amounts = np.array([each.incentive for each in found.levels])

    def curves(self, _snapshots: object, frames: Mapping[Side, pd.DataFrame]) -> dict[Side, Curves]:
        return {
            side: Curves(self.amounts, np.repeat(self.mean[:, None], len(rows), 1)) for side, rows in frames.items()
        }


def judged(
    drawn: tuple[Dataset, TrainingSet, SideEvidence], times: float, found: SideEvidence, **more: Any
) -> set[str]:
    """Broken rules of the gate that are about the effect."""
    facts = Facts(evidence={"customer": found})
    result = evaluate(Claimed(drawn[2], times), drawn[1], facts=facts, replications=30, **more)
    return {each.rule for each in result.gate.broken if "trial" in each.rule}


def test_curves_that_rise_as_the_trial_does_pass_and_others_do_not(
    drawn: tuple[Dataset, TrainingSet, SideEvidence],
) -> None:
    assert drawn[2].verdict == "identified"
    assert judged(drawn, 1.0, drawn[2]) == set()
    for times in (0.3, 1.8):
        (rule,) = judged(drawn, times, drawn[2])
        assert rule.startswith("mean slope of the curves inside the interval of the trial's")


def test_without_an_identified_effect_the_gate_refuses_any_curves(
    drawn: tuple[Dataset, TrainingSet, SideEvidence],
) -> None:
    found = replace(drawn[2], verdict="not identified")
    assert judged(drawn, 0.0, found) == {"the trial identifies the effect of the incentive"}


def test_a_model_that_replaces_one_in_use_need_not_show_the_effect_again(
    drawn: tuple[Dataset, TrainingSet, SideEvidence],
) -> None:
    campaign = campaign_from_tables(drawn[0].tables)
    more = {"against": Comparison(incumbent=Claimed(drawn[2], 1.0)), "window": CampaignWindow(campaign)}
    assert judged(drawn, 1.0, replace(drawn[2], verdict="not identified"), **more) == set()
    assert judged(drawn, 1.0, replace(drawn[2], verdict="wrong way"), **more) == {
        "the trial identifies the effect of the incentive"
    }
