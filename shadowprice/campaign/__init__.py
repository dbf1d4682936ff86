"""A campaign: its offers, how they are charged, and the budget that it must respect."""

from shadowprice.campaign.budget import Budget
from shadowprice.campaign.campaign import Campaign
from shadowprice.campaign.campaign_fields import AnswerShares
from shadowprice.campaign.campaign_validity import HOURS_LIMIT
from shadowprice.campaign.choices import FLAT, RESPONSES, Objective, Policy
from shadowprice.campaign.identifiers import MODEL_VERSION, NAME, NAME_RULE
from shadowprice.campaign.percent import Percent
from shadowprice.campaign.places import Place, places_of
from shadowprice.campaign.portfolio import PortfolioTerms
from shadowprice.campaign.quotas import PlaceLimit, place_bounds, place_limits, place_sums, sum_of
from shadowprice.campaign.segments import (
    NOTHING_GIVEN,
    ONE_PLACE,
    Segment,
    demands,
    fees,
    may_enter,
    places_left,
    risk_levels,
)
from shadowprice.campaign.terms import Terms
from shadowprice.campaign.terms_fields import MOST_RESPONSE, SIDES, CostBasis, Side
from shadowprice.limits import BudgetForm

__all__ = [
    "FLAT",
    "HOURS_LIMIT",
    "MODEL_VERSION",
    "MOST_RESPONSE",
    "NAME",
    "NAME_RULE",
    "NOTHING_GIVEN",
    "ONE_PLACE",
    "RESPONSES",
    "SIDES",
    "AnswerShares",
    "Budget",
    "BudgetForm",
    "Campaign",
    "CostBasis",
    "Objective",
    "Percent",
    "Place",
    "PlaceLimit",
    "Policy",
    "PortfolioTerms",
    "Segment",
    "Side",
    "Terms",
    "demands",
    "fees",
    "may_enter",
    "place_bounds",
    "place_limits",
    "place_sums",
    "places_left",
    "places_of",
    "risk_levels",
    "sum_of",
]
