"""Lift: the value that an arm added, and its cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.arms import UNASSIGNED
from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.confidence_sequence import ConfidenceSequence
from shadowprice.experiments.always_valid import PLANNED, always_valid
from shadowprice.experiments.columns import Columns
from shadowprice.experiments.covariates import adjusted
from shadowprice.experiments.effects import Effect
from shadowprice.experiments.stacked import Stacked, per_assigned, per_request

LEAST_UNITS = 30
"""Units of an arm below which an interim analysis is left out: the normal approximation does not hold."""


@dataclass(frozen=True)
class Lift:
    """Effect of one arm against another, per assigned account and for the whole time, or per request.

    units, requests    of the arm; ``baseline_units`` and ``baseline_requests`` of the other
    value      incremental value
    relative   incremental value per value of the baseline
    cost       incremental minor units
    per_money  incremental value per incremental minor unit; without limits where the costs may not differ
    total      incremental value of all accounts, or requests, of the arm
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
    total: Effect

    def widened(self, parts: Sequence[Lift], relative: NDArray[np.float64]) -> Lift:
        """Return the lift with the error that the values of its responses have in common, but in ``relative``.

        Args:
            parts: (J,) lifts of the values of each level alone.
            relative: (J, J) covariance of the relative errors of the values at the levels.
        """

        def of(name: str) -> Effect:
            of_levels = np.nan_to_num([getattr(part, name).value for part in parts])
            effect: Effect = getattr(self, name)
            return effect.widened(float(of_levels @ relative @ of_levels))

        return replace(self, value=of("value"), per_money=of("per_money"), total=of("total"))


@dataclass(frozen=True, eq=False)
class DailyLift:
    """Lift of one arm after each of T days, with intervals that hold at all of them at once.

    days         numbers of the days, ascending
    value, cost  per assigned account and day, or per request: mean of the days so far
    """

    arm: str
    baseline: str
    days: tuple[int, ...]
    value: ConfidenceSequence
    cost: ConfidenceSequence


def lift(
    frame: pd.DataFrame,
    baseline: str,
    assigned: pd.DataFrame,
    *,
    columns: Columns | None = None,
    arms: Sequence[str] | None = None,
    level: float = 0.95,
) -> list[Lift]:
    """Estimate the lift of each arm against a baseline, per assigned account.

    Accounts that never asked count as no response and no cost. An incentive may thus change which ask, and how often,
    and the difference is still its effect. :func:`lift_per_request` does not allow for that.

    Args:
        frame: one row for each request; see :class:`Columns`. Requests whose outcome can still come are left out
            before. A column ``period`` divides the time, where shares were raised: an account then has its value in
            each period, differences are of accounts in one period, and their sum is the lift.
        baseline: name of an arm, a holdout or another policy.
        assigned: one row for each assigned account, with unit, arm, covariates and, where the frame has one, period.
            Where there is no list, one row for each arm and period with the ``number`` of accounts that its share
            stands for; covariates are then not used, and intervals allow for the number that the draw gave.
        columns: names of the columns.
        arms: arms to compare; None: all others in the table.
        level: of the intervals, each read once; daily analyses need :func:`daily_lift`.

    Rows of one unit depend on each other, and so do those of one partner. With few units the intervals are those of
    :class:`~shadowprice.experiments.effects.Cells`. Ratios have Fieller's interval.

    Raises:
        InvalidInput: a column or an arm that is missing, entries that are not numbers, or no account of the frame
            among the assigned ones.

    O(N log N) for each arm.

    Example:
        >>> rows = pd.DataFrame({"account_id": ["a", "b", "b"], "arm": ["holdout", "policy", "policy"],
        ...                      "value": [0, 1, 1], "cost": [0, 100, 100]})
        >>> assigned = pd.DataFrame({"account_id": ["a", "b", "c", "d"], "arm": ["holdout", "policy"] * 2})
        >>> lift(rows, "holdout", assigned)[0].value.value
        1.0
    """
    named = columns or Columns()
    named.check(frame)
    named.check_assigned(assigned)
    pairs = _pairs(frame, baseline, named, arms)
    return [_lift(per_assigned(two, assigned, arm, baseline, named, level), arm, baseline) for arm, two in pairs]


def lift_per_request(
    frame: pd.DataFrame,
    baseline: str,
    *,
    columns: Columns | None = None,
    arms: Sequence[str] | None = None,
    level: float = 0.95,
) -> list[Lift]:
    """Estimate the difference of an arm's requests to those of a baseline, per request.

    It compares the accounts that asked. Where the incentive changes which do, or how often, it is not the effect of the
    arm: see :func:`lift`. Periods count by their requests.

    Args:
        frame, baseline, columns, arms, level: as of :func:`lift`.

    Raises:
        InvalidInput: a column or an arm that is missing, or entries that are not numbers.

    Example:
        >>> rows = pd.DataFrame({"account_id": range(6), "arm": ["holdout"] * 3 + ["policy"] * 3,
        ...                      "value": [0, 0, 1, 1, 0, 1], "cost": [0, 0, 0, 100, 0, 100]})
        >>> round(lift_per_request(rows, "holdout")[0].value.value, 3)
        0.333
    """
    named = columns or Columns()
    named.check(frame)
    pairs = _pairs(frame, baseline, named, arms)
    return [_lift(per_request(two, frame, arm, named, level), arm, baseline) for arm, two in pairs]


def daily_lift(
    frame: pd.DataFrame,
    baseline: str,
    assigned: pd.DataFrame | None,
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
        assigned: as of :func:`lift`, for the lift per assigned account and day; None: per request. Where it has the
            column ``day``, as hours have, a row counts from its day on, and the lift is per row and not per day.
        day: column with the number of the day.
        level: probability of covering the effect on all days together.
        planned: days after which the interval is narrowest in comparison; fix it before.

    Days on which an arm has fewer than :data:`LEAST_UNITS` units are left out. O(T · N log N) for each arm.
    """
    named = columns or Columns()
    named.check(frame, day)
    first = int(frame[day].min()) if len(frame) else 0
    if assigned is not None and named.unit in assigned:
        # Every day reads the units again, and numbers are read faster than names.
        code, _ = pd.factorize(pd.concat([frame[named.unit], assigned[named.unit]]))
        InvalidInput.refuse_rows(code < 0, "is missing", field=named.unit)
        frame, assigned = (
            table.assign(**{named.unit: part})
            for table, part in ((frame, code[: len(frame)]), (assigned, code[len(frame) :]))
        )
    daily = []
    for arm, two in _pairs(frame, baseline, named, arms):
        days = tuple(sorted({int(number) for number in two[day]}))
        lifts = [_so_far(frame, assigned, day, until, (arm, baseline), named, level) for until in days]
        whole = assigned is not None and day not in assigned
        scale = np.array([until - first + 1 if whole else 1 for until in days], dtype=np.float64)
        sequences = [
            always_valid(
                [float("nan") if so_far is None else getattr(so_far, name).value for so_far in lifts] / scale,
                [float("nan") if so_far is None else getattr(so_far, name).error for so_far in lifts] / scale,
                level=level,
                planned=planned,
                constant=False,
            )
            for name in ("value", "cost")
        ]
        daily.append(DailyLift(arm, baseline, days, *sequences))
    return daily


def _pairs(
    frame: pd.DataFrame, baseline: str, columns: Columns, arms: Sequence[str] | None
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each arm with its rows and those of the baseline."""
    present = sorted(set(frame[columns.arm].astype(str)))
    wanted = [arm for arm in present if arm not in (baseline, UNASSIGNED)] if arms is None else list(arms)
    unknown = [arm for arm in (baseline, *wanted) if arm not in present]
    require(not unknown, columns.arm, f"has no rows of arm {unknown}; it has {present}")
    require(baseline not in wanted, "arms", f"{baseline!r} cannot be compared with itself")
    for arm in wanted:
        yield arm, frame[frame[columns.arm].isin([arm, baseline])]


def _so_far(
    frame: pd.DataFrame,
    assigned: pd.DataFrame | None,
    day: str,
    last: int,
    arms: tuple[str, str],
    columns: Columns,
    level: float,
) -> Lift | None:
    rows, (arm, baseline) = frame[frame[day] <= last], arms
    units = rows.groupby(columns.arm)[columns.unit].nunique()
    if min(units.get(arm, 0), units.get(baseline, 0)) < LEAST_UNITS:
        return None
    if assigned is None:
        return lift_per_request(rows, baseline, columns=columns, arms=[arm], level=level)[0]
    if day in assigned:
        assigned = assigned[assigned[day] <= last]
    return lift(rows, baseline, assigned, columns=columns, arms=[arm], level=level)[0]


def _lift(rows: Stacked, arm: str, baseline: str) -> Lift:
    cells, signs = rows.cells, rows.signs
    past = rows.covariates
    value, cost = (adjusted(cells, cells.contrast(y, signs), past, signs) for y in (rows.value, rows.cost))
    treated = np.asarray(cells.arm == 1)
    usual = cells.contrast(rows.value, np.where(treated, 0.0, np.abs(signs)))
    totals = np.repeat(cells.size[treated], 2) * np.where(treated, 1.0, -1.0)
    total = adjusted(cells, cells.contrast(rows.value, totals), past, totals)
    (units, requests), (baseline_units, baseline_requests) = rows.counts(True), rows.counts(False)
    return Lift(
        arm=arm,
        baseline=baseline,
        units=units,
        requests=requests,
        baseline_units=baseline_units,
        baseline_requests=baseline_requests,
        value=cells.effect(value),
        relative=cells.ratio(value, usual),
        cost=cells.effect(cost),
        per_money=cells.ratio(value, cost),
        total=cells.effect(total),
    )
