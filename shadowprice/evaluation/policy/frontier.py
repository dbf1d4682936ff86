"""The rows of a trial, and the frontier of value against spend that a policy traces as the price of money falls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.off_policy import importance
from shadowprice.evaluation.prediction.per_level import check_index
from shadowprice.evaluation.statistics.clusters import Clusters
from shadowprice.evaluation.statistics.intervals import Statistic
from shadowprice.evaluation.statistics.metric import Array, as_rows, metric, ratio
from shadowprice.policy import Choices

Estimator = Literal["hajek", "dr"]
Granted = Callable[[NDArray[np.integer]], Array]
"""Gives the share (N,) of requests that caps grant, by the level (N,) that a policy chooses for each row."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RandomizedRows:
    """Rows whose level was drawn with known probabilities.

    level            (N,) index of the level given
    value, cost      (N,) what it brought and what it cost, minor units
    propensity       (N,) probability of that level when it was given
    account          (N,); whole accounts are drawn for the bands
    partner          (N,) partner of each row, where rows of different accounts with one partner are dependent too
    expected_value   (J, N) an outcome model's value of each level, by a model that has not seen the row; without
                     it only ``hajek`` can be used
    expected_cost    (J, N) the same of the cost
    """

    level: ArrayLike
    value: ArrayLike
    cost: ArrayLike
    propensity: ArrayLike
    account: ArrayLike | None = None
    partner: ArrayLike | None = None
    expected_value: ArrayLike | None = None
    expected_cost: ArrayLike | None = None


def price_grid(value: Array, cost: Array, count: int = 40) -> Array:
    """Prices (L,), descending to 0, between which about equally many accounts change their decision.

    Quantiles of the value per unit of cost that the steps from level to level bring.
    """
    return spread(step_worth(value, cost), count)


def step_worth(value: Array, cost: Array) -> Array:
    """Value per unit of cost of each step to a level that costs more and is worth more.

    The step is to the next level. Where a level does not cost more than the one before in the mean, it is to any.
    """
    mean = cost.mean(axis=1)
    pairs = list(pairwise(range(len(mean))))
    if not np.all(np.diff(mean) > 0):
        pairs = [(low, high) for low, high in permutations(range(len(mean)), 2) if mean[low] < mean[high]]
    worths = [np.zeros(0)]
    for low, high in pairs:
        gained, paid = value[high] - value[low], cost[high] - cost[low]
        worth = gained[paid > 0] / paid[paid > 0]
        worths.append(worth[worth > 0])
    return np.concatenate(worths)


def spread(worth: Array, count: int = 40) -> Array:
    """Prices (L,), descending to 0, at equally spaced quantiles of ``worth``; only 0 where it is empty."""
    if worth.size == 0:
        return np.zeros(1)
    steps = np.quantile(worth, np.linspace(0, 1, count - 1))
    return np.asarray(np.unique(np.r_[0.0, steps, 1.001 * steps[-1]])[::-1])


class LoggedPolicies:
    """Estimated value and cost of several deterministic policies, for any weights of the cells of a trial.

    Args:
        trial: the logged rows.
        chosen: of each of L policies, the level (N,) that it gives each row; read one after the other.
        levels: J.
        estimator: ``hajek``, or ``dr`` with the outcome model of the trial.
        cells: of rows that always have one weight.
        granted: gives the share (N,) of the requests like each row that caps let a policy's levels (N,) be given to.
            The others get the lowest level where that is always granted and allowed, and nothing otherwise. None: no
            caps.
        allowed: bool (J, N), levels that rules allow; None: all.

    ``value`` and ``cost`` (cells, L) are the sums of each policy's scores. ``effective_rows`` (L,) is what its weights
    are worth. Memory O(L · cells + N).
    """

    def __init__(
        self,
        trial: RandomizedRows,
        chosen: Iterable[NDArray[np.integer]],
        levels: int,
        estimator: Estimator,
        cells: Clusters,
        granted: Granted | None = None,
        allowed: NDArray[np.bool_] | None = None,
    ) -> None:
        if estimator not in get_args(Estimator):
            raise InvalidInput(f"must be one of {get_args(Estimator)}, got {estimator!r}", field="estimator")
        rows = _Rows.of(trial, levels, estimator)
        summed = [[cells.sums(score) for score in rows.capped(level, granted, allowed)] for level in chosen]
        self.value, self.cost, self._share, weight, square = (
            np.stack([sums[part] for sums in summed], axis=1) for part in range(5)
        )
        self.effective_rows: Array = np.nan_to_num(ratio(weight.sum(axis=0) ** 2, square.sum(axis=0)), nan=0.0)

    def at(self, weight: Array) -> tuple[Array, Array]:
        """Value and cost per row (B, L) at weights (B, cells); NaN where no row has weight."""
        share = weight @ self._share
        return ratio(weight @ self.value, share), ratio(weight @ self.cost, share)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Logged facts of N rows, and an outcome model's predictions for them; None without one."""

    level: NDArray[np.intp]
    inverse: Array
    logged: tuple[Array, Array]
    model: tuple[Array, Array] | None

    @classmethod
    def of(cls, trial: RandomizedRows, levels: int, estimator: Estimator) -> _Rows:
        columns = as_rows({name: getattr(trial, name) for name in ("value", "cost", "propensity")})
        model = None
        if estimator != "hajek":
            for name in ("value", "cost"):
                if getattr(trial, f"expected_{name}") is None:
                    field = f"trial.expected_{name}"
                    raise InvalidInput(f"is needed by the estimator {estimator!r}", field=field)
            model = np.asarray(trial.expected_value), np.asarray(trial.expected_cost)
        inverse = importance(np.ones(columns["value"].size), columns["propensity"])
        return cls(check_index(trial.level, levels), inverse, (columns["value"], columns["cost"]), model)

    def capped(
        self, chosen: NDArray[np.integer], granted: Granted | None, allowed: NDArray[np.bool_] | None
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Terms of a policy as :meth:`sums` of which caps grant a share; the rest gets the lowest level, or nothing."""
        own = self.sums(chosen)
        if granted is None:
            return own
        share, lowest = granted(chosen), np.zeros_like(chosen)
        if np.all(granted(lowest) == 1.0):
            value, cost, divisor, weight, _ = self.sums(lowest)
            if allowed is not None:
                value, cost, weight = (np.where(allowed[0], values, 0.0) for values in (value, cost, weight))
                divisor = np.where(allowed[0], divisor, 1.0)
        else:
            value = cost = weight = np.zeros(chosen.size)
            divisor = np.ones(chosen.size)
        mixed = [
            share * mine + (1.0 - share) * other
            for mine, other in zip(own, (value, cost, divisor, weight), strict=False)
        ]
        return mixed[0], mixed[1], mixed[2], mixed[3], mixed[3] ** 2

    def sums(self, chosen: NDArray[np.integer]) -> tuple[Array, Array, Array, Array, Array]:
        """Terms (N,) of one policy: of the value, of the cost, of what both are divided by; the weight, its square."""
        w = np.where(chosen == self.level, self.inverse, 0.0)
        if self.model is None:
            value, cost = (w * values for values in self.logged)
            return value, cost, w, w, w**2
        ids = np.arange(w.size)
        value, cost = (
            np.asarray(model[chosen, ids] + w * (logged - model[self.level, ids]), dtype=np.float64)
            for model, logged in zip(self.model, self.logged, strict=True)
        )
        return value, cost, np.ones(w.size), w, w**2


def decided(
    trial: RandomizedRows,
    value: ArrayLike,
    cost: ArrayLike,
    prices: ArrayLike | None,
    estimator: Estimator,
    cells: Clusters,
    allowed: NDArray[np.bool_] | None = None,
    granted: Granted | None = None,
) -> tuple[LoggedPolicies, Array]:
    """Policies that decide by the curves (J, N) at each price, and the prices (L,), descending.

    Without ``prices`` 40 are chosen by :func:`price_grid`. ``allowed`` (J, N) are the levels that rules allow, and
    ``granted`` tells the shares that caps grant (:class:`LoggedPolicies`).
    """
    rows = np.size(np.asarray(trial.value))
    worth, paid = check_curves(value, cost, rows)
    asked = price_grid(worth, paid) if prices is None else np.sort(np.asarray(prices, dtype=np.float64))[::-1]
    ids, choices = np.arange(rows), Choices(worth, paid, allowed)
    chosen = (choices.decide([price], 0.5, ids).level for price in asked)
    return LoggedPolicies(trial, chosen, len(worth), estimator, cells, granted, allowed), asked


def check_curves(value: ArrayLike, cost: ArrayLike, rows: int) -> tuple[Array, Array]:
    """The curves that a policy decides by as float64, refused unless both are (J, ``rows``)."""
    worth, paid = np.asarray(value, dtype=np.float64), np.asarray(cost, dtype=np.float64)
    for name, curve in (("value", worth), ("cost", paid)):
        if curve.ndim != 2 or curve.shape != (worth.shape[0], rows):
            raise InvalidInput(f"must have shape (levels, {rows}), got {curve.shape}", field=name)
    return worth, paid


def read_at(value: Array, cost: Array, spend: float) -> Array:
    """Value (B,) at ``spend`` along the paths (B, L), clamped at their ends."""
    out = np.full(len(value), np.nan)
    for b in range(len(value)):
        known = np.isfinite(value[b]) & np.isfinite(cost[b])
        if known.any():
            order = np.argsort(cost[b, known], kind="stable")
            out[b] = np.interp(spend, cost[b, known][order], value[b, known][order])
    return out


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
) -> Statistic:
    """Expected outcome of deciding by curves at a ``budget`` per row, or at a ``price`` of money.

    At a price λ every row is given the level that :class:`shadowprice.policy.Choices` decides by its curves; the rows
    that were really given that level, weighted by 1 / propensity, estimate value and cost (Hájek):

        V(λ) = Σ w·m·y / Σ w·m,    C(λ) = Σ w·m·c / Σ w·m,    m_i = 1[t_i = decision of i at λ]

    At a budget the value is interpolated on the path (C, V) over 40 prices, in every bootstrap sample anew; a budget
    beyond the path takes the value of the nearest end. NaN where no row matches. O(prices · N · J).

    Args:
        response: (J, N) expected value; expense: (J, N) expected cost.
        level: (N,) index of the level given; y: (N,) what it brought; paid: (N,) what it cost.
        propensity: (N,) probability of that level.
        budget, price: exactly one of them.

    Source: Ai et al. (2022), "LBCF"; Zhou et al. (2023), "DHCL"; S4.
    """
    require((budget is None) != (price is None), "budget", "give either a budget per row or a price")
    trial = RandomizedRows(level=level.astype(np.int64), value=y, cost=paid, propensity=propensity)
    rows = Clusters(np.arange(y.size), y.size)
    path, _ = decided(trial, response, expense, None if price is None else [price], "hajek", rows)

    def statistic(weight: Array) -> Array:
        value, spent = path.at(weight)
        return value[:, 0] if budget is None else read_at(value, spent, budget)

    return statistic
