"""Arms of units, and the accounts that an experiment assigned, whether they asked or not."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from shadowprice.arms import HOUR, UNASSIGNED, WHOLE, Experiment
from shadowprice.evaluation.statistics.groups import codes
from shadowprice.experiments.columns import NUMBER, PERIOD, Columns
from shadowprice.experiments.periods import Period


def assign(experiment: Experiment, units: ArrayLike) -> NDArray[np.str_]:
    """Return the arm of each row, (N,): the one that the predictor gives its unit.

    Args:
        experiment: arms, shares and salt.
        units: (N,) identifiers of the experiment's unit (accounts, partners or clusters), repeats allowed.

    Raises:
        InvalidInput: an identifier is missing.

    Each unit is hashed once: O(N log N), and a hash for each unit.

    Example:
        >>> from shadowprice.arms import Arm
        >>> arms = (Arm(name="holdout", kind="holdout", share=5000), Arm(name="policy", kind="policy", share=5000))
        >>> assign(Experiment(arms=arms, salt="spring"), ["a", "b", "a"]).tolist()
        ['holdout', 'holdout', 'holdout']
    """
    names = np.asarray(units).astype(str) if np.asarray(units).dtype != object else np.asarray(units)
    of, size = codes(names, field="units")
    first = np.empty(size, dtype=np.intp)
    first[of[::-1]] = np.arange(of.size - 1, -1, -1)
    return experiment.arm_of([str(unit) for unit in names[first].tolist()])[of]


def assigned_in(accounts: pd.DataFrame, periods: Sequence[Period], columns: Columns) -> pd.DataFrame:
    """Return one row for each account and period in which the account has an arm.

    Args:
        accounts: all that the campaign can reach, as known before it, with their unit; other columns stay. Hours, where
            they are the unit, count in the periods that they are in.
        periods: of the experiment.
        columns: names of the columns.

    O(periods · N), and a hash for each unit and period.
    """
    parts = []
    for period in periods:
        own = accounts
        if columns.unit == "hour":
            first, last = f"{period.first:{HOUR}}", f"{period.last:{HOUR}}"
            own = accounts[(accounts["hour"] >= first) & (accounts["hour"] <= last)]
        arm = assign(period.experiment, own[columns.unit].astype(str).to_numpy())
        placed = own.copy()
        placed[columns.arm], placed[PERIOD] = arm, period.number
        parts.append(placed.loc[arm != UNASSIGNED])
    assigned: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return assigned


def numbers_in(units: int, periods: Sequence[Period], columns: Columns) -> pd.DataFrame:
    """Return the number of accounts of each arm and period by its share, where there is no list of accounts.

    Args:
        units: that asked, in any arm or none: the lift is then per such account.
        periods: of the experiment.
        columns: names of the columns.
    """
    rows = [
        {columns.arm: arm, PERIOD: period.number, NUMBER: units * share / WHOLE}
        for period in periods
        for arm, share in period.experiment.shares.items()
        if arm != UNASSIGNED and share
    ]
    return pd.DataFrame(rows)
