"""The hourly re-solve: the price of the money that is left, for the requests still to come."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.allocation import Allocation
from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput, NotCertified
from shadowprice.pacing.price_store import PriceStore
from shadowprice.pacing.spend import SpendReport
from shadowprice.pacing.window import solve_window
from shadowprice.price import PriceRecord


@dataclass(frozen=True)
class Resolution:
    """A certified price, not yet published.

    record   sealed; its primal and dual are the value expected of the rest of the window
    planned  minor units expected to be spent in the record's slot at this price
    seconds  time that building and solving the problem took
    """

    record: PriceRecord
    planned: float
    seconds: float


def resolve(
    campaign: Campaign,
    samples: Mapping[Side, Curves],
    remaining: Mapping[Side, ArrayLike],
    spend: SpendReport,
    *,
    slot: int,
    version: int,
    model_version: str,
    now: datetime,
    max_spend_age: timedelta = timedelta(minutes=10),
    solver: str = "auto",
) -> Resolution:
    """Solve the rest of the window on a sample of recent traffic.

    Args:
        campaign: terms, budget, and the limits on the certificate.
        samples: side → curves of recent requests, the model's view of the traffic to come.
        remaining: side → (slots,), requests expected in this slot and each later one.
        spend: what was spent, answered and requested so far.
        slot: hour of the window the price is for.
        version: version of the record, one above the newest published.
        model_version: the model that made the curves.
        now: UTC, stamped on the record; its expiry is the campaign's price_ttl_hours later.
        max_spend_age: oldest spend that may be priced.
        solver: a name of ``shadowprice.allocation.solvers``; what it finds is certified all the same.

    Each request of the sample stands for as many as are expected of its side, so the problem is
    that of the rest of the window. What may be spent on it is

    - for a ``total``: limit − spent;
    - for a mean ``per_account``: limit·(requests so far + requests to come) − spent;
    - for a mean ``per_response``: limit·(measure so far + measure to come) − spent, where the
      measure is the responses of a side paid on response and the requests of one paid on grant.

    What the campaign's exploration will cost is set aside (:mod:`shadowprice.pacing.window`).

    Raises:
        NotCertified: the price may not be published and the last one stays: the spend is stale or
            from the future, no request is expected, a side expected has no sample, what is left
            does not even pay for the cheapest levels (infeasible), or gap or violation exceed the
            campaign's limits.
        InvalidInput: a forecast that is not a list of numbers ≥ 0, curves of other levels.
    """
    started = time.perf_counter()
    age = now - spend.observed_at
    if not -max_spend_age <= age <= max_spend_age:
        raise NotCertified(f"the spend was observed {age.total_seconds():.0f} s ago: stale, or the clocks disagree")
    ahead = {side: _expected(remaining, side) for side in campaign.sides}
    left = money_left(campaign, spend)
    if campaign.budget.form == "total" and left < 0:
        raise NotCertified(f"the budget is overspent by {-left:.0f} minor units: only the hard stop can answer now")
    curves = _sampled(samples, ahead, slot)
    expected = {side: float(ahead[side].sum()) for side in curves}
    found = solve_window(campaign, curves, expected, left, solver=solver)
    solved = found.allocation
    _certify(campaign, solved, left)
    planned = sum(found.spend[side] * float(ahead[side][0]) for side in curves)
    record = PriceRecord(
        campaign=campaign.name,
        version=version,
        slot=slot,
        prices={campaign.budget.name: float(solved.prices[0])},
        tie_share=solved.tie_share,
        status=solved.status,
        primal=found.primal,
        dual=found.dual,
        gap=solved.gap,
        violation=solved.violation,
        spent=spend.spent,
        remaining=round(left),
        sample_rows=sum(mine.accounts for mine in curves.values()),
        model_version=model_version,
        solved_at=now,
        expires_at=now + timedelta(hours=campaign.price_ttl_hours),
    )
    return Resolution(record.sealed(), planned, time.perf_counter() - started)


def publish(store: PriceStore, resolution: Resolution) -> PriceRecord:
    """Make a certified price the newest. Errors as :meth:`PriceStore.publish`."""
    return store.publish(resolution.record)


def money_left(campaign: Campaign, spend: SpendReport) -> float:
    """Minor units earned so far and not yet spent; what future requests earn comes on top of it.

    For a total the whole limit counts as earned. Negative when more was spent than earned.
    """
    budget = campaign.budget
    if budget.form == "total":
        return budget.limit - spend.spent
    earned = 0.0
    for side, terms in campaign.sides.items():
        on_response = budget.form == "per_response" and terms.cost_basis == "on_response"
        earned += spend.responses.get(side, 0.0) if on_response else spend.requests.get(side, 0)
    return budget.limit * earned - spend.spent


def _expected(remaining: Mapping[Side, ArrayLike], side: Side) -> NDArray[np.float64]:
    expected = np.asarray(remaining.get(side, [0.0]), dtype=np.float64)
    if expected.ndim != 1 or expected.size == 0 or not np.all(np.isfinite(expected)) or np.any(expected < 0):
        raise InvalidInput(f"side {side!r} needs one number ≥ 0 for each slot to come", field="remaining")
    return expected


def _sampled(
    samples: Mapping[Side, Curves], ahead: Mapping[Side, NDArray[np.float64]], slot: int
) -> dict[Side, Curves]:
    present = [side for side, expected in ahead.items() if expected.sum() > 0]
    if not present:
        raise NotCertified(f"no request is expected from slot {slot} on: there is nothing left to price")
    missing = [side for side in present if side not in samples or not samples[side].accounts]
    if missing:
        raise NotCertified(f"requests of {missing} are expected but the traffic sample has none")
    return {side: samples[side] for side in present}


def _certify(campaign: Campaign, solved: Allocation, left: float) -> None:
    if solved.status == "infeasible":
        raise NotCertified(
            f"infeasible: with {left:.0f} minor units in hand even the cheapest levels exceed budget "
            f"{campaign.budget.name!r}; the last price stays"
        )
    for name, shown, limit in (
        ("gap", solved.gap, campaign.gap_limit),
        ("violation", solved.violation, campaign.violation_limit),
    ):
        if not shown <= limit:
            raise NotCertified(f"{name} {shown:.3g} exceeds the campaign's limit {limit:.3g}; the last price stays")
