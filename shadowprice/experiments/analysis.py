"""Result of an experiment: arms, sample ratio, lift, and lift by day and segment, from a table of requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from shadowprice.arms import UNASSIGNED, Experiment
from shadowprice.errors import InvalidInput, InvalidTable
from shadowprice.experiments.assignment import assign
from shadowprice.experiments.lifts import Columns, DailyLift, Lift, daily_lift, lift
from shadowprice.experiments.sample_ratio import SampleRatio, sample_ratio, sequential_sample_ratio
from shadowprice.experiments.segments import Heterogeneity, by_segment

ALARM = 0.001
"""Always-valid p-value of the sample ratio below which the lift is not to be trusted."""


@dataclass(frozen=True)
class ArmTotals:
    """Sums over the requests of one arm; cost in minor units."""

    arm: str
    units: int
    requests: int
    value: float
    cost: int


@dataclass(frozen=True, eq=False)
class Analysis:
    """Result of an experiment.

    sample_ratio  of all units that asked, by the arm that they have now, also before it was raised
    ratio_by_day  always-valid p-value of the sample ratio after each day
    mismatch      whether the newest of them is below :data:`ALARM`
    lifts, daily  of each arm against the baseline
    segments      arm → lift by segment; empty without a segment
    """

    baseline: str
    level: float
    arms: tuple[ArmTotals, ...]
    sample_ratio: SampleRatio
    ratio_by_day: tuple[float, ...]
    mismatch: bool
    lifts: tuple[Lift, ...]
    daily: tuple[DailyLift, ...]
    segments: dict[str, Heterogeneity]


def analyse(
    frame: pd.DataFrame,
    experiment: Experiment,
    *,
    asked: pd.DataFrame | None = None,
    baseline: str = "",
    columns: Columns | None = None,
    segment: str = "",
    level: float = 0.95,
) -> Analysis:
    """Analyse the requests of an experiment.

    Args:
        frame: one row for each request whose outcome is known; columns of :class:`Columns`, and ``day``.
        experiment: as it is now.
        asked: all requests, with unit, arm and ``day``; None: those of ``frame``. Outcomes that are still open must not
            look like lost accounts.
        baseline: name of an arm; empty: the first holdout.
        columns: names of the columns.
        segment: column of a property of the unit; empty: none.
        level: of the intervals.

    Raises:
        InvalidTable: an arm in the log is not the one that the hash gives: salt or arms were changed by more than a
            raise.
        InvalidInput: there is no holdout and no baseline is named, or the log has no rows of an arm.
    """
    named = columns or Columns()
    every = frame if asked is None else asked
    named.check(frame, "day")
    given = every[named.arm].astype(str).to_numpy()
    expected = assign(experiment, every[named.unit].to_numpy())
    wrong = (given != expected) & (given != UNASSIGNED)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise InvalidTable(
            f"{int(wrong.sum())} rows have another arm than the hash gives, the first {given[at]!r} instead of "
            f"{expected[at]!r}: analyse with the experiment that was served",
            field=named.arm,
            rows=[at],
        )
    chosen = baseline or next((arm.name for arm in experiment.arms if arm.kind == "holdout"), "")
    if not chosen:
        raise InvalidInput("must name an arm: the experiment has no holdout", field="baseline")
    present = frame[frame[named.arm] != UNASSIGNED]
    arms = [arm.name for arm in experiment.arms if arm.name != chosen and (present[named.arm] == arm.name).any()]
    ratio, _, by_day = sample_ratios(every, experiment, named)
    return Analysis(
        baseline=chosen,
        level=level,
        arms=tuple(_totals(frame, [*(arm.name for arm in experiment.arms), UNASSIGNED], named)),
        sample_ratio=ratio,
        ratio_by_day=by_day,
        mismatch=bool(by_day and by_day[-1] < ALARM),
        lifts=tuple(lift(present, chosen, columns=named, arms=arms, level=level)),
        daily=tuple(daily_lift(present, chosen, columns=named, arms=arms, level=level)),
        segments={
            arm: by_segment(present, chosen, arm, segment, columns=named, level=level) for arm in arms if segment
        },
    )


def _totals(frame: pd.DataFrame, arms: Sequence[str], columns: Columns) -> list[ArmTotals]:
    found = []
    for arm in arms:
        rows = frame[frame[columns.arm] == arm]
        if len(rows):
            value, cost = float(rows[columns.value].sum()), round(float(rows[columns.cost].sum()))
            found.append(ArmTotals(arm, int(rows[columns.unit].nunique()), len(rows), value, cost))
    return found


def sample_ratios(
    asked: pd.DataFrame, experiment: Experiment, columns: Columns
) -> tuple[SampleRatio, tuple[int, ...], tuple[float, ...]]:
    """Return the sample ratio of the units by their present arm, each counted on its first day; days and p-values.

    Args:
        asked: requests with their unit and ``day``.
        experiment: as it is now.
        columns: names of the columns.

    The p-values are those of :func:`~shadowprice.experiments.sample_ratio.sequential_sample_ratio`, one a day.
    """
    unit = asked[columns.unit].to_numpy()
    units = pd.DataFrame({"unit": unit, "arm": assign(experiment, unit), "day": asked["day"].to_numpy()})
    units = units.sort_values("day", kind="stable").drop_duplicates("unit")
    shares = {arm: share for arm, share in experiment.shares.items() if share}
    counts = units["arm"].value_counts()
    once = sample_ratio({arm: int(counts.get(arm, 0)) for arm in shares}, shares)
    table = pd.crosstab(units["day"], units["arm"]).reindex(columns=list(shares), fill_value=0)
    days = tuple(int(day) for day in table.index)
    if len(shares) < 2:
        return once, days, (1.0,) * len(table)
    return once, days, tuple(sequential_sample_ratio(table.to_numpy(), list(shares.values())).tolist())
