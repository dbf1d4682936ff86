"""Divide one budget between value curves by one price."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.portfolio.curve import Real, ValueCurve
from shadowprice.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Split:
    """Budgets that maximize the sum of the curves' upper bounds.

    budget  (C,), of each curve
    price   value of the last unit of money; that of the dearest unit that is left out where all could be spent: 0
    bound   sum of the upper bounds at these budgets: no division brings more
    """

    budget: Real
    price: float
    bound: float


def split(curves: Sequence[ValueCurve], total: float, least: NDArray[np.float64], most: NDArray[np.float64]) -> Split:
    """Divide ``total`` between curves, each within its floor and cap.

    Segments of all curves are bought in the order of their slope, as a linear program with one budget is solved.
    O(M log M) in the number M of segments.

    Raises:
        InvalidInput: a floor above its cap, or floors above the total.

    Source: the fractional knapsack of Dantzig (1957), one level above S1 eq. 7.
    """
    rest = total - float(least.sum())
    if rest < 0:
        raise InvalidInput(f"are {least.sum():g} together, above the total of {total:g}", field="floors")
    if np.any(least < 0) or np.any(most < least):
        raise InvalidInput("must be from 0 to the campaign's cap", field="floors")
    parts = [curve.pieces(low, high) for curve, low, high in zip(curves, least, most, strict=True)]
    slope, begin, end = (np.concatenate([part[place] for part in parts]) for place in range(3))
    owner = np.repeat(np.arange(len(curves)), [part[0].size for part in parts])
    length = np.where(slope > 0, end - begin, 0.0)
    order = np.argsort(-slope, kind="stable")
    before = np.cumsum(length[order]) - length[order]
    bought = np.clip(rest - before, 0.0, length[order])
    budget = least + np.bincount(owner[order], bought, minlength=len(curves))
    partly = order[(bought < length[order]) & (length[order] > 0)]
    price = float(slope[partly[0]]) if partly.size else 0.0
    bound = sum(curve.bound(own) for curve, own in zip(curves, budget.tolist(), strict=True))
    return Split(budget, price, float(bound))
