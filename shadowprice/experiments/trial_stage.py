"""Verdict on a stage of a canary: grow, wait, or roll back, from all days of the stage so far."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from shadowprice.arms import CANARY
from shadowprice.checks import require
from shadowprice.experiments.columns import Columns
from shadowprice.experiments.lifts import daily_lift

Step = Literal["grow", "wait", "roll back"]
NET = "net"
"""Column of the net value."""
INCUMBENT = "incumbent"
WAITS = "the interval allows no verdict yet"


@dataclass(frozen=True)
class Stage:
    """Rule of one stage.

    share   basis points of the units that the canary decides for
    margin  the stage is passed when the interval of the relative gain lies above this: −0.2 only rules a loss of a
            fifth out, 0 asks for a gain
    """

    share: int
    margin: float


@dataclass(frozen=True)
class StageVerdict:
    """Verdict after the newest day of a stage.

    gain, low, high  net value per request over the incumbent's, as a share of the incumbent's value: estimate and
                     always-valid limits; NaN before there are enough units
    """

    step: Step
    reason: str
    days: int
    canary_requests: int
    incumbent_requests: int
    gain: float
    low: float
    high: float


def judge_stage(
    rows: pd.DataFrame, stage: Stage, *, level: float, most_days: int, columns: Columns | None = None
) -> StageVerdict:
    """Judge a stage of a canary.

    The net value of a request is its value less the price of its cost: two policies that share a budget may spend
    differently. Its mean under the canary is compared with that under the incumbent by
    :func:`~shadowprice.experiments.lifts.daily_lift`, whose interval holds on all days of the stage together:

        roll back   the interval lies below 0, or ``most_days`` have gone by without a verdict
        grow        the interval lies above the stage's margin times the incumbent's mean value
        wait        otherwise

    Args:
        rows: requests of the stage whose outcome is final, with ``day`` from 0 on and ``net``, the net value. Those of
            the arm ``canary`` are compared with all others.
        stage: whose share did not change meanwhile.
        level: of the interval; of a canary with S stages 1 − α/S, so that all its stages together err with α.
        most_days: days after which the incumbent stays.
        columns: names of the columns.

    A canary that is no better is promoted by a stage of margin 0 with probability (1 − level) / 2 at most.

    Example:
        >>> rows = pd.DataFrame({"account_id": range(400), "arm": ["canary", "rest"] * 200, "day": 0,
        ...                      "value": [1.0, 0.0, 0.9, 0.1] * 100, "cost": 0}).eval("net = value")
        >>> judge_stage(rows, Stage(100, 0.0), level=0.95, most_days=7).step
        'grow'
    """
    verdicts = judge_days(rows, stage, level=level, most_days=most_days, columns=columns)
    return verdicts[-1] if verdicts else StageVerdict("wait", WAITS, 0, 0, 0, *[float("nan")] * 3)


def judge_days(
    rows: pd.DataFrame, stage: Stage, *, level: float, most_days: int, columns: Columns | None = None
) -> list[StageVerdict]:
    """Return the verdict of :func:`judge_stage` after each day that has requests, in order."""
    require(most_days >= 1, "most_days", "must be at least 1")
    if rows.empty:
        return []
    named = columns or Columns()
    on_trial = (rows[named.arm] == CANARY).to_numpy()
    sums = pd.DataFrame({"day": rows["day"], "canary": on_trial, "value": np.where(on_trial, 0.0, rows[named.value])})
    by_day = sums.assign(incumbent=~on_trial).groupby("day").sum().cumsum()
    ends = [np.full(len(by_day), np.nan)] * 3
    if on_trial.any() and not on_trial.all():
        two = rows.assign(**{named.arm: np.where(on_trial, CANARY, INCUMBENT)})
        (lift,) = daily_lift(two, INCUMBENT, None, columns=replace(named, value=NET), level=level, planned=most_days)
        ends = [lift.value.value, lift.value.low, lift.value.high]
    verdicts = []
    days = zip(by_day.index, by_day["canary"], by_day["incumbent"], by_day["value"], *ends, strict=True)
    for day, trial, others, value, *limits in days:
        usual = value / others if others else 0.0
        gain, low, high = (limit / usual if usual > 0 else float("nan") for limit in limits)
        step, reason = _step(stage, low, high, int(day) + 1, most_days)
        verdicts.append(StageVerdict(step, reason, int(day) + 1, int(trial), int(others), gain, low, high))
    return verdicts


def _step(stage: Stage, low: float, high: float, days: int, most_days: int) -> tuple[Step, str]:
    if high < 0:
        return "roll back", "the canary is worse"
    if low > stage.margin:
        return "grow", f"the gain lies above {stage.margin:+.1%}"
    if days >= most_days:
        return "roll back", f"no verdict in {days} days: the incumbent stays"
    return "wait", WAITS
