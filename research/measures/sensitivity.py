"""Uplift by groups of customers of rising sensitivity (S0, figure 5): does the model know whom money moves?"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.prediction.per_level import check_index
from shadowprice.evaluation.statistics.groups import codes
from shadowprice.evaluation.statistics.intervals import Estimate, Interval, Statistic, bootstrap
from shadowprice.evaluation.statistics.metric import Array, as_rows, as_weights, ratio


@dataclass(frozen=True, eq=False)
class UpliftByGroup:
    """Groups of equal size, the least sensitive first.

    accounts     int64 (G,)
    sensitivity  float64 (G,), mean of the accounts of each group
    uplift       G estimates: mean response under high incentives less that under low ones
    steepness    uplift of the most sensitive group less that of the least
    """

    accounts: NDArray[np.int64]
    sensitivity: NDArray[np.float64]
    uplift: tuple[Estimate, ...]
    steepness: Estimate


def uplift_by_sensitivity(
    y: ArrayLike,
    level: ArrayLike,
    sensitivity: ArrayLike,
    *,
    levels: int,
    account: ArrayLike | None = None,
    groups: int = 5,
    weight: ArrayLike | None = None,
    interval: Interval | None = None,
) -> UpliftByGroup:
    """Sort accounts into ``groups`` of equal size by sensitivity and compare high with low incentives in each.

    Args:
        y: (N,) responses of a trial whose levels were drawn at random.
        level: (N,) index of the level given; the upper half of the ``levels`` is high, the lower low, and the middle
            one of an odd number neither.
        sensitivity: (N,) the model's, such as the slope of S0's equation 21; rows of an account must agree.
        levels: how many there are.
        account: (N,) of each row; by default every row is its own.
        groups: 5 in the paper.
        weight: (N,), 1 / propensity where levels were not equally likely.
        interval: how to draw the intervals, by account; its ``cluster`` is replaced by ``account``.

    Raises:
        InvalidInput: fewer accounts than groups, fewer than two levels or groups, or rows of an account that disagree.

    O(N log N + replications · N · groups). A group without high or without low rows has NaN.
    """
    columns = as_rows({"y": y, "sensitivity": sensitivity})
    index = check_index(level, levels)
    rows = columns["y"].size
    if index.size != rows:
        raise InvalidInput(f"has {index.size} rows where y has {rows}", field="level")
    if levels < 2 or groups < 2:
        raise InvalidInput("needs at least two levels and two groups", field="levels" if levels < 2 else "groups")
    of, count = (np.arange(rows), rows) if account is None else codes(account, field="account")
    if of.size != rows:
        raise InvalidInput(f"has {of.size} rows where y has {rows}", field="account")
    if count < groups:
        raise InvalidInput(f"{count} accounts cannot be sorted into {groups} groups", field="account")
    own = np.zeros(count)
    own[of] = columns["sensitivity"]
    torn = own[of] != columns["sensitivity"]
    InvalidInput.refuse_rows(torn, "differs between rows of one account", field="sensitivity")
    group = np.empty(count, dtype=np.intp)
    group[np.argsort(own, kind="stable")] = np.arange(count) * groups // count
    high, low = index >= (levels + 1) // 2, index < levels // 2
    member = [group[of] == number for number in range(groups)]

    def gain(number: int) -> Statistic:
        def mean(weights: Array, chosen: NDArray[np.bool_]) -> Array:
            part = weights * (member[number] & chosen)
            return ratio(part @ columns["y"], part.sum(axis=1))

        return lambda weights: mean(weights, high) - mean(weights, low)

    most, least = gain(groups - 1), gain(0)

    weights = as_weights(weight, rows)
    how = replace(interval or Interval(replications=400), cluster=of)
    return UpliftByGroup(
        accounts=np.bincount(group, minlength=groups).astype(np.int64),
        sensitivity=np.array([own[group == number].mean() for number in range(groups)]),
        uplift=tuple(bootstrap(gain(number), weights, how) for number in range(groups)),
        steepness=bootstrap(lambda w: most(w) - least(w), weights, how),
    )
