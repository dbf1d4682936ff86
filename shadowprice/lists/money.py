"""Money for a list, and how its budget counts an incentive."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from shadowprice.campaign import Budget, Campaign
from shadowprice.limits import GroupBudget
from shadowprice.pacing.spend import CapUse


@dataclass(frozen=True, eq=False)
class InHand:
    """Money for a list.

    left        minor units of the main budget that are neither spent nor held; of a mean, those earned so far
    of_budgets  name → minor units of each further budget in its present period; of a mean 0
    caps        name → use of each cap so far
    held        whether a total counts the most that an incentive can cost, as a ledger with the hard stop holds it;
                else its expected cost
    spent       minor units spent so far
    """

    left: float
    of_budgets: Mapping[str, float] = field(default_factory=dict)
    caps: Mapping[str, CapUse] = field(default_factory=dict)
    held: bool = False
    spent: int = 0


def counted_by_hold(campaign: Campaign) -> Campaign:
    """Return the campaign with the most that an incentive can cost as its cost.

    The accounts of a list are authorized together, so a ledger with the hard stop holds all of it at once. The campaign
    stays as it is where a budget is a mean, which counts expected costs alone, or where there is a least return of
    them: the ledger then has the last word.
    """
    of_money = (limit for limit in campaign.group_budgets if not limit.outcome)
    budgets: tuple[Budget | GroupBudget, ...] = (campaign.budget, *of_money)
    if campaign.least_return or any(budget.form != "total" for budget in budgets):
        return campaign
    if all(terms.cost_basis == "on_grant" for terms in campaign.sides.values()):
        return campaign
    sides = {
        side: replace(terms, cost_basis="on_grant", most_units=1, costs=terms.reserved, percent=())
        for side, terms in campaign.sides.items()
    }
    return replace(campaign, sides=sides)
