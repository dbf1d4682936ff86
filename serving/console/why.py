"""One sentence about the reason of an incentive, in the words of the owner of a budget."""

from collections.abc import Sequence
from dataclasses import dataclass

from shadowprice.currency import Currency
from shadowprice.reports.wording import money, number, percent


@dataclass(frozen=True)
class Choice:
    """One level that an account could have been given.

    name      of the incentive, as a person reads it
    response  expected
    cost      expected, minor units
    """

    name: str
    response: float
    cost: float


OTHERWISE = {
    "explored": "it was drawn at random, so that every incentive keeps being tried",
    "holdout": "the account is in the group that the others are measured against",
    "budget_exhausted": "the budget has no money left for more",
    "capped": "a cap leaves no more for this account or partner",
    "ineligible": "a rule of the campaign allows nothing for this account",
    "outside_window": "the campaign does not run at this time",
}
"""Reason of a decision that is not the best choice at the price → why."""


def why(
    choices: Sequence[Choice],
    chosen: int,
    price: float,
    reason: str,
    currency: Currency,
    *,
    ratio: bool,
    control: bool = False,
) -> str:
    """Say why an account got level ``chosen``: by how much it raises the response, and what the next level would cost.

    Args:
        choices: levels in the order of the campaign, the lowest first; empty where they are not known.
        chosen: index of the level given; −1: nothing.
        price: of money, responses of the side per minor unit.
        reason: of the decision.
        currency: of the costs.
        ratio: whether the response is a ratio and no probability.
        control: whether the lowest level is the control of offers, and no amount.

    Example:
        >>> levels = [Choice("$0.00", 0.12, 0), Choice("$1.00", 0.25, 25), Choice("$2.00", 0.26, 52)]
        >>> why(levels, 1, 0.005, "optimal", Currency(), ratio=False)
        '$1.00, because it raises the expected response from 12.0 % to 25.0 %; $2.00 would cost $27.00 per extra \
response, above the $2.00 that one is worth now.'
    """
    level_name = choices[chosen].name if 0 <= chosen < len(choices) else "Nothing"
    if reason in OTHERWISE:
        return f"{level_name}, because {OTHERWISE[reason]}."
    if not 0 <= chosen < len(choices):
        return ""
    own, lowest = choices[chosen], choices[0]
    shown = number if ratio else percent
    if chosen and own.response > lowest.response:
        cause = f"because it raises the expected response from {shown(lowest.response)} to {shown(own.response)}"
    else:
        least = "the control" if control else "the lowest incentive"
        cause = least if chosen == 0 else f"with an expected response of {shown(own.response)}"
    return f"{level_name}, {cause}{_next(choices, chosen, price, currency)}."


def _next(choices: Sequence[Choice], chosen: int, price: float, currency: Currency) -> str:
    """Cost of each response that a dearer level adds, of the level that asks the least."""
    own = choices[chosen]
    dearer = [choice for choice in choices if choice.cost > own.cost]
    if not dearer:
        return "; nothing costs more" if len(choices) > 1 else ""
    more = [dearer_choice for dearer_choice in dearer if dearer_choice.response > own.response]
    if not more:
        return "; nothing dearer would raise it further"
    asked = min(more, key=lambda each: (each.cost - own.cost) / (each.response - own.response))
    each_costs = (asked.cost - own.cost) / (asked.response - own.response)
    clause = f"; {asked.name} would cost {money(each_costs, currency)} per extra response"
    if price > 0 and each_costs >= 1 / price:
        clause += f", above the {money(1 / price, currency)} that one is worth now"
    return clause
