"""Checks of a campaign: each of its fields, and those that must fit each other."""

from __future__ import annotations

import math
import re
from typing import get_args

from shadowprice.arms import CANARY
from shadowprice.campaign.campaign_fields import CampaignFields
from shadowprice.campaign.choices import FLAT, Objective, Policy
from shadowprice.campaign.draws import check_weights
from shadowprice.campaign.fields import check_positive, check_whole
from shadowprice.campaign.identifiers import NAME, NAME_RULE
from shadowprice.campaign.terms_fields import SIDES
from shadowprice.checks import require
from shadowprice.currency import OFFERS, check_code
from shadowprice.curves import AMOUNT
from shadowprice.limits.rules import check_rules

HOURS_LIMIT = 24 * 366
"""Most hours of a campaign."""

YEARS = (1678, 2261)
"""First and last year of a campaign: 64-bit nanoseconds reach no further."""


def check_campaign(campaign: CampaignFields) -> None:
    """Raise :class:`InvalidInput` about the first field of a campaign that cannot be so."""
    _check_window(campaign)
    _check_budget(campaign)
    for name in ("exploration", "alarm_exploration"):
        require(0 <= getattr(campaign, name) < 1, f"campaign.{name}", "must lie in [0, 1)")
    for name, choices in (("policy", get_args(Policy)), ("objective", get_args(Objective))):
        value = getattr(campaign, name)
        require(value in choices, f"campaign.{name}", f"must be one of {choices}, got {value!r}")
    _check_objective(campaign)
    _check_delivery(campaign)
    chosen = campaign.answer_shares.chosen
    require(not chosen <= 0, "campaign.experiment.arms.share", "leaves no requests to the price; lower a share")
    paid = () if _delivery(campaign) else campaign.sides
    campaign.limits.check_within(campaign.name, campaign.budget.name, paid, [*campaign.arms, CANARY])
    check_rules(campaign.rules, campaign.offer_ids)
    check_weights(campaign.exploration_weights, campaign.offer_ids)


def _delivery(campaign: CampaignFields) -> bool:
    """Return whether a campaign has segments of exact sizes."""
    return any(terms.segments for terms in campaign.sides.values())


def _check_window(campaign: CampaignFields) -> None:
    """Check name, sides and window."""
    sides, starts_at = campaign.sides, campaign.starts_at
    require(re.fullmatch(NAME, campaign.name), "campaign.name", NAME_RULE)
    known = sides and not set(sides) - set(SIDES)
    require(known, "campaign.sides", f"needs at least one of {SIDES}, got {sorted(sides)}")
    require(starts_at.tzinfo, "campaign.starts_at", "must carry a time zone; times here are UTC")
    check_code(campaign.currency, "campaign.currency")
    check_whole(campaign.hours, 1, "hours", "campaign.hours", HOURS_LIMIT)
    inside = YEARS[0] < starts_at.year < YEARS[1]
    require(inside, "campaign.starts_at", f"must be after {YEARS[0]} and before {YEARS[1]}")
    once = "customer" not in sides or sides["customer"].most_units == 1
    more = "must be 1: a customer redeems once; only a merchant paid on response may have more"
    require(once, "campaign.sides.customer.most_units", more)
    one = "a delivery has one side: its segments are all that is priced"
    require(len(sides) == 1 or not _delivery(campaign), "campaign.sides", one)


def _check_budget(campaign: CampaignFields) -> None:
    """Check the numbers, and what only a total may have."""
    for name in ("gap_limit", "violation_limit", "price_ttl_hours", "authorization_ttl_hours"):
        check_positive(getattr(campaign, name), f"campaign.{name}")
    if campaign.expected_requests is not None:
        check_whole(campaign.expected_requests, 1, "requests", "campaign.expected_requests")
    late, portfolio = campaign.late_reserve, campaign.portfolio
    check_whole(late, 0, "minor units", "campaign.late_reserve")
    total, limit = campaign.budget.form == "total", campaign.budget.limit
    require(not late or total, "campaign.late_reserve", "must be 0: only a total has an amount to set aside from")
    require(not late > limit, "campaign.late_reserve", f"must not be above the limit, {limit:g}")
    if portfolio is not None:
        require(total, "campaign.portfolio", "must be left out: only a total can be moved")
        encloses = portfolio.floor <= limit <= portfolio.cap
        require(encloses, "campaign.portfolio", f"floor and cap must enclose the limit, {limit:g}")


def _check_delivery(campaign: CampaignFields) -> None:
    """Check that a delivery, which pays nothing, has no terms of payment."""
    if not _delivery(campaign):
        return
    for name in ("experiment", "holdout"):
        require(getattr(campaign, name) is None, f"campaign.{name}", "a delivery has exact sizes and no arms")
    require(not campaign.rules, "rules", "a delivery has the rules of its segments; leave its rules out")
    require(campaign.policy != FLAT, "campaign.policy", "a delivery has exact sizes; leave its policy out")


def _check_objective(campaign: CampaignFields) -> None:
    """Check the objective, and the terms that need one in money."""
    in_money, sides, budget = campaign.in_money, campaign.sides, campaign.budget
    predicted = "must be responses: the model of a delivery predicts the value"
    require(not (in_money and _delivery(campaign)), "campaign.objective", predicted)
    offers = "must be responses: the budget counts offers and no money"
    require(not (in_money and campaign.currency == OFFERS), "campaign.objective", offers)
    own = [side for side, terms in sides.items() if terms.worth]
    require(in_money or not own, "campaign.objective", "must be value or margin: a side has a worth in money")
    merchants, customers = sides.get("merchant"), sides.get("customer")
    both = merchants is not None and merchants.worth == AMOUNT and any(merchants.percent)
    column = (
        f"must be empty where the worth is {AMOUNT}: a percentage costs a part of one order, and the amount of a "
        "unit of a merchant's response is that of many; offer amounts, or name a column of the accounts as worth"
    )
    require(not both, "campaign.sides.merchant.percent", column)
    if campaign.long_term is not None:
        worth = f"must be {AMOUNT}: long_term predicts what a response of a customer is worth"
        require(customers is not None and customers.worth == AMOUNT, "campaign.sides.customer.worth", worth)
        needs = "must be empty: the cost of a percentage needs the amounts of orders, which long_term replaces"
        require(customers is not None and not any(customers.percent), "campaign.long_term", needs)
    least, field = campaign.least_return, "campaign.least_return"
    require(0 <= least < math.inf, field, f"must be a number that is not negative, got {least}")
    require(not least or in_money, field, "must be 0 unless the objective is value or margin")
    earns = "must be 0: a budget per response earns money with responses; choose a total or a mean per account"
    require(not least or budget.form != "per_response", field, earns)
    alike = "must be empty: a flat policy gives all accounts the same chances, whatever"
    if campaign.policy == FLAT:
        for side, terms in sides.items():
            require(not terms.influence, f"campaign.sides.{side}.influence", f"{alike} their partners")
            require(not terms.worth, f"campaign.sides.{side}.worth", f"{alike} {side}s are worth")
