"""Periods of constant shares, found from the arms of a log."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from shadowprice.arms import CANARY, UNASSIGNED, Arm, Experiment
from shadowprice.errors import InvalidTable
from shadowprice.experiments.columns import Columns
from shadowprice.experiments.periods import BEFORE, in_periods

START = Experiment(
    arms=(Arm(name="holdout", kind="holdout", share=2000), Arm(name="policy", kind="policy", share=1000)), salt="s"
)
ONE = START.raised("policy", 3000)
TWO = ONE.raised("holdout", 4000)
NAMES = np.array([f"a{each}" for each in range(300)])


def log(served: list[tuple[int, Experiment | None]], rows: int = 4000, seed: int = 0) -> pd.DataFrame:
    """Requests of 100 hours, each answered with the experiment that was served from an hour on."""
    rng = np.random.default_rng(seed)
    hour, who = np.sort(rng.uniform(0, 100, rows)), rng.integers(0, NAMES.size, rows)
    arm = np.full(rows, UNASSIGNED, dtype=object)
    for since, experiment in served:
        if experiment is not None:
            arm = np.where(hour >= since, experiment.arm_of(NAMES.tolist())[who], arm)
    at = pd.Timestamp(datetime(2026, 3, 1, tzinfo=UTC)) + pd.to_timedelta(hour, unit="h")
    return pd.DataFrame({"account_id": NAMES[who], "arm": arm, "hour": hour, "decided_at": at})


def test_a_period_begins_where_a_raise_was_served() -> None:
    frame = log([(0, START), (40, ONE), (70, TWO)])
    found, periods = in_periods(frame, TWO, Columns())
    assert [each.experiment.shares for each in periods] == [each.shares for each in (START, ONE, TWO)]
    assert sum(each.requests for each in periods) == len(frame)
    expected = np.searchsorted([40, 70], frame["hour"], side="right")
    # The raise shows with the next request of an account that it moved.
    assert np.mean(found["period"] != expected) < 0.01
    assert (found["arm"] == frame["arm"]).all()


def test_requests_before_the_experiment_are_of_no_period() -> None:
    found, (period,) = in_periods(log([(30, START)]), START, Columns())
    assert (found.loc[found["period"] == BEFORE, "hour"] < 30).all()
    assert period.first > pd.Timestamp("2026-03-02T05:00Z")
    assert (found.loc[found["period"] == BEFORE, "arm"] == UNASSIGNED).all()


def test_while_predictors_restart_it_is_still_the_period_before() -> None:
    old, new = log([(0, START)]), log([(0, START), (40, ONE)])
    late = (old["hour"] < 50) & (np.arange(len(old)) % 2 == 0)
    mixed = new.assign(arm=np.where(late, old["arm"], new["arm"]))
    found, _ = in_periods(mixed, ONE, Columns())
    since = found.loc[found["period"] == 1, "hour"].min()
    assert 49 < since < 51
    moved = START.arm_of(found["account_id"].tolist()) != ONE.arm_of(found["account_id"].tolist())
    assert set(found.loc[moved & (found["hour"] < since), "arm"]) == {UNASSIGNED}


def test_two_raises_at_once_are_one_period_and_a_canary_has_the_arm_of_the_hash() -> None:
    frame = log([(0, START), (40, TWO)])
    canary = frame.assign(arm=np.where(np.arange(len(frame)) % 50 == 0, CANARY, frame["arm"]))
    found, periods = in_periods(canary, TWO, Columns())
    assert [each.number for each in periods] in ([0, 2], [0, 1, 2])
    assert periods[0].last < pd.Timestamp("2026-03-02T16:30Z")
    assert CANARY not in set(found["arm"])
    later = found["hour"] > 42
    assert (found.loc[later, "arm"] == frame.loc[later, "arm"]).all()


def test_a_raise_that_was_not_served_yet_changes_nothing() -> None:
    frame = log([(0, START)])
    found, periods = in_periods(frame, ONE, Columns())
    assert len(periods) == 1
    assert periods[0].experiment == START
    assert (found["arm"] == frame["arm"]).all()
    with pytest.raises(InvalidTable, match="without the experiment until its end"):
        in_periods(log([]), START, Columns())
