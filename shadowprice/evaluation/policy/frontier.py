"""The budget–value frontier of a policy, estimated off-policy with bands, and two policies at equal spend."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.decision import decide
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.off_policy import importance, shrunk
from shadowprice.evaluation.prediction.per_level import check_index
from shadowprice.evaluation.statistics.intervals import Estimate, Interval, bands, estimates
from shadowprice.evaluation.statistics.metric import Array, as_rows, ratio

Estimator = Literal["hajek", "dr", "switch", "shrunk"]

SWITCH_AT = 20.0
"""Weight above which the switch estimator trusts its model; ten levels drawn evenly have weights of 10."""
SHRINK_AT = 100.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Trial:
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


@dataclass(frozen=True)
class Frontier:
    """Value against spend as the price of money falls, per row, each point with its band.

    prices          float64 (L,), descending
    value, cost     (L,) estimates; value_low, value_high, cost_low, cost_high (L,) their intervals
    effective_rows  (L,) rows that the weights at each price are worth
    """

    prices: Array
    value: Array
    value_low: Array
    value_high: Array
    cost: Array
    cost_low: Array
    cost_high: Array
    effective_rows: Array


@dataclass(frozen=True)
class EqualSpend:
    """Two policies at one spend per row.

    spend           minor units per row
    candidate       value per row, incumbent likewise, with intervals
    difference      candidate − incumbent, its interval from the accounts that both share
    effective_rows  the fewer of what both policies' weights are worth near that spend
    reached         whether both policies can spend that much; where not, the nearest spend stands in
    """

    spend: float
    candidate: Estimate
    incumbent: Estimate
    difference: Estimate
    effective_rows: float
    reached: bool


def frontier(
    trial: Trial,
    value: ArrayLike,
    cost: ArrayLike,
    *,
    prices: ArrayLike | None = None,
    estimator: Estimator = "hajek",
    interval: Interval | None = None,
) -> Frontier:
    """Estimate the frontier of the policy that decides by these curves.

    Args:
        trial: rows to estimate it from, none of which the curves were fitted on.
        value: (J, N) expected value of each level for each row; cost: (J, N) its expected cost.
        prices: of money, to decide at; by default 40 that spread the decisions evenly.
        estimator: ``hajek``, ``dr``, ``switch`` or ``shrunk``, see :mod:`~shadowprice.evaluation.policy.off_policy`.
        interval: of the bands; its cluster and partner are the trial's unless it has a cluster.

    The decisions are those of :func:`shadowprice.decision.decide`. O(L · N · (J + replications)).
    """
    path, asked = decided(trial, value, cost, prices, estimator)
    at = path.at(np.ones((1, path.rows)))
    lows, highs = bands(lambda counts: np.stack(path.at(counts), axis=1), path.rows, _interval(trial, interval))
    return Frontier(
        asked, at[0][0], lows[0], highs[0], at[1][0], lows[1], highs[1], path.effective_rows
    )  # fmt: skip


def at_equal_spend(
    trial: Trial,
    candidate: tuple[ArrayLike, ArrayLike],
    incumbent: tuple[ArrayLike, ArrayLike],
    *,
    spend: float | None = None,
    estimator: Estimator = "hajek",
    interval: Interval | None = None,
) -> EqualSpend:
    """Compare two policies where they spend alike.

    Args:
        trial: rows that neither was fitted on.
        candidate, incumbent: (value (J, N), cost (J, N)) of the curves that each decides by.
        spend: per row, minor units; by default what the trial itself spent.
        estimator, interval: as for :func:`frontier`.

    In every bootstrap sample both frontiers are read at ``spend`` by linear interpolation, so the
    difference carries the uncertainty of the spend as well as of the value.
    """
    paths = [decided(trial, *curves, None, estimator)[0] for curves in (candidate, incumbent)]
    rows = paths[0].rows
    at = float(np.mean(as_rows({"cost": trial.cost})["cost"])) if spend is None else float(spend)

    def values(weight: Array) -> Array:
        """Candidate, incumbent and their difference, (B, 3)."""
        own, other = (read_at(*path.at(weight), at) for path in paths)
        return np.stack([own, other, own - other], axis=1)

    own, other, difference = estimates(values, rows, _interval(trial, interval))
    effective, reached = [], True
    for path in paths:
        cost = path.at(np.ones((1, rows)))[1][0]
        effective.append(float(path.effective_rows[np.argmin(np.abs(cost - at))]))
        reached &= bool(np.min(cost) <= at <= np.max(cost))
    return EqualSpend(at, own, other, difference, min(effective), reached)


def price_grid(value: Array, cost: Array, count: int = 40) -> Array:
    """Prices (L,), descending to 0, between which about equally many accounts change their decision.

    Quantiles of the value per unit of cost that the steps from level to level bring.
    """
    return spread(step_worth(value, cost), count)


def step_worth(value: Array, cost: Array) -> Array:
    """Value per unit of cost of each step to the next level that costs more and is worth more."""
    gained, paid = np.diff(value, axis=0), np.diff(cost, axis=0)
    worth = gained[paid > 0] / paid[paid > 0]
    return np.asarray(worth[worth > 0])


def spread(worth: Array, count: int = 40) -> Array:
    """Prices (L,), descending to 0, at equally spaced quantiles of ``worth``; only 0 where it is empty."""
    if worth.size == 0:
        return np.zeros(1)
    steps = np.quantile(worth, np.linspace(0, 1, count - 1))
    return np.asarray(np.unique(np.r_[0.0, steps, 1.001 * steps[-1]])[::-1])


class LoggedPolicies:
    """Estimated value and cost of several deterministic policies, for any weights of the trial's rows.

    Args:
        trial: the logged rows.
        chosen: (L, N), the level that each of L policies gives each row.
        levels: J.
        estimator: see :mod:`~shadowprice.evaluation.policy.off_policy`.

    ``rows`` is N, ``effective_rows`` (L,) what the weights of each policy are worth.
    """

    def __init__(self, trial: Trial, chosen: NDArray[np.integer], levels: int, estimator: Estimator) -> None:
        if estimator not in get_args(Estimator):
            raise InvalidInput(f"must be one of {get_args(Estimator)}, got {estimator!r}", field="estimator")
        logged = as_rows({name: getattr(trial, name) for name in ("value", "cost", "propensity")})
        self.rows = logged["value"].size
        given = check_index(trial.level, levels)
        ids = np.arange(self.rows)
        w = np.where(chosen == given, importance(np.ones(self.rows), logged["propensity"]), 0.0)
        self.effective_rows: Array = np.nan_to_num(ratio(w.sum(axis=1) ** 2, (w**2).sum(axis=1)), nan=0.0)
        if estimator == "hajek":
            self._terms = [(w * logged[name]).T for name in ("value", "cost")]
            self._shares: Array | None = np.ascontiguousarray(w.T)
            return
        w = shrunk(w, SWITCH_AT if estimator == "switch" else None, SHRINK_AT if estimator == "shrunk" else None)
        self._terms, self._shares = [], None
        for name in ("value", "cost"):
            model = getattr(trial, f"expected_{name}")
            if model is None:
                raise InvalidInput(f"is needed by the estimator {estimator!r}", field=f"trial.expected_{name}")
            model = np.asarray(model, dtype=np.float64)
            expected = np.take_along_axis(model, chosen, axis=0)
            self._terms.append((expected + w * (logged[name] - model[given, ids])).T)

    def at(self, weight: Array) -> tuple[Array, Array]:
        """Value and cost per row (B, L) at weights (B, N); NaN where no row has weight."""
        share = weight.sum(axis=1, keepdims=True) if self._shares is None else weight @ self._shares
        share = np.broadcast_to(share, (len(weight), self.effective_rows.size))
        value, cost = (ratio(weight @ terms, share) for terms in self._terms)
        return value, cost


def decided(
    trial: Trial, value: ArrayLike, cost: ArrayLike, prices: ArrayLike | None, estimator: Estimator
) -> tuple[LoggedPolicies, Array]:
    """Policies that decide by the curves (J, N) at each price, and the prices (L,), descending.

    Without ``prices`` 40 are chosen by :func:`price_grid`.
    """
    rows = np.size(np.asarray(trial.value))
    worth, paid = check_curves(value, cost, rows)
    asked = price_grid(worth, paid) if prices is None else np.sort(np.asarray(prices, dtype=np.float64))[::-1]
    ids = np.arange(rows)
    chosen = np.stack([decide(worth, paid, [price], 0.5, ids).level for price in asked]).astype(np.intp)
    return LoggedPolicies(trial, chosen, len(worth), estimator), asked


def check_curves(value: ArrayLike, cost: ArrayLike, rows: int) -> tuple[Array, Array]:
    """The curves that a policy decides by as float64, refused unless both are (J, ``rows``)."""
    worth, paid = np.asarray(value, dtype=np.float64), np.asarray(cost, dtype=np.float64)
    for name, each in (("value", worth), ("cost", paid)):
        if each.ndim != 2 or each.shape != (worth.shape[0], rows):
            raise InvalidInput(f"must have shape (levels, {rows}), got {each.shape}", field=name)
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


def _interval(trial: Trial, interval: Interval | None) -> Interval:
    given = interval or Interval()
    if given.cluster is not None or trial.account is None:
        return given
    return replace(given, cluster=trial.account, partner=trial.partner)
