"""The hourly re-solve: the price of the money that is left, for the requests still to come.

The totals may not fall behind the newest price, and the new price stays within a factor of :data:`MAX_STEP` of it
(status ``bounded`` where that binds; the certificate is that of the solve). It is never below the campaign's
``least_return``: where nothing more returns that much the rest of the budget stays unspent.

Each account makes its share of the requests expected of its side, so the problem is that of the rest of the
window. Its budget is one of the following, less the expected cost of open
authorizations (:func:`expected_cost_of_holds`):

- for a ``total``: limit − spent;
- for a mean ``per_account``: limit·(requests so far + requests to come) − spent;
- for a mean ``per_response``: limit·(measure so far + measure to come) − spent, where the
  measure is the responses of a side paid on response and the requests of one paid on grant.

Each further budget is a constraint with a price of its own (:func:`in_hand_of_budgets`), in the day or hour of the
price where its limit is of a day or an hour; each later period has its whole limit. Of a budget that campaigns
share, each has a share of what is left. A budget of one arm has no price: the ledger enforces it. The sum of a second
outcome is paced alike, by what is expected of the levels that were given so far; nothing but its price holds it.

Caps of accounts and partners are in the curves: each level counts for the share of the requests that it can be
given to (:class:`~shadowprice.pacing.budgets.caps.CapsAhead`).

The rest of the campaign's ``late_reserve`` is set aside, and so is the cost of its exploration
(:mod:`shadowprice.pacing.window`). Where a minor unit expected by the curves is really ``spend_ratio`` minor units, the
money in hand is divided by it, so that the budget binds at the price. At first held-out rows tell this ratio
(:mod:`shadowprice.allocation.spend_ratio`), then the day (:mod:`shadowprice.pacing.budgets.learned`). The plan is the
expected spend of the chosen levels, times that ratio, over the forecast arrivals, hour by hour; with caps, early
requests cost more (:meth:`CapsAhead.profile`).

Where the rest of the window can spend no money, nothing is solved: the record has the newest price and its
certificate, a plan without spend, and the status ``kept`` (:mod:`shadowprice.pacing.budgets.kept`). The price of a
further budget stays likewise while its present period is exhausted.

A delivery has places in place of money: :mod:`shadowprice.pacing.places` plans those that are left.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.executors import Executor
from shadowprice.allocation.sources.rows import Part, Row
from shadowprice.allocation.spend_ratio import HeldOutSpend, solve_within
from shadowprice.allocation.spend_ratio import spend_ratio as held_out_ratio
from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import NotCertified
from shadowprice.pacing.budgets.caps import COLUMNS, CapsAhead, counting_prices
from shadowprice.pacing.budgets.certificate import certify, check_progress, expected_requests, sampled_sides
from shadowprice.pacing.budgets.in_hand import (
    expected_cost_of_holds,
    in_hand_of_budgets,
    remaining_budget,
    shares_of_budgets,
    used_of_budgets,
)
from shadowprice.pacing.budgets.kept import KEPT, exhausted, nothing_to_buy
from shadowprice.pacing.budgets.learned import spend_ratio
from shadowprice.pacing.budgets.periods import MOST_COLUMNS, bending, parts_of, plans_of
from shadowprice.pacing.budgets.steps import pacing_error, pacing_errors, within_a_step
from shadowprice.pacing.places import DeliveryPlan, plan_places
from shadowprice.pacing.spend import SpendReport
from shadowprice.pacing.state import Remaining
from shadowprice.pacing.window import least_cost, solve_window
from shadowprice.price import PriceRecord


@dataclass(frozen=True)
class Resolution:
    """A certified price, not yet published.

    record   sealed; its primal and dual are the value expected of the rest of the window
    planned  minor units expected to be spent in the rest of the record's slot at this price
    seconds  time that building and solving the problem took
    plan     of a delivery: the segments of the accounts without a place
    """

    record: PriceRecord
    planned: float
    seconds: float
    plan: DeliveryPlan | None = None


@dataclass(frozen=True, eq=False)
class CampaignState:
    """State of a campaign when a price is requested: the only input of a pacer.

    at             hours since the window opened; negative before it
    slot_and_step  slot and step that the price is for; see :func:`~shadowprice.pacing.pacers.base.scheduled_slot`
    spend          totals so far
    remaining      side → (slots,), requests expected in the rest of this slot and in each later one
    curves         gives side → curves of recent requests; a pacer that does not solve need not call it
    newest         the newest price of this window, if any
    version        that the next record will have, one above the newest published
    model_version  the model that made the curves
    now            UTC, stamped on the record
    executor       who holds the accounts of a solve; None for this process
    accounts       gives side → names of the accounts of the curves, which a delivery lists; {} where nobody lists them
    held_out_spend  side → spend of the model's policy by rows that it has not learned from
    outcome_bounds  side → second outcome → (2, J), limits of the 95 % interval of its mean at each level
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
    accounts: Callable[[], Mapping[Side, Sequence[str]]] = dict
    held_out_spend: Mapping[Side, HeldOutSpend] = field(default_factory=dict)
    outcome_bounds: Mapping[Side, Mapping[str, NDArray[np.float64]]] = field(default_factory=dict)

    @property
    def own(self) -> PriceRecord | None:
        """The newest price of this window that was solved for the present model, if any: only such a one is kept."""
        return None if self.newest is None or self.newest.model_version != self.model_version else self.newest

    def solve(self) -> Resolution:
        """Solve the rest of the window, as this module describes.

        Raises:
            NotCertified: the price may not be published and the last one stays: the spend is stale or from the future,
                totals or the clock went back behind the newest price, no request is expected and there is no price to
                keep, a side expected has no sample, the remaining budget does not pay for the cheapest levels
                (infeasible), or gap or violation exceed the campaign's limits.
            InvalidInput: a forecast that is not a list of numbers ≥ 0, curves of other levels.
        """
        samples, started = self.curves(), time.perf_counter()
        check_progress(self.spend, self.newest, self.now)
        if self.campaign.segments:
            return self._places(samples, started)
        rest = _Rest(self, samples)
        if self.own is not None and nothing_to_buy(self.campaign, rest.in_hand, rest.to_come):
            return rest.kept(self.own, started)
        return rest.priced(samples, started)

    def _places(self, samples: Mapping[Side, Curves], started: float) -> Resolution:
        """Plan the remaining places of a delivery, whose prices are those of a place in each segment."""
        (side,) = self.campaign.sides
        names = np.array(self.accounts()[side], dtype=str)
        plan = plan_places(self.campaign, names, samples[side], self.spend.caps, self.model_version)
        seconds = time.perf_counter() - started
        record = plan.price(
            self.campaign,
            version=self.version,
            slot=self.slot_and_step[0],
            step=self.slot_and_step[1],
            at=max(self.at, 0.0),
            requests=sum(self.spend.requests.values()),
            solved_at=self.now,
            seconds=seconds,
        )
        return Resolution(record, 0.0, seconds, plan)


class _Rest:
    """Money and requests of the rest of the window."""

    def __init__(self, state: CampaignState, samples: Mapping[Side, Curves]) -> None:
        campaign, spend = state.campaign, state.spend
        self.state, self.at, self.slot = state, max(state.at, 0.0), state.slot_and_step[0]
        self.ahead = {side: expected_requests(state.remaining, side) for side in campaign.sides}
        self.to_come = {side: float(requests.sum()) for side, requests in self.ahead.items()}
        held = expected_cost_of_holds(campaign, samples, spend, state.newest)
        self.left = remaining_budget(campaign, spend)
        if campaign.budget.form == "total" and self.left < 0:
            over = f"the budget is overspent by {-self.left:.0f} minor units: only the hard stop can answer now"
            raise NotCertified(over)
        self.in_hand = self.left - sum(held.values()) - campaign.set_aside(spend.late)
        self.committed = spend.spent + sum(held.values())
        self.in_hand_of = in_hand_of_budgets(campaign, spend, held, samples)
        self.used_of = used_of_budgets(campaign, spend, held, samples)
        self.outcomes = {limit.name for limit in campaign.group_budgets if limit.outcome}

    def kept(self, newest: PriceRecord, started: float) -> Resolution:
        """Return the newest price with its certificate, and a plan without spend."""
        moment, plans = self._moment(), self._plans({name: {} for name in self.used_of})
        plan, seconds = (self.committed,) * len(moment["arrivals"]), time.perf_counter() - started
        kept = replace(newest, **moment, status=KEPT, plan=plan, plans=plans, seconds=seconds, by="", sha256="")
        return Resolution(kept.sealed(), 0.0, seconds)

    def priced(self, samples: Mapping[Side, Curves], started: float) -> Resolution:
        """Solve, certify, and plan."""
        campaign, curves = self.state.campaign, sampled_sides(samples, self.ahead, self.slot)
        caps = {side: self._caps(side, curve) for side, curve in curves.items()}
        ratio = self._spend_ratio(curves)
        parts, rows = self._parts(curves, ratio)
        expected, money = {side: self.to_come[side] for side in curves}, self.in_hand / ratio
        counted = counting_prices(
            caps,
            self.state.newest.prices if self.state.newest else {},
            lambda few: solve_window(campaign, few, expected, money, parts, rows).prices,
        )
        curves = {side: cap.curves(counted) for side, cap in caps.items()}
        if len(parts) > 1:
            curves = {side: mine.sample(MOST_COLUMNS // len(parts)) for side, mine in curves.items()}
        solution = solve_window(campaign, curves, expected, money, parts, rows, executor=self.state.executor)
        certify(campaign, solution.allocation, self.in_hand, lambda: ratio * least_cost(campaign, curves, expected))
        solved = {name: solution.prices.get(name, 0.0) for name in campaign.priced}
        bounded = self._bounded(solved)
        profile = {side: cap.sample(COLUMNS).profile(solved) for side, cap in caps.items()}
        by_slot = sum(ratio * solution.spend[side] * expected[side] * profile[side] for side in curves)
        of_budgets = {
            row: {side: self._ratio_of(row, ratio) * cost for side, cost in own.items()}
            for row, own in solution.spend_of.items()
        }
        record = PriceRecord(
            campaign=campaign.name,
            **self._moment(),
            prices=bounded,
            tie_share=solution.allocation.tie_share if bounded == solved else 0.0,
            status=solution.allocation.status if bounded == solved else "bounded",
            primal=solution.primal,
            dual=solution.dual,
            gap=solution.allocation.gap,
            violation=solution.allocation.violation,
            sample_rows=sum(mine.accounts for mine in curves.values()),
            model_version=self.state.model_version,
            window=campaign.starts_at,
            plan=(self.committed, *(self.committed + np.cumsum(by_slot)).tolist()),
            seconds=time.perf_counter() - started,
            spend_ratio=ratio,
            plans=self._plans(of_budgets),
            outcomes=solution.outcomes,
        )
        return Resolution(record.sealed(), float(np.asarray(by_slot)[0]), record.seconds)

    def _caps(self, side: Side, curves: Curves) -> CapsAhead:
        return CapsAhead(self.state.campaign, side, curves, self.state.spend, self.ahead[side], self.slot, self.at)

    def _parts(self, curves: Mapping[Side, Curves], ratio: float) -> tuple[list[Part], list[Row]]:
        """Return the periods that the rest of the window has, and the further budgets, whose money counts ``ratio``."""
        campaign, own = self.state.campaign, {side: self.ahead[side] for side in curves}
        of_rows = {name: amount / self._ratio_of(name, ratio) for name, amount in self.in_hand_of.items()}
        parts, rows = parts_of(
            campaign, own, self.slot, of_rows, shares_of_budgets(campaign, self.state.spend), self.at
        )
        return parts, bending(rows, self.state.spend, self.state.outcome_bounds)

    def _spend_ratio(self, curves: Mapping[Side, Curves]) -> float:
        """Return the ratio that the window has shown so far; before its first price, that of held-out rows."""
        state, campaign = self.state, self.state.campaign
        if state.own is not None or campaign.budget.form != "total" or not state.held_out_spend:
            return spend_ratio(campaign, state.newest, state.spend, self.committed, self.at, state.model_version)
        expected = {side: self.to_come[side] for side in curves}
        few = {side: mine.sample(COLUMNS) for side, mine in curves.items()}

        def price(ratio: float) -> float:
            solved = solve_window(campaign, few, expected, self.in_hand / ratio, *self._parts(few, ratio))
            return solved.prices.get(campaign.budget.name, 0.0)

        return solve_within(price, float, partial(held_out_ratio, state.held_out_spend, expected))[1].value

    def _ratio_of(self, name: str, ratio: float) -> float:
        """Return the ``spend_ratio`` of a row, which is of money alone."""
        return 1.0 if name in self.outcomes else ratio

    def _moment(self) -> dict[str, Any]:
        """Return the fields of a record that no solve decides."""
        state, asked = self.state, sum(self.state.spend.requests.values())
        return {
            "version": state.version,
            "slot": self.slot,
            "step": state.slot_and_step[1],
            "at": self.at,
            "spent": state.spend.spent,
            "remaining": round(self.left),
            "requests": asked,
            "expected": sum(self.to_come.values()),
            "arrivals": (float(asked), *(asked + np.cumsum(sum(self.ahead.values()))).tolist()),
            "pacing_error": pacing_error(state.newest, self.committed, self.at),
            "pacing_errors": pacing_errors(state.newest, self.used_of, self.at),
            "solved_at": state.now,
            "expires_at": state.now + timedelta(hours=state.campaign.price_ttl_hours),
        }

    def _bounded(self, solved: Mapping[str, float]) -> dict[str, float]:
        """Return the prices within a step of the newest; that of a budget that is exhausted stays."""
        campaign, newest = self.state.campaign, self.state.newest
        spent_up = exhausted(campaign, self.in_hand_of) if newest else ()
        bounded = {
            name: newest.prices.get(name, price) if newest and name in spent_up else within_a_step(price, newest, name)
            for name, price in solved.items()
        }
        main = campaign.budget.name
        return bounded | {main: max(bounded[main], campaign.least_return)}

    def _plans(self, of_budgets: Mapping[str, Mapping[Side, float]]) -> dict[str, tuple[float, ...]]:
        # The mean of a second outcome counts nothing so far: its plan is the expected sum of the requests to come.
        used = {name: 0.0 for name in self.outcomes if name in of_budgets} | self.used_of
        return plans_of(self.state.campaign, self.ahead, self.slot, used, of_budgets, self.at)
