"""Times in which the shares of an experiment were constant, found from the arms in the log."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.arms import CANARY, UNASSIGNED, WHOLE, Experiment
from shadowprice.errors import InvalidTable
from shadowprice.evaluation.statistics.groups import codes
from shadowprice.experiments.columns import PERIOD, Columns

BEFORE = -1
"""Period of the requests that were answered before the experiment."""


@dataclass(frozen=True)
class Period:
    """Time in which the shares were constant.

    number      of the period, 0 … K; raises that were served together leave numbers out
    experiment  with the raises that were served by then
    first, last  times of its first and last request, as in the table
    requests    of all arms
    """

    number: int
    experiment: Experiment
    first: Any
    last: Any
    requests: int


def in_periods(
    asked: pd.DataFrame, experiment: Experiment, columns: Columns
) -> tuple[pd.DataFrame, tuple[Period, ...]]:
    """Return the requests with their period, and their arm in it by the hash; and the periods that have requests.

    The log does not record shares. The first arms, and each raise, take an interval of places, whose units are
    ``unassigned`` before. The next period therefore begins after the last request of the interval that is
    ``unassigned``; while predictors restart, it is still the period before. Without such a request it begins with the
    interval's first request. Requests before the experiment have period −1 and no arm.

    Args:
        asked: all requests with unit, arm and ``decided_at``, or ``day`` where there is none.
        experiment: as it is now.
        columns: names of the columns.

    Raises:
        InvalidTable: an arm is not the one that the hash gives, because salt or arms were changed by more than a raise;
            or the arms were never served.

    O(N log N).
    """
    logged = asked[columns.arm].astype(str).to_numpy()
    unit, size = codes(asked[columns.unit].astype(str).to_numpy(), field=columns.unit)
    names = np.empty(size, dtype=object)
    names[unit] = asked[columns.unit].astype(str).to_numpy()
    place = experiment.places(names.tolist())
    expected = experiment.arm_of(names.tolist())[unit]
    wrong = (logged != expected) & (logged != UNASSIGNED) & (logged != CANARY)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise InvalidTable(
            f"{int(wrong.sum())} rows have another arm than the hash gives, the first {logged[at]!r} instead of "
            f"{expected[at]!r}: analyze with the experiment that was served",
            field=columns.arm,
            rows=[at],
        )
    time = asked["decided_at" if "decided_at" in asked else "day"]
    stages = [replace(experiment, raises=experiment.raises[:raised]) for raised in range(len(experiment.raises) + 1)]
    # Places that have an arm after each raise.
    ends = [WHOLE - stage.shares[UNASSIGNED] for stage in stages]
    period = np.full(len(asked), len(stages) - 1)
    after = np.zeros(len(asked), dtype=np.bool_)
    for number, (start, end) in reversed(list(enumerate(zip([0, *ends], ends, strict=False)))):
        own = ((place >= start) & (place < end))[unit]
        if own.any():
            after = _after(time, own & (logged == UNASSIGNED), own & (logged == expected), first=not number)
        # A raise whose units did not ask comes with the next one.
        period[~after] = number - 1
    marked = asked.assign(**{PERIOD: period, columns.arm: _arms(stages, names.tolist(), unit, period)})
    periods = []
    for number, stage in enumerate(stages):
        rows = period == number
        if rows.any():
            periods.append(Period(number, stage, time[rows].min(), time[rows].max(), int(rows.sum())))
    if not periods:
        raise InvalidTable(
            "the log was answered without the experiment until its end; restart predictor and ledger with it, and wait",
            field=columns.arm,
        )
    return marked, tuple(periods)


def _after(time: pd.Series, before: NDArray[np.bool_], since: NDArray[np.bool_], *, first: bool) -> NDArray[np.bool_]:
    """Return whether each request came after a change: after the last one ``before`` it, or from the first ``since``.

    Without such a request the first arms were there from the start.
    """
    if before.any():
        after = np.asarray(time > time[before].max())
        return after & bool((after & since).any())
    return np.ones(len(time), dtype=np.bool_) if first else np.asarray(time >= time[since].min())


def _arms(
    stages: list[Experiment], names: list[str], unit: NDArray[np.intp], period: NDArray[np.intp]
) -> NDArray[np.object_]:
    arm = np.full(period.size, UNASSIGNED, dtype=object)
    for number, stage in enumerate(stages):
        rows = period == number
        if rows.any():
            arm[rows] = stage.arm_of(names)[unit[rows]]
    return arm
