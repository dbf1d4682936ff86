"""Value of decisions at equal spend, where the truth of every level is known, as in a simulation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from shadowprice.decision import decide
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.eom import read_path
from shadowprice.evaluation.policy.frontier import price_grid
from shadowprice.evaluation.statistics.metric import Array

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
    if any(each.ndim != 2 or each.shape != arrays[0].shape for each in arrays):
        shapes = ", ".join(str(each.shape) for each in arrays)
        raise InvalidInput(f"all four must have one shape (levels, rows), got {shapes}", field="response")
    curve, charge, true_value, true_cost = arrays
    rows = np.arange(curve.shape[1])
    prices = price_grid(curve, charge, PRICES)
    chosen = [decide(curve, charge, [price], 0.0, rows).level for price in prices]
    path = np.array([[each[level, rows].mean() for level in chosen] for each in (true_value, true_cost)])
    return np.array([read_path(path[:1], path[1:], prices, budget)[0][0] for budget in np.atleast_1d(budgets)])
