"""One interface for every way of pacing a budget: when it wants to be asked, and the price it sets then."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

from shadowprice.pacing.resolve import CampaignState, Resolution


class Pacer(Protocol):
    """A way of pacing. It has no state: the newest record holds all that it needs."""

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
