"""Worth of personalizing: value and cost of a policy at several budgets, against the lowest level and a flat mixture.

The rows come from a trial with known propensities. Curves, prices and flat mixtures are found on earlier rows
(:mod:`shadowprice.learning.worth`), so everything is fixed before the rows that judge it are read, and each figure is a
mean of doubly robust scores. Where several stages follow each other, each may learn from the rows of all before it:
their errors are those of a martingale, and are not correlated. Errors of folds that learn from each other are
correlated, and an interval that ignores this is too short.

Source: Luedtke and van der Laan (2016), Statistical inference for the mean outcome under a possibly non-unique optimal
treatment strategy; Wager (2024), Sequential validation of treatment heterogeneity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shadowprice.campaign import Side
from shadowprice.checks import require
from shadowprice.evaluation.policy.judged import Scores, Stage
from shadowprice.evaluation.policy.uniform import flat_frontier
from shadowprice.evaluation.statistics.fieller import fieller
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.metric import Array
from shadowprice.evaluation.statistics.totals import StratifiedTotals, Total

UNKNOWN = float("nan")
COLUMNS: Mapping[str, Callable[[Scores], Array]] = {
    "cost": lambda each: each.cost,
    "value": lambda each: each.value,
    "lowest": lambda each: each.value - each.lowest[1],
    "flat": lambda each: each.value - each.flat,
    "flat_lowest": lambda each: each.flat - each.lowest[1],
}
"""Figure of a policy → its scores (cells, G)."""


@dataclass(frozen=True, kw_only=True)
class WorthAt:
    """Worth of a policy at one budget, over all requests of the window.

    share        of the campaign's budget; budget  the limit itself, minor units
    cost, value  of the policy, minor units and weighted responses
    lowest       value of the policy less that of the lowest level for every request
    flat         value of the policy less that of the best flat mixture at equal cost
    flat_lowest  value of this flat mixture less that of the lowest level
    each         minor units per unit of ``lowest``; None where the interval has no bounds
    effective_rows  side → rows that the weights of the policy are worth
    true_lowest, true_flat  the same where the truth is known, else NaN
    """

    share: float
    budget: float
    cost: Estimate
    value: Estimate
    lowest: Estimate
    flat: Estimate
    flat_lowest: Estimate
    each: Estimate | None
    effective_rows: Mapping[Side, float]
    true_lowest: float = UNKNOWN
    true_flat: float = UNKNOWN

    def times(self, factor: float) -> WorthAt:
        """Return the same with values in a unit of which one old unit is ``factor``."""
        return replace(
            self,
            each=None if self.each is None else self.each.times(1 / factor),
            **_scaled(self, ("value", "lowest", "flat", "flat_lowest", "true_lowest", "true_flat"), factor),
        )


@dataclass(frozen=True, kw_only=True)
class Worth:
    """Worth of a policy over a range of budgets.

    points        by ascending budget
    lowest, flat  area between the policy and the lowest level, and between it and the best flat mixture, divided by the
                  range of budgets: the mean over all of them
    true_lowest, true_flat  the same where the truth is known, else NaN
    rows, accounts  side → judged
    stages        policies that were judged one after the other, each found on the rows before it
    """

    points: tuple[WorthAt, ...]
    lowest: Estimate
    flat: Estimate
    rows: Mapping[Side, int]
    accounts: Mapping[Side, int]
    stages: int
    true_lowest: float = UNKNOWN
    true_flat: float = UNKNOWN

    def times(self, factor: float) -> Worth:
        """Return the same with values in a unit of which one old unit is ``factor``."""
        points = tuple(point.times(factor) for point in self.points)
        return replace(self, points=points, **_scaled(self, ("lowest", "flat", "true_lowest", "true_flat"), factor))

    def at(self, share: float) -> WorthAt:
        """Return the point nearest to a share of the campaign's budget."""
        return min(self.points, key=lambda point: abs(point.share - share))


def _scaled(found: WorthAt | Worth, names: Sequence[str], factor: float) -> dict[str, Any]:
    """Name → the value times ``factor``."""
    values = {name: getattr(found, name) for name in names}
    return {name: v.times(factor) if isinstance(v, Estimate) else factor * v for name, v in values.items()}


def worth(
    stages: Sequence[Stage],
    requests: Mapping[Side, float],
    shares: Sequence[float],
    limit: float,
    *,
    level: float = 0.95,
) -> Worth:
    """Estimate the worth of policies that were found on other rows; of several stages, the mean by their rows.

    Args:
        stages: rows and decisions; an account is in one stage.
        requests: side → expected requests; a mean over the rows of a side counts so many times.
        shares: (G,) of the campaign's budget that the decisions were made for, ascending.
        limit: the campaign's budget, in its own form.
        level: of the intervals.

    Intervals are t intervals, clustered by account and partner. Each holds by itself; a band of many is not
    simultaneous. The flat mixture keeps rules and caps, but no budget besides the main one.

    O(n · G · J) for n rows.

    Raises:
        InvalidInput: sides or shapes that differ, fewer than two accounts.
    """
    grid = np.asarray(shares, dtype=np.float64)
    area = mean_weights(grid)
    for stage in stages:
        require(set(stage.rows) == set(requests), "requests", f"needs the sides of the rows, {sorted(stage.rows)}")
        require(stage.flat.marginal.size == grid.size, "shares", f"must be {stage.flat.marginal.size}")
    groups = _Groups(stages, requests)
    at = {name: groups.total(column).estimates(level) for name, column in COLUMNS.items()}
    over = {
        name: groups.total(column, area).estimates(level)[0]
        for name, column in COLUMNS.items()
        if name in ("lowest", "flat")
    }
    price = _cost_of_one(groups, level)
    truth = _truth(stages, requests, grid.size)
    return Worth(
        points=tuple(
            WorthAt(
                share=float(share),
                budget=float(np.round(share * limit, 6)),
                cost=at["cost"][place],
                value=at["value"][place],
                lowest=at["lowest"][place],
                flat=at["flat"][place],
                flat_lowest=at["flat_lowest"][place],
                each=price[place],
                effective_rows={
                    side: float(sum(group.effective_rows[place] for group in of)) for side, of in groups.sides.items()
                },
                true_lowest=float(truth.lowest[place]),
                true_flat=float(truth.flat[place]),
            )
            for place, share in enumerate(grid)
        ),
        lowest=over["lowest"],
        flat=over["flat"],
        rows={side: int(sum(group.rows.sum() for group in of)) for side, of in groups.sides.items()},
        accounts={
            side: int(np.unique(np.concatenate([group.account for group in of])).size)
            for side, of in groups.sides.items()
        },
        stages=len(stages),
        true_lowest=float(truth.lowest @ area),
        true_flat=float(truth.flat @ area),
    )


def mean_weights(grid: Array) -> Array:
    """Weights (G,) of the mean of a line through points at ``grid`` (G,), ascending.

    >>> mean_weights(np.array([0.0, 1.0, 2.0]))
    array([0.25, 0.5 , 0.25])
    """
    if grid.size == 1:
        return np.ones(1)
    require(grid.size and np.all(np.diff(grid) > 0), "shares", "must be ascending")
    step = np.diff(grid) / 2
    return np.asarray((np.r_[step, 0.0] + np.r_[0.0, step]) / (grid[-1] - grid[0]))


class _Groups:
    """Scores of each side of each stage, which count by their rows."""

    def __init__(self, stages: Sequence[Stage], requests: Mapping[Side, float]) -> None:
        self.sides: dict[Side, list[Scores]] = {
            side: [Scores.of(stage.rows[side], stage.flat.shares[side], stage.flat.marginal) for stage in stages]
            for side in requests
        }
        self.all = [group for of in self.sides.values() for group in of]
        self.requests = [
            requests[side] * group.rows.sum() / sum(other.rows.sum() for other in of)
            for side, of in self.sides.items()
            for group in of
        ]
        account, partner = (
            np.concatenate([getattr(group, name) for group in self.all]) for name in ("account", "partner")
        )
        alone = np.array_equal(account, partner)
        self._totals = StratifiedTotals(
            [group.rows for group in self.all], self.requests, account, None if alone else partner
        )

    def total(self, column: Callable[[Scores], Array], weights: Array | None = None) -> Total:
        """Totals of columns (cells, G) of the scores, or of their weighted sum."""
        columns = [column(stage) for stage in self.all]
        return self._totals.of(columns if weights is None else [values @ weights[:, None] for values in columns])


def _cost_of_one(found: _Groups, level: float) -> list[Estimate | None]:
    """Cost above that of the lowest level per unit of value above it, at each budget."""
    paid = found.total(lambda each: each.cost - each.lowest[0])
    gained = found.total(lambda each: each.value - each.lowest[1])
    sums = found.total(lambda each: each.cost - each.lowest[0] + each.value - each.lowest[1])
    covariance = (sums.variance - paid.variance - gained.variance) / 2
    return [
        fieller(
            float(paid.value[place]),
            float(gained.value[place]),
            (float(paid.variance[place]), float(gained.variance[place])),
            float(covariance[place]),
            level=level,
            degrees=paid.degrees,
        )
        if gained.variance[place] > 0
        else None
        for place in range(paid.value.size)
    ]


@dataclass(frozen=True)
class _Truth:
    """True differences (G,) to the lowest level and to the best flat mixture; NaN where they are not known."""

    lowest: Array
    flat: Array


def _truth(stages: Sequence[Stage], requests: Mapping[Side, float], budgets: int) -> _Truth:
    exact = [
        Stage(rows={side: known for side, row in stage.rows.items() if (known := row.known())}, flat=stage.flat)
        for stage in stages
    ]
    if any(set(group.rows) != set(requests) for group in exact):
        return _Truth(np.full(budgets, UNKNOWN), np.full(budgets, UNKNOWN))
    groups = _Groups(exact, requests)
    value, cost = groups.total(COLUMNS["value"]).value, groups.total(COLUMNS["cost"]).value
    means = {
        name: {
            side: np.sum([getattr(group, name).sum(axis=0) for group in of], axis=0)
            / sum(group.rows.sum() for group in of)
            for side, of in groups.sides.items()
        }
        for name in ("level_value", "level_cost")
    }
    path = flat_frontier(means["level_value"], means["level_cost"], requests)
    return _Truth(groups.total(COLUMNS["lowest"]).value, value - np.interp(cost, path.cost, path.value))
