"""Value of decisions at equal spend, where the truth of every level is known, as in a simulation."""

import numpy as np
from numpy.typing import ArrayLike

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.frontier import price_grid
from shadowprice.evaluation.statistics.metric import Array
from shadowprice.policy import Choices

PRICES = 150


def true_value_at_spend(
    response: ArrayLike, expense: ArrayLike, value: ArrayLike, cost: ArrayLike, budgets: ArrayLike
) -> Array:
    """True value per row (B,) of deciding by some curves, at the prices that truly spend each budget per row.

    Args:
        response, expense: (J, N) the curves decided by.
        value, cost: (J, N) the truth.
        budgets: (B,) true cost per row. Between two prices the value is interpolated; a budget out of the
            curves' reach gets the nearest end.

    O(150 · N · J).
    """
    arrays = [np.asarray(each, dtype=np.float64) for each in (response, expense, value, cost)]
    if any(array.ndim != 2 or array.shape != arrays[0].shape for array in arrays):
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise InvalidInput(f"all four must have one shape (levels, rows), got {shapes}", field="response")
    curve, charge, true_value, true_cost = arrays
    rows, choices = np.arange(curve.shape[1]), Choices(curve, charge)
    prices = price_grid(curve, charge, PRICES)
    chosen = [choices.decide([price], 0.0, rows).level for price in prices]
    path = np.array([[each[level, rows].mean() for level in chosen] for each in (true_value, true_cost)])
    return np.array([read_path(path[:1], path[1:], prices, budget)[0][0] for budget in np.atleast_1d(budgets)])


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
