"""Authorising: what a call may ask to be promised, and what each request is told if the money is gone."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from serving.ledger.messages import Authorizations, Item, Unprocessable
from serving.ledger.store import Decision, Entry, microseconds
from serving.protocol import NOTHING
from shadowprice.campaign import Campaign
from shadowprice.errors import NotFound


def entries(campaign: Campaign, batch: Authorizations, decided_at: datetime) -> list[Entry]:
    """The decisions of one call, ready to be recorded.

    A request whose incentive does not fit the budget any more is given the level of no incentive, or
    nothing at all where there is none.

    Raises:
        NotFound: another campaign.
        Unprocessable: a side, level, amount or vector of propensities that the campaign does not have.
    """
    if batch.campaign != campaign.name:
        raise NotFound(f"campaign {batch.campaign!r} is not kept here; this is {campaign.name!r}")
    at = microseconds(decided_at)
    expires_at = microseconds(decided_at + timedelta(hours=campaign.authorisation_ttl_hours))
    made = []
    for index, item in enumerate(batch.items):
        _check(campaign, item, f"items[{index}]")
        granted = Decision(
            request_id=item.request_id,
            account_id=item.account_id,
            side=item.side,
            level=item.level,
            incentive=item.incentive,
            response=item.response,
            expected_cost=item.expected_cost,
            propensity=item.propensity,
            propensities=tuple(item.propensities or ()),
            reason=item.reason,
            model_version=batch.model_version,
            price_version=batch.price_version,
            features_at=None if item.features_at is None else round(item.features_at * 1e6),
            decided_at=at,
        )
        made.append(Entry(granted, _refused(campaign, item, granted), expires_at))
    return made


def ceiling(campaign: Campaign, hard_stop: bool) -> int | None:
    """What may be promised and spent at most; None without the hard stop and for a mean, which has no amount."""
    return int(campaign.budget.limit) if hard_stop and campaign.budget.form == "total" else None


def _refused(campaign: Campaign, item: Item, granted: Decision) -> Decision:
    levels = campaign.sides[item.side].incentives
    free = levels[0] == 0
    return replace(
        granted,
        level=0 if free else NOTHING,
        incentive=0,
        response=item.response_unpaid,
        expected_cost=0.0,
        propensity=1.0,
        propensities=(1.0, *(0.0 for _ in levels[1:])) if free else (),
        reason="budget_exhausted",
    )


def _check(campaign: Campaign, item: Item, where: str) -> None:
    if item.side not in campaign.sides:
        raise Unprocessable(f"the campaign has {sorted(campaign.sides)}, not {item.side!r}", field=f"{where}.side")
    levels = campaign.sides[item.side].incentives
    if item.level >= len(levels):
        raise Unprocessable(f"must be below {len(levels)}", field=f"{where}.level")
    if item.incentive != levels[item.level]:
        raise Unprocessable(f"level {item.level} is {levels[item.level]} minor units", field=f"{where}.incentive")
    vector = item.propensities
    if vector is None:
        return
    if len(vector) != len(levels):
        raise Unprocessable(f"must have {len(levels)} values, one per level", field=f"{where}.propensities")
    if abs(sum(vector) - 1.0) > 1e-6 or abs(vector[item.level] - item.propensity) > 1e-9:
        raise Unprocessable(
            "must sum to 1 and hold the propensity of the level given at its place", field=f"{where}.propensities"
        )
