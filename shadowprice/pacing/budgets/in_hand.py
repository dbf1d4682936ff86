"""Money left of a campaign's budgets: limits, less what was spent and what open authorizations will cost.

Of a limit on the sum of a second outcome it is the limit less the sum that is expected of the requests decided so far.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from shadowprice.campaign import SIDES, Campaign, Side
from shadowprice.curves import Curves
from shadowprice.decision import NOTHING
from shadowprice.errors import NotCertified
from shadowprice.groups import hashes
from shadowprice.limits import GroupBudget
from shadowprice.pacing.spend import SpendReport
from shadowprice.policy import Choices
from shadowprice.price import PriceRecord

HELD_ROWS = 100_000
"""Accounts that the expected cost of open authorizations is estimated on, at most."""

FIRST_USE = 0.02
"""Prior use of a shared budget, as a part of its limit, divided equally between its campaigns."""


def remaining_budget(campaign: Campaign, spend: SpendReport) -> float:
    """Minor units earned so far and not yet spent; what future requests earn comes on top of it.

    For a total the whole limit counts as earned, as moves of a portfolio have changed it. Negative when more was spent
    than earned.
    """
    budget = campaign.budget
    if budget.form == "total":
        return budget.limit + spend.moved - spend.spent
    earned = 0.0
    for side, terms in campaign.sides.items():
        on_response = budget.form == "per_response" and terms.cost_basis == "on_response"
        earned += spend.responses.get(side, 0.0) if on_response else spend.requests.get(side, 0)
    return budget.limit * earned - spend.spent


def expected_cost_of_holds(
    campaign: Campaign, samples: Mapping[Side, Curves], spend: SpendReport, newest: PriceRecord | None
) -> dict[Side, float]:
    """side → expected cost of open authorizations in minor units.

    The held amount is multiplied by a ratio of at most 1: the expected cost of the newest price's decisions on the
    sample, over the amount that they would hold. On a side paid on response the ratio is multiplied by that price's
    ``spend_ratio``. Without a price or a sample the ratio is 1. A side whose response earns its own allowance (a mean
    per response, paid on response) is left out: its open authorizations will earn about their cost.
    """
    expected: dict[Side, float] = {}
    # Requests of a holdout have the lowest level, which holds the least.
    by_rule = campaign.answer_shares
    for side, reserved in spend.outstanding.items():
        if reserved <= 0 or side not in campaign.sides:
            continue
        terms = campaign.terms(side)
        if campaign.budget.form == "per_response" and terms.cost_basis == "on_response":
            continue
        ratio = 1.0
        curves = samples.get(side)
        if newest is not None and curves is not None and curves.accounts:
            curves = curves.sample(HELD_ROWS)
            response, shares = curves.response, curves.shares()
            drawn = by_rule.drawn / (by_rule.drawn + by_rule.chosen)
            choices = Choices.marked(campaign, side, curves)
            chosen = choices.decide(newest.of(campaign.priced), newest.tie_share, range(curves.accounts), drawn).level
            most = float(shares @ np.asarray(terms.reserved)[chosen])
            cost = float(shares @ terms.cost(response, curves.amounts)[chosen, np.arange(chosen.size)])
            ratio = min(cost / most, 1.0) if most > 0 else 1.0
            if terms.cost_basis == "on_response":
                ratio *= newest.spend_ratio
        expected[side] = ratio * reserved
    return expected


def in_hand_of_budgets(
    campaign: Campaign,
    spend: SpendReport,
    held: Mapping[Side, float],
    samples: Mapping[Side, Curves] = MappingProxyType({}),
) -> dict[str, float]:
    """name → minor units, or units of a second outcome, in hand of each further budget in its present period.

    That is the limit less :func:`used_of_budgets`; of a budget that campaigns share, this campaign's share
    (:func:`shares_of_budgets`) of what all of them left. What the requests of a mean earned so far is not known: a mean
    holds for the requests to come.

    Raises:
        NotCertified: the spend does not tell the use of a budget, or does not tell the sides apart.
    """
    used, shares = used_of_budgets(campaign, spend, held, samples), shares_of_budgets(campaign, spend)
    in_hand: dict[str, float] = {}
    for group_budget in campaign.group_budgets:
        if group_budget.form != "total":
            in_hand[group_budget.name] = 0.0
            continue
        left = group_budget.limit - used[group_budget.name]
        if group_budget.campaigns:
            left = max(left - float(spend.caps[group_budget.name].amount_elsewhere.sum()), 0.0)
        in_hand[group_budget.name] = left * shares.get(group_budget.name, 1.0)
    return in_hand


def used_of_budgets(
    campaign: Campaign,
    spend: SpendReport,
    held: Mapping[Side, float],
    samples: Mapping[Side, Curves] = MappingProxyType({}),
) -> dict[str, float]:
    """name → expected use of each further total by this campaign, in its present period.

    Of a second outcome it is :func:`expected_sum` by the curves of ``samples``. The ledger counts open authorizations
    by the most that they can cost. What they cost less in expectation is taken off: the held amount of a group is taken
    to be the same share of its use as of all sides together.

    Raises:
        NotCertified: the spend does not tell the use of a budget, or does not tell the sides apart.
    """
    used_of: dict[str, float] = {}
    most, expected = sum(spend.outstanding.values()), sum(held.values())
    committed = spend.spent + most
    for group_budget in campaign.group_budgets:
        if group_budget.form != "total":
            continue
        if group_budget.outcome:
            used_of[group_budget.name] = expected_sum(group_budget, spend, samples)
            continue
        if group_budget.whole_side:
            side = next(name for name in campaign.sides if name == group_budget.side)
            if side not in spend.spent_of:
                raise NotCertified(
                    f"budget {group_budget.name!r} is of side {side!r}, but the spend does not tell the sides apart"
                )
            used_of[group_budget.name] = spend.spent_of[side] + held.get(side, 0.0)
            continue
        if group_budget.name not in spend.used_of:
            raise NotCertified(f"the spend does not tell the use of budget {group_budget.name!r}; upgrade the ledger")
        used = spend.used_of[group_budget.name]
        used_of[group_budget.name] = used - used * (most - expected) / max(committed, 1)
    return used_of


def expected_sum(budget: GroupBudget, spend: SpendReport, samples: Mapping[Side, Curves]) -> float:
    """Expected sum of a second outcome over the requests that were decided in the present period.

    That is Σ n_sj·g_sj with the number n of requests of side s that got level j, by the ledger, and the mean outcome g
    of that level, by the present model. A request that got no level adds nothing.

    Raises:
        NotCertified: the spend does not count the levels, or the curves of a side that was counted are missing.
    """
    if budget.name not in spend.caps:
        raise NotCertified(
            f"the state has no levels counted by limit {budget.name!r}; upgrade the ledger, measure again"
        )
    use, total, counted = spend.caps[budget.name], 0.0, 0
    for side, curves in samples.items():
        if budget.side in (None, side):
            means = budget.expected_outcome(side, (curves.levels.size, 1), curves.guards)[:, 0]
            requests = use.at(hashes([f"{side}|{level}" for level in range(means.size)]))[1]
            total += float(means @ requests)
            counted += int(requests.sum())
    nothing = int(use.at(hashes([f"{side}|{NOTHING}" for side in SIDES]))[1].sum())
    if counted + nothing < use.uses.sum():
        raise NotCertified(f"limit {budget.name!r} counted requests of a side that the model has no accounts of")
    return total


def shares_of_budgets(campaign: Campaign, spend: SpendReport) -> dict[str, float]:
    """name → part of the rest of each shared budget that is left to this campaign.

    A campaign uses the rest as it used the period so far. With its own use u, that of all n campaigns U and the part
    p = :data:`FIRST_USE` of the limit, the share is (u + p/n) / (U + p): equal shares before there is any use.

    Raises:
        NotCertified: the spend does not tell the use of a budget by the other campaigns.
    """
    share_of: dict[str, float] = {}
    for group_budget in campaign.group_budgets:
        if group_budget.campaigns and group_budget.form == "total":
            if group_budget.name not in spend.caps:
                raise NotCertified(f"the state has no use of budget {group_budget.name!r} by campaign; measure again")
            use = spend.caps[group_budget.name]
            own, others = float(use.amount.sum()), float(use.amount_elsewhere.sum())
            first = max(FIRST_USE * group_budget.limit, 1.0)
            share_of[group_budget.name] = (own + first / len(group_budget.campaigns)) / (own + others + first)
    return share_of
