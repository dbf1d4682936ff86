"""Further budgets of a campaign as the report and the page of a solve show them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shadowprice.campaign import Campaign
from shadowprice.currency import Currency
from shadowprice.limits import GroupBudget
from shadowprice.price import PriceRecord
from shadowprice.reports.wording import listed, number

EACH = {"total": "", "per_account": " a request", "per_response": " a response"}
"""Form of a budget → what its limit is of."""
BINDS = "binds"
"""Status of a budget with a price."""
SHOWN_PARTNERS = 3
"""Partners of a group that are named; of more the number is stated."""


@dataclass(frozen=True, kw_only=True)
class FurtherBudget:
    """One further budget, with use, plan and price of its present period.

    period  ``campaign``, ``day`` or ``hour``
    group   requests that it counts, in words
    limit   minor units; of a second outcome, its units in a period or a request
    each    empty, or what the limit is of: a request or a response
    floor   whether the limit is the least
    used    minor units held and paid in the period, or the sum of a second outcome that is expected of what was decided
            in it; NaN: not known
    plan    minor units planned by the end of the period, or the expected sum of a second outcome by then; of a mean,
            that of the requests to come; NaN: none
    price   λ; NaN where the newest record has none
    error   relative distance of the use from the plan before; NaN: none
    status  whether it binds, in words
    outcome empty, or the second outcome that is limited in place of money
    """

    name: str
    period: str
    group: str
    limit: float
    each: str
    floor: bool
    used: float
    plan: float
    price: float
    error: float
    status: str
    outcome: str = ""

    def amount(self, value: float, currency: Currency) -> str:
        """Limit, use or plan as a person reads it: money, or units of the second outcome."""
        return number(value) if self.outcome else currency.write(value)

    def priced(self, currency: Currency, factor: float = 1.0) -> str:
        """Price of a major unit of money, or of a unit of the second outcome, times ``factor``, in words."""
        return f"{number(factor * self.price)} a unit" if self.outcome else number(currency.unit * factor * self.price)

    @property
    def share(self) -> float:
        """Share of the plan that is used; NaN without a plan."""
        return self.used / self.plan if self.plan > 0 else np.nan


def further_budgets(
    campaign: Campaign, record: PriceRecord, used: Mapping[str, float] | None = None
) -> tuple[FurtherBudget, ...]:
    """Further budgets of a campaign by a price record, in the campaign's order.

    Args:
        campaign: of the record.
        record: the newest price.
        used: name → use now; by default that at the solve, which knows budgets with a plan.
    """
    budgets = []
    for budget in campaign.limits.budgets:
        plan = record.plans.get(budget.name, ())
        known, mean = len(plan) > 1, budget.form != "total"
        now = np.nan if budget.outcome and mean else (used or {}).get(budget.name, plan[0] if known else np.nan)
        budgets.append(
            FurtherBudget(
                name=budget.name,
                period=budget.period,
                group=group_of(budget),
                limit=budget.limit,
                each=EACH[budget.form],
                floor=budget.sense == "at_least",
                used=float(now),
                plan=plan[-1] if known else np.nan,
                price=record.prices.get(budget.name, np.nan),
                error=record.pacing_errors.get(budget.name, np.nan),
                status=_status(campaign, budget, record),
                outcome=budget.outcome,
            )
        )
    return tuple(budgets)


def group_of(budget: GroupBudget) -> str:
    """Requests that a budget counts, in words.

    >>> group_of(GroupBudget(name="rush", limit=10, side="customer", where='account.c_region == "north"'))
    'customers, where account.c_region == "north"'
    """
    count = len(budget.partners)
    named = listed(budget.partners) if 0 < count <= SHOWN_PARTNERS else f"{number(count)} partners"
    parts = [
        f"{budget.side}s" if budget.side else "",
        f"with {named}" if count else "",
        f"where {budget.where}" if budget.where else "",
        f"of arm {budget.arm}" if budget.arm else "",
        f"of {listed(budget.campaigns)}" if budget.campaigns else "",
    ]
    what = f"{budget.outcome} of " if budget.outcome else ""
    return what + (", ".join(part for part in parts if part) or "all requests")


def _status(campaign: Campaign, budget: GroupBudget, record: PriceRecord) -> str:
    if budget not in campaign.group_budgets:
        return "has no price"
    price = record.prices.get(budget.name)
    return "added after the solve" if price is None else BINDS if price else "does not bind"
