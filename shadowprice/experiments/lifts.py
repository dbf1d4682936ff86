"""Lift: what an arm brought that would not have come anyway, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.confidence_sequence import ConfidenceSequence
from shadowprice.experiments.always_valid import PLANNED, always_valid
from shadowprice.experiments.effects import Effect, TwoArms, with_missing

LEAST_UNITS = 30
"""Units of an arm below which an interim analysis is left out: the normal approximation does not hold."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Names of the columns of a table of requests, one row each.

    unit        identifier of what was assigned
    arm         name of the arm
    value       worth of the response
    cost        minor units paid
    partner     second identifier of dependent rows, crossed with the first; empty: one way
    covariates  quantities of the time before, and predictions from them; an entry may be missing
    """

    unit: str = "account_id"
    arm: str = "arm"
    value: str = "value"
    cost: str = "cost"
    partner: str = ""
    covariates: tuple[str, ...] = ()

    def check(self, frame: pd.DataFrame, *others: str) -> None:
        """Raise :class:`InvalidInput` for a column that ``frame`` does not have."""
        named = [self.unit, self.arm, self.value, self.cost, *self.covariates, *others]
        missing = [name for name in (*named, *([self.partner] if self.partner else [])) if name not in frame]
        if missing:
            raise InvalidInput(f"has no column {missing}; it has {list(frame.columns)}", field="frame")


@dataclass(frozen=True)
class Lift:
    """Effect of one arm against another, per request.

    units, requests    of the arm; ``baseline_units`` and ``baseline_requests`` of the other
    value      incremental value
    relative   incremental value per value of the baseline
    cost       incremental minor units
    per_money  incremental value per incremental minor unit; NaN where the costs do not differ
    """

    arm: str
    baseline: str
    units: int
    requests: int
    baseline_units: int
    baseline_requests: int
    value: Effect
    relative: Effect
    cost: Effect
    per_money: Effect


@dataclass(frozen=True, eq=False)
class DailyLift:
    """Lift of one arm after each of T days, with intervals that hold at all of them at once.

    days    numbers of the days, ascending
    """

    arm: str
    baseline: str
    days: tuple[int, ...]
    value: ConfidenceSequence
    cost: ConfidenceSequence


def lift(
    frame: pd.DataFrame,
    baseline: str,
    *,
    columns: Columns | None = None,
    arms: Sequence[str] | None = None,
    level: float = 0.95,
) -> list[Lift]:
    """Estimate the lift of each arm against a baseline, a holdout or another policy.

    Args:
        frame: one row for each request; see :class:`Columns`. Requests whose outcome can still come are left out
            before.
        baseline: name of an arm.
        columns: names of the columns.
        arms: arms to compare; None: all others in the table.
        level: of the intervals, each read once; daily looks need :func:`daily_lift`.

    Rows of one unit depend on each other, and so do those of one partner. Differences of means per request are
    ratio metrics, with the variance of the delta method.

    Raises:
        InvalidInput: a column or an arm that is missing, or entries that are not numbers.

    O(N log N) for each arm.

    Example:
        >>> rows = pd.DataFrame({"account_id": range(6), "arm": ["holdout"] * 3 + ["policy"] * 3,
        ...                      "value": [0, 0, 1, 1, 0, 1], "cost": [0, 0, 0, 100, 0, 100]})
        >>> round(lift(rows, "holdout")[0].value.value, 3)
        0.333
    """
    named = columns or Columns()
    named.check(frame)
    return [_lift(two, arm, baseline, named, level) for arm, two in _pairs(frame, baseline, named, arms)]


def daily_lift(
    frame: pd.DataFrame,
    baseline: str,
    *,
    day: str = "day",
    columns: Columns | None = None,
    arms: Sequence[str] | None = None,
    level: float = 0.95,
    planned: int = PLANNED,
) -> list[DailyLift]:
    """Estimate the lift of each arm after each day, from all rows up to it, with always-valid intervals.

    Args:
        frame, baseline, columns, arms: as of :func:`lift`.
        day: column with the number of the day.
        level: probability of covering the effect on all days together.
        planned: days after which the interval is narrowest in comparison; fix it before.

    Days on which an arm has fewer than :data:`LEAST_UNITS` units are left out. O(T · N log N) for each arm.
    """
    named = columns or Columns()
    named.check(frame, day)
    found = []
    for arm, two in _pairs(frame, baseline, named, arms):
        days = tuple(sorted({int(each) for each in two[day]}))
        lifts = [_enough(two[two[day] <= each], arm, baseline, named, level) for each in days]
        sequences = [
            always_valid(
                [float("nan") if each is None else getattr(each, name).value for each in lifts],
                [float("nan") if each is None else getattr(each, name).error for each in lifts],
                level=level,
                planned=planned,
            )
            for name in ("value", "cost")
        ]
        found.append(DailyLift(arm, baseline, days, *sequences))
    return found


def _pairs(
    frame: pd.DataFrame, baseline: str, columns: Columns, arms: Sequence[str] | None
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each arm with its rows and those of the baseline."""
    present = sorted(set(frame[columns.arm].astype(str)))
    wanted = [arm for arm in present if arm != baseline] if arms is None else list(arms)
    unknown = [arm for arm in (baseline, *wanted) if arm not in present]
    if unknown:
        raise InvalidInput(f"has no rows of arm {unknown}; it has {present}", field=columns.arm)
    if baseline in wanted:
        raise InvalidInput(f"{baseline!r} cannot be compared with itself", field="arms")
    for arm in wanted:
        yield arm, frame[frame[columns.arm].isin([arm, baseline])]


def _enough(rows: pd.DataFrame, arm: str, baseline: str, columns: Columns, level: float) -> Lift | None:
    units = rows.groupby(columns.arm)[columns.unit].nunique()
    if min(units.get(arm, 0), units.get(baseline, 0)) < LEAST_UNITS:
        return None
    return _lift(rows, arm, baseline, columns, level)


def _lift(rows: pd.DataFrame, arm: str, baseline: str, columns: Columns, level: float) -> Lift:
    treated = (rows[columns.arm] == arm).to_numpy()
    partner = rows[columns.partner].to_numpy() if columns.partner else None
    unit = rows[columns.unit].to_numpy()
    two = TwoArms.of(treated, unit, partner, level)
    covariates = with_missing([rows[name].to_numpy() for name in columns.covariates])
    value, cost = (two.difference(rows[name].to_numpy(), covariates) for name in (columns.value, columns.cost))
    return Lift(
        arm=arm,
        baseline=baseline,
        units=len(np.unique(unit[treated])),
        requests=int(treated.sum()),
        baseline_units=len(np.unique(unit[~treated])),
        baseline_requests=int((~treated).sum()),
        value=two.effect(value),
        relative=two.effect(value.over(two.baseline(rows[columns.value].to_numpy()))),
        cost=two.effect(cost),
        per_money=two.effect(value.over(cost)),
    )
