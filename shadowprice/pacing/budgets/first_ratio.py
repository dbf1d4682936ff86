"""Ratio of spend to the curves' expectation before the first price of a window, by held-out rows."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from shadowprice.allocation.sources.rows import Part, Row
from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.evaluation.policy.held_out_spend import HeldOutSpend, solve_within, spend_ratio
from shadowprice.pacing.budgets.caps import COLUMNS
from shadowprice.pacing.window import solve_window


def first_ratio(
    campaign: Campaign,
    curves: Mapping[Side, Curves],
    requests: Mapping[Side, float],
    spend: Mapping[Side, HeldOutSpend],
    within: Callable[[float], tuple[float, Sequence[Part], Sequence[Row]]],
) -> float:
    """Return the ratio at the price at which the money really paid meets the budget, on a sample of the accounts.

    Args:
        campaign: with a total.
        curves: side → accounts of the window.
        requests: side → requests to come.
        spend: side → spend of the model's policy by rows that it has not learned from.
        within: gives the money in hand and the further budgets, all divided by a ratio.
    """
    few = {side: mine.sample(COLUMNS) for side, mine in curves.items()}

    def price(ratio: float) -> float:
        return solve_window(campaign, few, requests, *within(ratio)).prices.get(campaign.budget.name, 0.0)

    return solve_within(price, float, partial(spend_ratio, spend, requests))[1].value
