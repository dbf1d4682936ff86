"""Checks of one side of a campaign: each of its fields, and those that must fit each other."""

from __future__ import annotations

import re
from itertools import pairwise
from operator import le
from typing import get_args

from shadowprice.campaign.fields import check_positive, check_whole
from shadowprice.campaign.segments import NOTHING_GIVEN
from shadowprice.campaign.terms_fields import CostBasis, TermsFields
from shadowprice.checks import require, require_one_of
from shadowprice.curves import AMOUNT
from shadowprice.errors import InvalidInput
from shadowprice.limits import MOST_AMOUNT


def check_terms(terms: TermsFields) -> None:
    """Raise :class:`InvalidInput` about the first field of a side that cannot be so."""
    require_one_of(terms.cost_basis, get_args(CostBasis), "cost_basis")
    check_positive(terms.weight, "weight")
    column = f"must be {AMOUNT}, or a column of numbers of the accounts, x_…, got {terms.worth!r}"
    require(re.fullmatch(rf"(x_\w+|{AMOUNT})?", str(terms.worth)), "worth", column)
    file = f"must be the name of a .parquet file in the workspace, got {terms.influence!r}"
    require(re.fullmatch(r"([\w-]+\.parquet)?", str(terms.influence)), "influence", file)
    money = not (terms.segments or any(terms.percent))
    require(money or not terms.influence, "influence", "needs levels that are amounts of money; leave it out")
    check_positive(terms.most_response, "most_response")
    check_whole(terms.most_units, 1, "units", "most_units")
    several = terms.cost_basis == "on_response" and not terms.segments
    require(several or not terms.most_units > 1, "most_units", "must be 1 where nothing is paid on response")
    for name in ("amounts", "costs", "least_spends", "valid_hours"):
        _check_amounts(terms, name)
    largest = 0 if terms.segments and not terms.costs else max(terms.costs or terms.amounts or terms.levels)
    above = f"times the largest cost must not be above {MOST_AMOUNT} minor units"
    require(terms.most_units * largest <= MOST_AMOUNT, "most_units", above)
    numbered = terms.levels in (tuple(range(len(terms.amounts))), terms.amounts) and terms.offers
    needed = "need offers that name the levels, and levels 0, 1, … or equal to the amounts"
    require(numbered or not terms.amounts, "amounts", needed)
    require(isinstance(terms.ordered, bool), "ordered", f"must be true or false, got {terms.ordered!r}")
    worthless = "are needed where levels have no order; 0 for an offer without one"
    require(terms.ordered or terms.amounts, "amounts", worthless)
    if any(terms.percent):
        _check_percent(terms)
    count = len(terms.segments)
    require(not count or terms.levels == tuple(range(count)), "levels", "must number the segments 0, 1, …")
    require(len({segment.name for segment in terms.segments}) == count, "segments", "names must differ")
    last = not any(segment.gives_nothing for segment in terms.segments[: max(1, count - 1)])
    require(last, "segments", f"{NOTHING_GIVEN!r} must come after the offers of a delivery")
    named = not terms.segments and all(terms.offers) and len(terms.offers) == len(terms.levels)
    none = "must name each level, and none of a delivery: its segments have names"
    require(named or not terms.offers, "offers", none)
    require(len(set(terms.offers)) == len(terms.offers), "offers", "names must differ")


def _check_amounts(terms: TermsFields, name: str) -> None:
    listed = getattr(terms, name)
    if listed and (terms.segments or len(listed) != len(terms.levels)):
        raise InvalidInput("must have one entry per level, and none in a delivery", field=name)
    for amount in listed:
        check_whole(amount, 0, "hours" if name == "valid_hours" else "minor units", name)


def _check_percent(terms: TermsFields) -> None:
    if len(terms.percent) != len(terms.levels) or not terms.amounts or terms.levels != tuple(range(len(terms.amounts))):
        raise InvalidInput(
            "must have one entry per level, of levels 0, 1, … with offers and amounts: that of a percentage is its cap",
            field="percent",
        )
    if terms.cost_basis != "on_response" or terms.most_units > 1:
        raise InvalidInput("must be paid on response, for one unit: it is a part of an order", field="percent")
    shares = [(share, cap) for share, cap in zip(terms.percent, terms.amounts, strict=True) if share is not None]
    if any(cap < 1 for _, cap in shares):
        raise InvalidInput("of a level in percent must be its cap, at least 1 minor unit", field="amounts")
    if any(share and least for share, least in zip(terms.percent, terms.least_spends, strict=False)):
        raise InvalidInput("of a level in percent stands in percent; leave 0 here", field="least_spends")
    own = zip(terms.percent, terms.costs, terms.amounts, strict=False)
    if any(share and cost != cap for share, cost, cap in own):
        raise InvalidInput("of a level in percent must be its cap", field="costs")
    rises = [(share.share, cap, -share.least) for share, cap in shares]
    paid = [amount for share, amount in zip(terms.percent, terms.amounts, strict=True) if share is None and amount]
    if terms.ordered and (paid or any(not all(map(le, *step)) for step in pairwise(rises))):
        raise InvalidInput(
            "must rise with the level, as must its cap, and its least spend must not; set ordered to false where "
            "offers are alternatives",
            field="percent",
        )
