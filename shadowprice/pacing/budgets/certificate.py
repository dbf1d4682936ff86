"""Checks of spend, forecast and sample before a solve, and of its solution."""

import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.allocation import Allocation
from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput, NotCertified
from shadowprice.pacing.spend import SpendReport
from shadowprice.price import PriceRecord

MAX_SPEND_AGE = timedelta(minutes=10)
"""Oldest spend that may be priced, and the largest difference of two clocks."""


def check_progress(
    spend: SpendReport, newest: PriceRecord | None, now: datetime, tolerance: timedelta = MAX_SPEND_AGE
) -> None:
    """Refuse, with :class:`NotCertified`, totals and clocks that are behind what is known."""
    age = now - spend.observed_at
    if not -tolerance <= age <= tolerance:
        raise NotCertified(f"the spend was observed {age.total_seconds():.0f} s ago: stale, or the clocks disagree")
    if newest is None:
        return
    if now < newest.solved_at - tolerance:
        raise NotCertified(
            f"the newest price was solved {(newest.solved_at - now).total_seconds():.0f} s from now: "
            "the clocks disagree"
        )
    requests = sum(spend.requests.values())
    # Payments only grow; the net amount falls where a correction took money back.
    if spend.spent + spend.refunded < newest.spent or requests < newest.requests:
        raise NotCertified(
            f"the totals went back, from {newest.spent} minor units and {newest.requests} requests to {spend.spent} "
            f"and {requests}: a counter was reset or a service is not counted"
        )


def expected_requests(remaining: Mapping[Side, ArrayLike], side: Side) -> NDArray[np.float64]:
    """(slots,): requests expected of a side; :class:`InvalidInput` unless they are numbers that are not negative."""
    expected = np.asarray(remaining.get(side, [0.0]), dtype=np.float64)
    if expected.ndim != 1 or expected.size == 0 or not np.all(np.isfinite(expected)) or np.any(expected < 0):
        raise InvalidInput(f"side {side!r} needs one number ≥ 0 for each slot to come", field="remaining")
    return expected


def sampled_sides(
    samples: Mapping[Side, Curves], ahead: Mapping[Side, NDArray[np.float64]], slot: int
) -> dict[Side, Curves]:
    """Return the samples of the sides with requests to come; :class:`NotCertified` where none are, or one has none."""
    present = [side for side, expected in ahead.items() if expected.sum() > 0]
    if not present:
        raise NotCertified(f"no request is expected from slot {slot} on: there is nothing left to price")
    missing = [side for side in present if side not in samples or not samples[side].accounts]
    if missing:
        raise NotCertified(f"requests of {missing} are expected but the traffic sample has none")
    return {side: samples[side] for side in present}


def certify(campaign: Campaign, solved: Allocation, left: float, least: Callable[[], float]) -> None:
    """Raise :class:`NotCertified` for a solution that is no price.

    Args:
        campaign: with its limits on gap and violation.
        solved: the solution.
        left: minor units in hand.
        least: gives the net minor units of the cheapest levels, for the message.
    """
    if solved.status == "infeasible":
        detail = ""
        if campaign.budget.form == "total":
            # A cent more, so that rounding leaves the budget feasible.
            budget = math.floor(campaign.budget.limit + least() - left) + 1
            detail = f" of {campaign.budget.limit:.0f}; the least feasible budget is {budget} minor units"
        raise NotCertified(
            f"infeasible: with {left:.0f} minor units in hand even the cheapest levels exceed budget "
            f"{campaign.budget.name!r}{detail}; the last price stays"
        )
    for name, shown, limit in (
        ("gap", solved.gap, campaign.gap_limit),
        ("violation", solved.violation, campaign.violation_limit),
    ):
        if not shown <= limit:
            raise NotCertified(f"{name} {shown:.3g} exceeds the campaign's limit {limit:.3g}; the last price stays")
