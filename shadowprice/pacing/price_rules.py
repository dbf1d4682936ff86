"""Rules that a price must keep before a campaign publishes it or decides by it, the same for writers and readers."""

import math
from collections.abc import Iterable
from datetime import datetime, timedelta

from shadowprice.campaign import Campaign
from shadowprice.errors import PriceRejected
from shadowprice.pacing.budgets.kept import KEPT
from shadowprice.price import PriceRecord

STATUSES = ("optimal", "bounded", "steered", KEPT)
"""Origins of a price: solved, solved and held within a step of the one before, moved by a controller, or the one before
where nothing can be bought."""
CLOCKS = timedelta(minutes=10)
"""Largest difference between the clocks of a writer and a reader."""
GRACE = timedelta(days=1)
"""Time beyond the campaign's limit that a price may be good for, so that its time to live can be lowered."""


def check_price(record: PriceRecord, campaign: Campaign, now: datetime) -> PriceRecord:
    """Return the record, if the campaign may decide by it.

    Args:
        record: sound by itself (:meth:`PriceRecord.verify`).
        campaign: whose name, budgets, window and limits on the certificate hold.
        now: UTC.

    Raises:
        PriceRejected: it is of another campaign or window, lacks a price, has a price of the wrong sign, is not
            certified within the campaign's limits, or is dated ahead of ``now``. The message names the fault.
    """
    wrong = _fault(record, campaign, now)
    if wrong:
        raise PriceRejected(f"price version {record.version} of {record.campaign!r}: {wrong}")
    return record


def newest_usable(records: Iterable[PriceRecord], campaign: Campaign, now: datetime) -> PriceRecord | None:
    """Return the first of ``records``, the newest first, that :func:`check_price` accepts."""
    return next((record for record in records if not _fault(record, campaign, now)), None)


def _fault(record: PriceRecord, campaign: Campaign, now: datetime) -> str:
    """Return the first broken rule as text; empty where none is."""
    if record.campaign != campaign.name:
        return f"it is not of campaign {campaign.name!r}"
    of_budgets = campaign.priced[0] == campaign.budget.name
    # A further budget may have been added after the solve; the ledger stops at its limit all the same.
    needed = campaign.priced[:1] if of_budgets else campaign.priced
    if missing := [name for name in needed if name not in record.prices]:
        return f"it holds no price of {', '.join(missing)}"
    # A segment of exact size may cost or earn; more of a budget is never worth less than nothing.
    floors = {group_budget.name for group_budget in campaign.group_budgets if group_budget.sense == "at_least"}
    for name, price in zip(campaign.priced, record.of(campaign.priced), strict=True) if of_budgets else ():
        if price < 0 and name not in floors:
            return f"the price of budget {name!r} is {price:g}; that of an upper limit is never below 0"
        if price > 0 and name in floors:
            return f"the price of budget {name!r} is {price:g}; that of a floor is never above 0"
    if record.status not in STATUSES:
        return f"its status is {record.status!r}, not one of {', '.join(STATUSES)}"
    for name, shown, limit in (
        ("gap", record.gap, campaign.gap_limit),
        ("violation", record.violation, campaign.violation_limit),
    ):
        if not (math.isfinite(shown) and shown <= limit):
            return f"its {name} {shown:.3g} exceeds the campaign's limit {limit:.3g}"
    if record.window is not None and record.window != campaign.starts_at:
        return f"it is of the window from {record.window.isoformat()}, not from {campaign.starts_at.isoformat()}"
    if record.solved_at > now + CLOCKS:
        return f"it was solved {(record.solved_at - now).total_seconds():.0f} s from now: the clocks disagree"
    latest = max(campaign.ends_at, record.solved_at + timedelta(hours=campaign.price_ttl_hours)) + GRACE
    if not record.solved_at < record.expires_at <= latest:
        return f"it expires at {record.expires_at.isoformat()}, not between its solve and {latest.isoformat()}"
    return ""
