"""Ratio of spend to the curves' expectation before the first price of a window, by held-out rows."""

from collections.abc import Callable, Mapping
from functools import partial

from shadowprice.allocation.spend_ratio import HeldOutSpend, solve_within, spend_ratio
from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.pacing.budgets.caps import COLUMNS


def first_ratio(
    curves: Mapping[Side, Curves],
    requests: Mapping[Side, float],
    spend: Mapping[Side, HeldOutSpend],
    price: Callable[[Mapping[Side, Curves], float], float],
) -> float:
    """Return the ratio at the price at which the money really paid meets the budget.

    Args:
        curves: side → accounts of the window, of which a sample is solved.
        requests: side → requests to come.
        spend: side → spend of the model's policy by rows that it has not learned from.
        price: solves the price of the budget for a sample, with the money in hand divided by a ratio.
    """
    few = {side: mine.sample(COLUMNS) for side, mine in curves.items()}
    return solve_within(partial(price, few), float, partial(spend_ratio, spend, requests))[1].value
