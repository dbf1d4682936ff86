"""Fields of one side of a campaign, and what follows from them alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from shadowprice.campaign.percent import Percent
from shadowprice.campaign.segments import Segment

Side = Literal["customer", "merchant"]
SIDES: tuple[Side, ...] = get_args(Side)

CostBasis = Literal["on_response", "on_grant"]

MOST_RESPONSE = 100.0
"""Largest response of one outcome where the terms name none."""


@dataclass(frozen=True, kw_only=True)
class TermsFields:
    """Incentives and terms of one side of the market.

    levels      incentive values in minor units, ascending; equal ones are different offers of one amount; where
                ``amounts`` are given, and in a delivery, the numbers of the offers, 0, 1, …; of vouchers the amounts
    cost_basis  ``on_response``: the incentive is paid only on response (g = r·f, m = f);
                ``on_grant``: it is paid for certain (g = r, m = 1). S0 charges both ways:
                eq. 16 the first, eq. 17–20 the second.
    weight      worth of one unit of this side's response in the objective; minor units where that is money
    worth       column of the side's accounts, such as ``x_margin``, with the worth of a unit of each one's response,
                which ``weight`` multiplies; ``amount``: the expected amount of a response, of a merchant of a unit of
                it, which the model learns from the amounts of the trial; empty: all are worth the same
    influence   file of the workspace, written by the job ``lift``, with the value for an account's partners of a minor
                unit that the account is given; empty: none is counted
    most_units  units of response that one answer is paid for at most, of a merchant paid on response; so many
                incentives are held for each of its authorizations, and further units cost nothing
    most_response  largest response that one outcome of this side may report: a budget per response grows with it
    segments    of a guaranteed delivery: what each level is; nothing is paid for it
    offers      identifier of each level's offer; empty: side and incentive, or the names of the segments
    ordered     whether a higher level is more of one thing; False: the offers are alternatives, and the lowest level is
                the control
    amounts     incentive of each level in minor units, where offers name the levels: 0 of an offer without a value in
                money
    costs       r where it is not the incentive: units of the budget that each level takes, minor units or offers
    percent     levels in percent of the order's amount, None for another; the amount of such a level is its cap, which
                is held and paid at most
    least_spends  smallest order that each level is for, minor units; 0: any. One in percent has its own
    valid_hours  hours that each level's offer is valid for; 0: as long as the campaign says
    """

    levels: tuple[int, ...]
    cost_basis: CostBasis = "on_response"
    weight: float = 1.0
    worth: str = ""
    influence: str = ""
    most_units: int = 1
    most_response: float = MOST_RESPONSE
    segments: tuple[Segment, ...] = ()
    offers: tuple[str, ...] = ()
    ordered: bool = True
    amounts: tuple[int, ...] = ()
    costs: tuple[int, ...] = ()
    percent: tuple[Percent | None, ...] = ()
    least_spends: tuple[int, ...] = ()
    valid_hours: tuple[int, ...] = ()
