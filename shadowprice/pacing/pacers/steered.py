"""Records of prices that a controller has moved without a solve."""

import math
from dataclasses import replace
from datetime import timedelta

from shadowprice.pacing.budgets.certificate import check_progress
from shadowprice.pacing.budgets.in_hand import expected_cost_of_holds, remaining_budget
from shadowprice.pacing.budgets.kept import KEPT, nothing_to_buy
from shadowprice.pacing.budgets.steps import pacing_error, within_a_step
from shadowprice.pacing.resolve import CampaignState, Resolution
from shadowprice.price import PriceRecord


def committed(state: CampaignState) -> float:
    """Minor units paid, and expected cost of open authorizations."""
    spend = state.spend
    if not any(spend.outstanding.values()):
        return float(spend.spent)
    held = expected_cost_of_holds(state.campaign, state.curves(), spend, state.newest)
    return spend.spent + sum(held.values())


def steered(state: CampaignState, newest: PriceRecord, log_change: float) -> Resolution:
    """The newest price times exp(``log_change``), within the largest step.

    Its plan, primal, dual, gap and violation are those of the solve it started from, and its status is ``steered``.
    Where the rest of the window can spend no money, the price stays (status ``kept``).

    Raises:
        NotCertified: the spend is stale, or totals or clock went back.
    """
    check_progress(state.spend, newest, state.now)
    name = state.campaign.priced[0]
    price = newest.prices[name]
    paid = committed(state)
    left = remaining_budget(state.campaign, state.spend)
    in_hand = left - (paid - state.spend.spent) - state.campaign.set_aside(state.spend.late)
    expected = {side: float(ahead.sum()) for side, ahead in state.remaining.items()}
    idle = nothing_to_buy(state.campaign, in_hand, expected)
    log_change = 0.0 if idle else log_change
    moved = within_a_step(price * math.exp(log_change), newest, name)
    slot, step = state.slot_and_step
    since = max(slot, 0) - max(newest.slot, 0) + 1
    # A plan that ended with its period is dropped; the next solve makes one of the new period.
    plans = {
        name: (newest.planned(state.at, name), *costs[since:])
        for name, costs in newest.plans.items()
        if len(costs) > since
    }
    plan = (paid, *newest.plan[since:])
    requests = sum(state.spend.requests.values())
    record = replace(
        newest,
        version=state.version,
        slot=slot,
        step=step,
        at=max(state.at, 0.0),
        prices={**newest.prices, name: max(moved, state.campaign.least_return)},
        tie_share=newest.tie_share if log_change == 0 else 0.0,
        status=KEPT if idle else "steered",
        spent=state.spend.spent,
        remaining=round(left),
        requests=requests,
        arrivals=(float(requests), *newest.arrivals[since:]),
        expected=sum(expected.values()),
        plan=plan,
        pacing_error=pacing_error(newest, paid, state.at),
        plans=plans,
        pacing_errors={},
        solved_at=state.now,
        expires_at=state.now + timedelta(hours=state.campaign.price_ttl_hours),
        seconds=0.0,
        sha256="",
    )
    return Resolution(record.sealed(), plan[1] - paid, 0.0)
