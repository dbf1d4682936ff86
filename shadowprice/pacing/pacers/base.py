"""One interface for every way of pacing a budget: when it wants to be asked, and the price it sets then."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from shadowprice.allocation.executors import Executor
from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.pacing.resolve import Resolution, resolve
from shadowprice.pacing.spend import SpendReport
from shadowprice.pacing.state import Remaining
from shadowprice.price import PriceRecord


@dataclass(frozen=True, eq=False)
class CampaignState:
    """State of a campaign when a price is requested: the only input of a pacer.

    at             hours since the window opened; negative before it
    slot_and_step          slot and step that the price is for; see :func:`scheduled_slot`
    spend          totals so far
    remaining      side → (slots,), requests expected in the rest of this slot and in each later one
    curves         gives side → curves of recent requests; a pacer that does not solve need not call it
    newest         the newest price of this window, if any
    version        that the next record will have
    executor       who holds the accounts of a solve; None for this process
    """

    campaign: Campaign
    at: float
    slot_and_step: tuple[int, int]
    spend: SpendReport
    remaining: Remaining
    curves: Callable[[], Mapping[Side, Curves]]
    newest: PriceRecord | None
    version: int
    model_version: str
    now: datetime
    executor: Executor | None = None

    @property
    def own(self) -> PriceRecord | None:
        """The newest price of this window that was solved for the present model, if any: only such a one is kept."""
        return None if self.newest is None or self.newest.model_version != self.model_version else self.newest

    def solve(self) -> Resolution:
        """The certified price of the money that is left. Errors as :func:`shadowprice.pacing.resolve.resolve`."""
        return resolve(
            self.campaign,
            self.curves(),
            self.remaining,
            self.spend,
            slot=self.slot_and_step[0],
            step=self.slot_and_step[1],
            at=max(self.at, 0.0),
            version=self.version,
            model_version=self.model_version,
            now=self.now,
            newest=self.newest,
            executor=self.executor,
        )


class Pacer(Protocol):
    """A way of pacing. It keeps nothing: what it must remember is in the newest record."""

    def moments(self, hours: int) -> Sequence[float]:
        """Hours since the opening of a window of ``hours`` slots at which a price is wanted, ascending from 0."""
        ...

    def price(self, state: CampaignState) -> Resolution | None:
        """The next price, or None to keep the newest.

        Raises:
            NotCertified: no price may be published; the last one stays.
        """
        ...


BEFORE = (-1, 0)
"""Place of a price for the time before the window."""


def scheduled_slot(moments: Sequence[float], at: float) -> tuple[int, int]:
    """Slot and step of the last of the ``moments`` that is not after ``at``; :data:`BEFORE` for none."""
    past = bisect_right(moments, at)
    if not past:
        return BEFORE
    slot = int(moments[past - 1])
    return slot, past - 1 - next(k for k, moment in enumerate(moments) if int(moment) == slot)


def every(steps: Sequence[int]) -> list[float]:
    """Evenly spaced moments, ``steps[slot]`` in each slot, the first at its start."""
    return [slot + k / count for slot, count in enumerate(steps) for k in range(count)]
