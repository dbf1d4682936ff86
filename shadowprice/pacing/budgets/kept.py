"""Prices that stay because the remaining money can buy nothing more, prices that do not bind, and doubtful limits."""

from collections.abc import Iterable, Mapping

from shadowprice.campaign import Campaign, Side
from shadowprice.price import PriceRecord

KEPT = "kept"
"""Status of a record whose price stays because nothing can be bought."""
LEAST_REQUESTS = 1.0
"""Requests expected below which a price stays: a solve would price a part of a request."""
SLACK = 1e-6
"""Part of a limit that is left over at least where the price of a solve does not bind."""


def nothing_to_buy(campaign: Campaign, in_hand: float, expected: Mapping[Side, float]) -> bool:
    """Return whether the rest of a window can spend no money: a new price would have no effect on the budget.

    Fewer than one request is expected, or the money in hand of a total covers no level that costs something: the hard
    stop gives every request the level that costs nothing.

    Args:
        campaign: terms and budget.
        in_hand: minor units of the main budget.
        expected: side → requests in the rest of the window.

    >>> from datetime import UTC, datetime
    >>> from shadowprice.campaign import Budget, Terms
    >>> sides = {"customer": Terms(levels=(0, 60, 100))}
    >>> campaign = Campaign(name="a", sides=sides, budget=Budget(limit=900), starts_at=datetime(2026, 1, 1, tzinfo=UTC))
    >>> nothing_to_buy(campaign, 59.0, {"customer": 40.0}), nothing_to_buy(campaign, 60.0, {"customer": 40.0})
    (True, False)
    """
    if sum(expected.values()) < LEAST_REQUESTS:
        return True
    return campaign.budget.form == "total" and in_hand < _cheapest(campaign, expected)


def exhausted(campaign: Campaign, in_hand: Mapping[str, float]) -> set[str]:
    """Return the names of further totals whose money in hand, in the present period, covers no level that costs.

    A sum of a second outcome is none of them: no hard stop holds it, so only its price can.
    """
    return {
        group_budget.name
        for group_budget in campaign.group_budgets
        if group_budget.form == "total"
        and group_budget.sense == "at_most"
        and not group_budget.outcome
        and in_hand[group_budget.name]
        < _cheapest(campaign, [side for side in campaign.sides if group_budget.side in (None, side)])
    }


def remark(record: PriceRecord, campaign: Campaign) -> str:
    """Describe a price that is not that of a budget that binds; empty for every other price."""
    if record.status == KEPT:
        few = record.expected < LEAST_REQUESTS
        left = "fewer than one request is expected" if few else "the money left covers no level that costs something"
        return f"the last price stays: {left}"
    least = campaign.least_return
    if least and record.prices.get(campaign.budget.name) == least:
        return f"the last unit of money returns {least:g}, the least that is asked: the rest stays unspent on purpose"
    if record.status != "steered" and record.violation < -SLACK:
        return "it does not bind: the requests expected use less than the money that is left"
    return ""


def outcome_remarks(record: PriceRecord, campaign: Campaign) -> list[str]:
    """Describe what each limited second outcome is expected to be; doubt a limit within the interval of the least."""
    remarks = []
    for limit in campaign.group_budgets:
        if (found := record.outcomes.get(limit.name)) is None:
            continue
        per = " a request" if limit.form != "total" else ""
        said = f"{limit.outcome}{per}, limit {limit.name!r}: allowed {limit.limit:g}, expected "
        said += found.of("expected").replace(" ", " with 95 % interval ", 1)
        if limit.limit <= found.least[2]:
            said += f"; the limit may not be attainable: the least is {found.of('least')}"
        remarks.append(said)
    return remarks


def _cheapest(campaign: Campaign, sides: Iterable[Side]) -> float:
    """Least amount that an authorization of one of the sides holds, of the levels that hold something."""
    held = (most for side in sides for most in campaign.terms(side).reserved if most > 0)
    return float(min(held, default=0.0))
