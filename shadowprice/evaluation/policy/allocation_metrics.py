"""Metrics of the value and cost of an allocation, given the levels or offers it chose.

``response`` (J, N) is the true or estimated response at each level, ``chosen`` (N,) the index of the
level that the allocation gives each row.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from shadowprice.checks import require
from shadowprice.curves import check_levels
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.prediction.per_level import check_index
from shadowprice.evaluation.statistics.intervals import Statistic
from shadowprice.evaluation.statistics.metric import Array, mean_of, metric, ratio

Basis = Literal["on_response", "on_grant"]


@metric
def future_response(response: Array, *, chosen: ArrayLike) -> Statistic:
    """Mean response of the levels chosen (S1, section 5); where the truth is not known see ``hajek_value``. O(N)."""
    return mean_of(_at_chosen(response, chosen))


@metric
def future_cost(response: Array, *, chosen: ArrayLike, levels: ArrayLike, basis: Basis = "on_grant") -> Statistic:
    """Mean cost per row of the levels chosen, minor units (S1, section 5).

    ``levels`` (J,) minor units. ``on_grant`` charges the level; ``on_response`` the level times the response. O(N).
    """
    return mean_of(_cost(response, chosen, levels, basis))


@metric
def cost_error(
    response: Array, *, chosen: ArrayLike, levels: ArrayLike, limit: float, basis: Basis = "on_grant"
) -> Statistic:
    """Excess of the mean cost per row over ``limit``, 0 when there is none (S1, section 5). Minor units. O(N)."""
    cost = mean_of(_cost(response, chosen, levels, basis))
    return lambda weight: np.maximum(cost(weight) - limit, 0.0)


@metric
def budget_use(cost: Array, *, limit: float) -> Statistic:
    """Money spent over the budget: Σ ``cost`` (N,) / ``limit``, both in minor units; above 1 is overspent. O(N)."""
    require(limit > 0, "limit", "must be positive")
    return lambda weight: weight @ cost / limit


@metric
def objective_ratio(value: Array, best: Array) -> Statistic:
    """Objective of an allocation over that of a reference: Σ ``value`` / Σ ``best``, both (N,) per row. O(N)."""
    return lambda weight: ratio(weight @ value, weight @ best)


@metric
def thc(y: Array, *, given: ArrayLike, chosen: ArrayLike) -> Statistic:
    """Total hit conversions: Σ of conversions ``y`` (N,) over rows that were given the offer chosen for them (S2).

    ``given``, ``chosen`` (N,) indices of offers. A total: it grows with the rows that happen to match. O(N).
    """
    return _hits(y, given, chosen)


@metric
def tha(amount: Array, *, given: ArrayLike, chosen: ArrayLike) -> Statistic:
    """Total hit amount: as :func:`thc`, of transaction amounts (N,) (S2). O(N)."""
    return _hits(amount, given, chosen)


@metric
def cpmd(y: Array) -> Statistic:
    """Conversions per thousand deliveries: 1000 × mean of ``y`` (N,), one row per delivery (S2). O(N)."""
    return mean_of(1000.0 * y)


@metric
def tapmd(amount: Array) -> Statistic:
    """Transaction amount per thousand deliveries: 1000 × mean of ``amount`` (N,), one row per delivery (S2). O(N)."""
    return mean_of(1000.0 * amount)


def _at_chosen(response: Array, chosen: ArrayLike) -> Array:
    index = check_index(chosen, response.shape[0])
    if index.size != response.shape[1]:
        raise InvalidInput(f"must have {response.shape[1]} rows, got {index.size}", field="chosen")
    return np.asarray(response[index, np.arange(index.size)])


def _cost(response: Array, chosen: ArrayLike, levels: ArrayLike, basis: Basis) -> Array:
    amounts = check_levels(levels)
    if amounts.size != response.shape[0]:
        raise InvalidInput(f"must have one entry per row of response, {response.shape[0]}", field="levels")
    require(basis in ("on_response", "on_grant"), "basis", f"must be on_response or on_grant, got {basis!r}")
    probability = _at_chosen(response, chosen)
    paid = amounts[np.asarray(chosen)].astype(np.float64)
    return np.asarray(paid if basis == "on_grant" else paid * probability)


def _hits(y: Array, given: ArrayLike, chosen: ArrayLike) -> Statistic:
    given, chosen = np.asarray(given), np.asarray(chosen)
    for name, column in (("given", given), ("chosen", chosen)):
        require(column.shape == y.shape, name, f"must have shape {y.shape}, got {column.shape}")
    hit = y * (given == chosen)
    return lambda weight: np.asarray(weight @ hit)
