"""Result of an experiment: arms, sample ratio, lift, and lift by day and segment, from a table of requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from shadowprice.arms import UNASSIGNED, Experiment
from shadowprice.checks import require
from shadowprice.experiments.assignment import assign, assigned_in, numbers_in
from shadowprice.experiments.columns import PERIOD, Columns
from shadowprice.experiments.lifts import DailyLift, Lift, daily_lift, lift, lift_per_request
from shadowprice.experiments.periods import BEFORE, Period, in_periods
from shadowprice.experiments.sample_ratio import SampleRatio, sample_ratio, sequential_sample_ratio
from shadowprice.experiments.segments import Heterogeneity, by_segment

ALARM = 0.001
"""p-value of a sample ratio below which it is a mismatch."""


@dataclass(frozen=True)
class ArmTotals:
    """Sums over the requests of one arm; cost in minor units.

    assigned  accounts of the arm by the list, as it is now; None without a list
    """

    arm: str
    assigned: int | None
    units: int
    requests: int
    value: float
    cost: int


@dataclass(frozen=True, eq=False)
class Analysis:
    """Result of an experiment.

    unlisted       accounts, of those that asked, that are not in the list; None without a list
    assigned_ratio  sample ratio of the listed units, asked or not, by the arm that they have now; None without a list
    asked_ratio    likewise of the units that asked, also before their arm was raised. Where arms differ in it, the
                   incentive brings units, or rows are lost
    ratio_by_day   always-valid p-value of ``asked_ratio`` after each day
    mismatch       whether the lift is not to be read: the listed units do not have the shares; without a list, those
                   that asked do not have them
    periods        of constant shares
    lifts, daily   of each arm against the baseline, per assigned account, or per account that asked without a list
    per_request    of each arm likewise, which compares the units that asked
    segments       arm → lift by segment; empty without a segment
    """

    baseline: str
    level: float
    arms: tuple[ArmTotals, ...]
    unlisted: int | None
    assigned_ratio: SampleRatio | None
    asked_ratio: SampleRatio
    ratio_by_day: tuple[float, ...]
    mismatch: bool
    periods: tuple[Period, ...]
    lifts: tuple[Lift, ...]
    per_request: tuple[Lift, ...]
    daily: tuple[DailyLift, ...]
    segments: dict[str, Heterogeneity]

    @property
    def asked_differs(self) -> bool:
        """Return whether the arms differ in how many of their units asked."""
        return bool(self.ratio_by_day and self.ratio_by_day[-1] < ALARM)


def analyze(
    frame: pd.DataFrame,
    experiment: Experiment,
    *,
    known: ArrayLike | None = None,
    accounts: pd.DataFrame | None = None,
    baseline: str = "",
    columns: Columns | None = None,
    segment: str = "",
    level: float = 0.95,
) -> Analysis:
    """Analyze the requests of an experiment.

    Args:
        frame: one row for each request; columns of :class:`Columns`, and ``day``. With ``decided_at``, periods of
            constant shares are found to the request, and to the day otherwise.
        experiment: as it is now.
        known: bool (N,), whether the outcome of each request is known; None: all. The lift is of those. The sample
            ratio is of all: outcomes that are still open must not look like lost accounts.
        accounts: one row for each account that the campaign can reach, as known before it, with unit, covariates and
            segment. None: the shares stand for the list, intervals are wider, and covariates are not used.
        baseline: name of an arm; empty: the first holdout.
        columns: names of the columns.
        segment: column of a property of the unit; empty: none.
        level: of the intervals.

    Raises:
        InvalidTable: an arm in the log is not the one that the hash gives: salt or arms were changed by more than a
            raise.
        InvalidInput: there is no holdout and no baseline is named, the log has no rows of an arm, or a segment has no
            list of accounts.
    """
    named = columns or Columns()
    named.check(frame, "day")
    chosen = baseline or next((arm.name for arm in experiment.arms if arm.kind == "holdout"), "")
    require(chosen, "baseline", "must name an arm: the experiment has no holdout")
    require(not segment or accounts is not None, "segment", "needs a list of the accounts that has it")
    every, periods = in_periods(frame, experiment, named)
    rows = every if known is None else every[np.asarray(known, dtype=np.bool_)]
    present = rows[rows[PERIOD] != BEFORE]
    units = pd.Series(every[named.unit].unique())
    if accounts is None:
        unlisted, assigned = None, numbers_in(units.size, periods, named)
    else:
        unlisted, assigned = int((~units.isin(accounts[named.unit])).sum()), assigned_in(accounts, periods, named)
    arms = [arm.name for arm in experiment.arms if arm.name != chosen and (present[named.arm] == arm.name).any()]
    ratio, _, by_day = sample_ratios(every, experiment, named)
    listed = None if accounts is None else _listed_ratio(accounts, experiment, named)
    differs = bool(by_day and by_day[-1] < ALARM)
    how: Any = {"columns": named, "arms": arms, "level": level}
    return Analysis(
        baseline=chosen,
        level=level,
        arms=tuple(_totals(rows, [*(arm.name for arm in experiment.arms), UNASSIGNED], listed, named)),
        unlisted=unlisted,
        assigned_ratio=listed,
        asked_ratio=ratio,
        ratio_by_day=by_day,
        mismatch=differs if listed is None else listed.mismatch,
        periods=periods,
        lifts=tuple(lift(present, chosen, assigned, **how)),
        per_request=tuple(lift_per_request(present, chosen, **how)),
        daily=tuple(daily_lift(present, chosen, assigned, **how)),
        segments={
            arm: by_segment(present, chosen, arm, assigned, segment, columns=named, level=level)
            for arm in arms
            if segment
        },
    )


def _totals(frame: pd.DataFrame, arms: Sequence[str], listed: SampleRatio | None, columns: Columns) -> list[ArmTotals]:
    totals = []
    for arm in arms:
        rows = frame[frame[columns.arm] == arm]
        if len(rows):
            value, cost = float(rows[columns.value].sum()), round(float(rows[columns.cost].sum()))
            assigned = None if listed is None else int(listed.observed.get(arm, 0))
            totals.append(ArmTotals(arm, assigned, int(rows[columns.unit].nunique()), len(rows), value, cost))
    return totals


def _listed_ratio(accounts: pd.DataFrame, experiment: Experiment, columns: Columns) -> SampleRatio:
    """Sample ratio of the units of a list, by the arm that they have now."""
    units = accounts[columns.unit].drop_duplicates().astype(str).to_numpy()
    return _ratio(pd.Series(assign(experiment, units)), experiment)


def _ratio(arms: pd.Series, experiment: Experiment) -> SampleRatio:
    shares = {arm: share for arm, share in experiment.shares.items() if share}
    counts = arms.value_counts()
    return sample_ratio({arm: int(counts.get(arm, 0)) for arm in shares}, shares, level=ALARM)


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
    once = _ratio(units["arm"], experiment)
    shares = {arm: share for arm, share in experiment.shares.items() if share}
    table = pd.crosstab(units["day"], units["arm"]).reindex(columns=list(shares), fill_value=0)
    days = tuple(int(day) for day in table.index)
    if len(shares) < 2:
        return once, days, (1.0,) * len(table)
    return once, days, tuple(sequential_sample_ratio(table.to_numpy(), list(shares.values())).tolist())
