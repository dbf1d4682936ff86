"""Records of prices that a controller has moved: no solve stands behind them."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

from shadowprice.pacing.pacers.base import Standing
from shadowprice.pacing.resolve import (
    Resolution,
    check_progress,
    expected_of_promises,
    money_left,
    pacing_error,
    within_a_step,
)
from shadowprice.price import PriceRecord


def committed(standing: Standing) -> float:
    """Minor units paid, and expected of what is promised."""
    spend = standing.spend
    if not any(spend.outstanding.values()):
        return float(spend.spent)
    promised = expected_of_promises(standing.campaign, standing.curves(), spend, standing.newest)
    return spend.spent + sum(promised.values())


def steered(standing: Standing, newest: PriceRecord, log_change: float) -> Resolution:
    """The newest price times exp(``log_change``), within the largest step.

    Its plan, primal, dual, gap and violation are those of the solve it started from, and its status is
    ``steered``.

    Raises:
        NotCertified: the spend is stale, or totals or clock went back.
    """
    check_progress(standing.spend, newest, standing.now)
    name, price = next(iter(newest.prices.items()))
    paid = committed(standing)
    slot, step = standing.place
    plan = (paid, *newest.plan[max(slot, 0) - max(newest.slot, 0) + 1 :])
    record = replace(
        newest,
        version=standing.version,
        slot=slot,
        step=step,
        at=standing.at,
        prices={name: within_a_step(price * math.exp(log_change), newest, name)},
        tie_share=newest.tie_share if log_change == 0 else 0.0,
        status="steered",
        spent=standing.spend.spent,
        remaining=round(money_left(standing.campaign, standing.spend)),
        requests=sum(standing.spend.requests.values()),
        expected=sum(float(ahead.sum()) for ahead in standing.remaining.values()),
        plan=plan,
        pacing_error=pacing_error(newest, paid, standing.at),
        solved_at=standing.now,
        expires_at=standing.now + timedelta(hours=standing.campaign.price_ttl_hours),
        seconds=0.0,
        sha256="",
    )
    return Resolution(record.sealed(), plan[1] - paid, 0.0)
