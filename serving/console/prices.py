"""Prices of a campaign, and the reason of each change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shadowprice.campaign import Campaign
from shadowprice.errors import NotFound, PriceRejected
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord
from shadowprice.reports.run import certificate
from shadowprice.reports.wording import number, percent

NOTABLE = 0.005
"""Relative difference of an input from which it is named as a reason."""


class PriceHistory:
    """Sound records of a campaign; each file is read once."""

    def __init__(self, store: PriceStore, campaign: str) -> None:
        self._store = store
        self._campaign = campaign
        self._known: dict[int, PriceRecord] = {}

    def records(self) -> list[PriceRecord]:
        """Sound records, the oldest first; damaged files are left out, and :meth:`faults` names them.

        Raises:
            Unavailable: the store cannot be read.
        """
        known: dict[int, PriceRecord] = {}
        for version in self._store.versions(self._campaign):
            try:
                known[version] = self._known.get(version) or self._store.read(self._campaign, version)
            except (PriceRejected, NotFound):
                continue
        self._known = known
        return list(known.values())

    def faults(self) -> list[str]:
        """Faults of the files that are newer than the newest sound record."""
        return self._store.unsound(self._campaign)


@dataclass(frozen=True)
class Change:
    """One published price, and what differed from the one before.

    price        λ of the budget, responses per minor unit
    change       relative to the price before; None where there is none
    reasons      in words, at least one
    certificate  verdict by the limits of the campaign
    """

    record: PriceRecord
    price: float
    change: float | None
    reasons: tuple[str, ...]
    certificate: str


def price_of(campaign: Campaign, record: PriceRecord) -> float:
    """λ of the campaign's main budget, per minor unit."""
    return float(record.prices[campaign.priced[0]])


def changes(campaign: Campaign, records: Sequence[PriceRecord]) -> list[Change]:
    """Every record with the reasons of its change, in the order of ``records``."""
    found = []
    for before, record in zip([None, *records], records, strict=False):
        price, last = price_of(campaign, record), None if before is None else price_of(campaign, before)
        relative = price / last - 1 if last else None
        found.append(Change(record, price, relative, reasons(before, record), certificate(campaign, record)))
    return found


def reasons(before: PriceRecord | None, record: PriceRecord) -> tuple[str, ...]:
    """Inputs of a solve that differ from those of the solve before, in words."""
    if before is None:
        return ("first price that is kept",)
    found = []
    if record.window != before.window:
        found.append("a new window")
    if record.model_version != before.model_version:
        found.append(f"new model {record.model_version}")
    if record.remaining <= 0:
        found.append("the budget is used up")
    if abs(record.pacing_error) >= NOTABLE:
        more = "more" if record.pacing_error > 0 else "less"
        found.append(f"{percent(abs(record.pacing_error))} {more} was paid than planned")
    traffic, earlier = record.requests + record.expected, before.requests + before.expected
    if record.window == before.window and earlier > 0 and abs(traffic / earlier - 1) >= NOTABLE:
        more = "more" if traffic > earlier else "fewer"
        found.append(f"{percent(abs(traffic / earlier - 1))} {more} requests are expected in the window")
    if abs(record.spend_ratio / before.spend_ratio - 1) >= NOTABLE:
        ratio = number(record.spend_ratio, 3)
        found.append(f"the spend per expected unit changed from {number(before.spend_ratio, 3)} to {ratio}")
    return tuple(found) or ("solved again; the inputs are as planned",)
