"""Outcomes of a day as a hard stop at the budget would have left them."""

import numpy as np

from shadowprice.campaign import Campaign
from shadowprice.decision import NOTHING
from shadowprice.pacing.replay.day import Day
from shadowprice.pacing.replay.outcomes import OutcomeModel, Outcomes


def within_budget(campaign: Campaign, outcomes: Outcomes, model: OutcomeModel) -> Outcomes:
    """Return the outcomes with those after the budget is spent drawn again at the level that costs nothing.

    From the first request on whose cost is above the rest of the allowance, each request gets that level with its own
    luck, so its response without an incentive counts. A side without such a level gives nothing, and no response.

    Args:
        campaign: whose budget it is.
        outcomes: of all requests, in order of arrival.
        model: that drew them.
    """
    after = np.cumsum(outcomes.cost) > allowance(campaign, outcomes) * (1 + 1e-12)
    if not after.any():
        return outcomes
    rest = outcomes.take(after)
    free = [side for side, terms in campaign.sides.items() if terms.unit_costs[0] == 0 and not terms.segments]
    level = np.where(np.isin(rest.side, free), 0, NOTHING)
    hours = int(rest.at[-1]) + 1
    drawn = model.draw(Day(rest.request_id, rest.account_id, rest.side, rest.at, hours), level)
    return Outcomes.concatenate([outcomes.take(~after), drawn])


def allowance(campaign: Campaign, outcomes: Outcomes) -> float:
    """Return the money that a budget allows a day: its limit, or of a mean the limit times what the day has earned."""
    budget = campaign.budget
    if budget.form == "total":
        return float(budget.limit)
    if budget.form == "per_account":
        return budget.limit * len(outcomes)
    earned = 0.0
    for side, terms in campaign.sides.items():
        mine = outcomes.side == side
        earned += float(outcomes.response[mine].sum()) if terms.cost_basis == "on_response" else float(mine.sum())
    return budget.limit * earned
