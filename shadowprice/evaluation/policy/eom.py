"""Expected outcome metric: what the decisions of some curves would have brought and cost, on randomised rows.

At a price λ every row is given the level that :func:`shadowprice.decision.decide` chooses by its curves; the rows
that were really given that level, weighted by 1 / propensity, estimate its value (Hájek):

    V(λ) = Σ w·m·y / Σ w·m,    C(λ) = Σ w·m·c / Σ w·m,    m_i = 1[t_i = decision of i at λ]

(Ai et al. 2022, "LBCF"; Zhou et al. 2023, "DHCL"; S4). The value at a budget is read off the path (C, V).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.decision import decide
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.frontier import price_grid
from shadowprice.evaluation.policy.off_policy import importance
from shadowprice.evaluation.prediction.per_level import check_index
from shadowprice.evaluation.statistics.intervals import Statistic
from shadowprice.evaluation.statistics.metric import Array, as_rows, as_weights, metric, ratio

PRICES = 100
"""Prices on a path."""

Reach = Literal["within", "below", "above"]
"""Return whether a budget lies on the path, or below its cheapest or above its dearest end."""


@dataclass(frozen=True, eq=False)
class OutcomePath:
    """Value and cost per row at each of G prices.

    prices          (G,) descending
    value, cost     (G,), NaN where no row matches
    coverage        (G,) share of the rows that match
    effective_rows  (G,) what the matching rows' weights are worth, (Σ w)² / Σ w²
    """

    prices: Array
    value: Array
    cost: Array
    coverage: Array
    effective_rows: Array

    def at(self, budget: float) -> tuple[float, float, Reach]:
        """Value and price where the path first reaches ``budget`` per row, and whether it does.

        Out of reach, the nearest end stands in: without a budget that binds, the price is the path's lowest.
        """
        value, price = read_path(self.value[None], self.cost[None], self.prices, budget)
        known = self.cost[np.isfinite(self.cost)]
        reach: Reach = "within"
        if known.size and budget > known.max():
            reach = "above"
        elif known.size and budget < known[0]:
            reach = "below"
        return float(value[0]), float(price[0]), reach


def outcome_path(
    response: ArrayLike,
    expense: ArrayLike,
    level: ArrayLike,
    y: ArrayLike,
    paid: ArrayLike,
    propensity: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    prices: ArrayLike | None = None,
    normalise: bool = True,
    clip: float | None = None,
) -> OutcomePath:
    """The path of the curves ``response`` and ``expense`` (J, N) on N rows of a trial.

    Args:
        response: (J, N) expected value; expense: (J, N) expected cost.
        level: (N,) index of the level given; y: (N,) what it brought; paid: (N,) what it cost.
        propensity: (N,) probability of that level.
        weight: (N,) of the rows.
        prices: λ, by default 100 between which about equally many rows change their decision.
        normalise: divide by the matched weight (Hájek) rather than by the rows (Horvitz–Thompson).
        clip: cap of 1 / propensity.

    Raises:
        InvalidInput: shapes that do not agree, a level outside the curves, a propensity that is none.
    """
    path = _Matches(response, expense, level, y, paid, propensity, prices=prices, normalise=normalise, clip=clip)
    weights = as_weights(weight, path.rows)[None]
    value, spent = path.means(weights)
    return OutcomePath(path.prices, value[0], spent[0], path.coverage, path.effective_rows(weights[0]))


@metric
def eom(
    response: Array,
    expense: Array,
    level: Array,
    y: Array,
    paid: Array,
    propensity: Array,
    *,
    budget: float | None = None,
    price: float | None = None,
    prices: int = PRICES,
    normalise: bool = True,
    clip: float | None = None,
) -> Statistic:
    """Expected outcome at a ``budget`` per row, or at a ``price`` of money; see :func:`outcome_path`.

    Exactly one of them is given. At a budget the value is interpolated where the path, from the highest price down,
    first reaches the budget. Every bootstrap sample repeats this, so the interval includes the uncertainty of the
    spend. A budget beyond the path takes the value of the nearest end (:meth:`OutcomePath.at` reports it). NaN where no
    row matches. O(prices · N · J).
    """
    if (budget is None) == (price is None):
        raise InvalidInput("give either a budget per row or a price", field="budget")
    given = None if price is None else [price]
    path = _Matches(
        response, expense, level.astype(np.int64), y, paid, propensity,
        prices=given, normalise=normalise, clip=clip, count=prices,
    )  # fmt: skip

    def statistic(weight: Array) -> Array:
        value, spent = path.means(weight)
        return value[:, 0] if budget is None else read_path(value, spent, path.prices, budget)[0]

    return statistic


class _Matches:
    """Rows that match the decisions at every price, and their sums for any weights."""

    def __init__(
        self,
        response: ArrayLike,
        expense: ArrayLike,
        level: ArrayLike,
        y: ArrayLike,
        paid: ArrayLike,
        propensity: ArrayLike,
        *,
        prices: ArrayLike | None,
        normalise: bool,
        clip: float | None,
        count: int = PRICES,
    ) -> None:
        columns = as_rows({"response": response, "expense": expense, "y": y, "paid": paid, "propensity": propensity})
        value, cost = columns["response"], columns["expense"]
        if value.shape != cost.shape:
            raise InvalidInput(f"has shape {cost.shape} where the response has {value.shape}", field="expense")
        self.rows, self.normalise = value.shape[1], normalise
        given = check_index(level, value.shape[0])
        w = importance(np.ones(self.rows), columns["propensity"], clip)
        grid = price_grid(value, cost, count) if prices is None else np.asarray(prices, dtype=np.float64)
        self.prices = np.sort(grid)[::-1]
        # (n, 3) per price: weight, weighted value and weighted cost of the n rows that match.
        self._terms: list[tuple[NDArray[np.intp], Array]] = []
        ids = np.arange(self.rows)
        for price in self.prices:
            row = np.flatnonzero(decide(value, cost, [price], 0.0, ids).level == given)
            self._terms.append(
                (row, w[row, None] * np.stack([np.ones(row.size), columns["y"][row], columns["paid"][row]], axis=1))
            )

    @property
    def coverage(self) -> Array:
        """(G,): share of the rows that match."""
        return np.array([row.size / self.rows for row, _ in self._terms])

    def effective_rows(self, weight: Array) -> Array:
        """(G,): value of the weights of the matching rows."""
        own = [weight[row] * terms[:, 0] for row, terms in self._terms]
        return np.array([each.sum() ** 2 / max(float(each @ each), 1e-300) for each in own])

    def means(self, weight: Array) -> tuple[Array, Array]:
        """Value and cost per row, each (B, G), at weights (B, N)."""
        sums = np.stack([weight[:, row] @ terms for row, terms in self._terms], axis=1)
        total = sums[:, :, 0] if self.normalise else np.broadcast_to(weight.sum(axis=1)[:, None], sums.shape[:2])
        return ratio(sums[:, :, 1], total), ratio(sums[:, :, 2], total)


def read_path(value: Array, cost: Array, prices: Array, budget: float) -> tuple[Array, Array]:
    """Value and price (B,) where paths (B, G) at descending ``prices`` (G,) first reach ``budget``.

    The spend of a path, measured on few rows, need not rise at every step; at the first crossing no
    dearer price overspends. Clamped at the ends; NaN entries are passed over.
    """
    found, at = np.full(len(value), np.nan), np.full(len(value), np.nan)
    for b in range(len(value)):
        known = np.isfinite(value[b]) & np.isfinite(cost[b])
        if not known.any():
            continue
        v, c, lam = value[b, known], cost[b, known], prices[known]
        over = np.flatnonzero(c > budget)
        right = int(over[0]) if over.size else c.size - 1
        left = max(right - 1, 0) if over.size else right
        share = 1.0 if c[right] == c[left] else min(max((budget - c[left]) / (c[right] - c[left]), 0.0), 1.0)
        if right == 0:
            share = 1.0
        found[b] = v[left] + share * (v[right] - v[left])
        at[b] = lam[left] + share * (lam[right] - lam[left])
    return found, at
