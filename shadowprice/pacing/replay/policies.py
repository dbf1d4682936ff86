"""Ways to price a day, run in process on the same requests with the same luck."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from shadowprice.arms import treatment, units_of
from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.decision import NOTHING, Decision, decide, fit_budget
from shadowprice.errors import NotFound, Unavailable
from shadowprice.groups import Groups
from shadowprice.pacing.forecast import Forecast
from shadowprice.pacing.pacers import CampaignState, Pacer, scheduled_slot
from shadowprice.pacing.replay.day import Accounts, Day
from shadowprice.pacing.replay.outcomes import Outcomes, Population
from shadowprice.pacing.replay.run import Answers
from shadowprice.pacing.resolve import Resolution
from shadowprice.pacing.spend import SpendReport
from shadowprice.price import PriceRecord


class SimulatedLedger:
    """Totals and recent traffic of one campaign, kept in process: the ledger of a simulation."""

    def __init__(self, campaign: Campaign, history: Mapping[Side, NDArray[np.str_]], sample_rows: int = 4000) -> None:
        self.campaign = campaign
        self.spent_of: dict[Side, int] = dict.fromkeys(history, 0)
        self.responses: dict[Side, float] = dict.fromkeys(history, 0.0)
        self.requests: dict[Side, int] = dict.fromkeys(history, 0)
        self.outstanding: dict[Side, int] = dict.fromkeys(history, 0)
        self.recent: dict[Side, deque[str]] = {
            side: deque(accounts.tolist(), maxlen=sample_rows) for side, accounts in history.items()
        }

    @property
    def spent(self) -> int:
        """Minor units paid on all sides."""
        return sum(self.spent_of.values())

    def committed(self, side: Side) -> int:
        """Minor units paid and held on a side."""
        return self.spent_of[side] + self.outstanding[side]

    def authorise(self, batch: Day, level: NDArray[np.int32]) -> None:
        """Hold the amount that each request of a batch is given."""
        for side, recent in self.recent.items():
            mine = batch.side == side
            given = level[mine]
            amounts = np.asarray(self.campaign.terms(side).reserved, dtype=np.int64)
            self.outstanding[side] += int(amounts[given[given != NOTHING]].sum())
            self.requests[side] += int(np.count_nonzero(mine))
            recent.extend(batch.account_id[mine].tolist())

    def settle(self, outcomes: Outcomes) -> None:
        """Capture redeemed amounts and release the held ones."""
        for side in self.recent:
            mine = outcomes.side == side
            self.spent_of[side] += int(outcomes.cost[mine].sum())
            self.responses[side] += float(outcomes.response[mine].sum())
            self.outstanding[side] -= self.campaign.terms(side).most_units * int(outcomes.incentive[mine].sum())

    def read(self, campaign: str) -> SpendReport:
        """Totals now, or :class:`NotFound` for the campaign of another ledger."""
        if campaign != self.campaign.name:
            raise NotFound(f"these are the ledger of {self.campaign.name!r}, not of {campaign!r}")
        return SpendReport(
            spent=self.spent,
            responses=dict(self.responses),
            requests=dict(self.requests),
            outstanding=dict(self.outstanding),
            spent_of=dict(self.spent_of),
            observed_at=datetime.now(UTC),
        )

    def sample(self, model: Mapping[Side, Population]) -> dict[Side, Curves]:
        """Curves of the most recent requests of each side."""
        return {side: model[side].of(np.array(recent, dtype=np.str_)) for side, recent in self.recent.items()}


@dataclass
class PricedPolicy:
    """Answers batches by :func:`decide` at the active price, on the model's curves.

    hard_stop  for a total budget: each answer is cut to the remaining budget, and to that of its side, as the ledger
               does it (:func:`shadowprice.decision.fit_budget`). Without it the budget is a plan.
    groups     of accounts, which an experiment by clusters assigns
    """

    campaign: Campaign
    model: Mapping[Side, Population]
    ledger: SimulatedLedger
    hard_stop: bool = False
    groups: Groups | None = None
    price: PriceRecord | None = field(default=None)

    def __call__(self, batch: Day) -> Answers:
        """Answer a batch.

        Raises:
            Unavailable: there is no price yet.
        """
        if self.price is None:
            raise Unavailable("there is no price yet: the first solve was not certified")
        level = np.full(len(batch), NOTHING, dtype=np.int32)
        reason = np.full(len(batch), "optimal", dtype="U16")
        propensity = np.ones(len(batch))
        test, start = self.campaign.experiment, self.campaign.starts_at
        at = [start + timedelta(hours=hour) for hour in batch.at.tolist()]
        units = units_of(test, batch.account_id.tolist(), [""] * len(batch), at, self.groups)
        treated = treatment(test, units, self.campaign.exploration)
        decided: dict[Side, Decision] = {}
        for side in self.campaign.sides:
            rows = np.flatnonzero(batch.side == side)
            if not rows.size:
                continue
            response = self.model[side].of(batch.account_id[rows]).response
            mine = treated.take(rows)
            decision = decide(
                self.campaign.terms(side).value(response),
                self.campaign.charges(side, response),
                [self.price.prices[name] for name in self.campaign.priced],
                self.price.tie_share,
                batch.request_id[rows].tolist(),
                mine.allowed(len(response), None),
                exploration=mine.exploration,
            )
            decided[side] = decision
            level[rows] = decision.level
            propensity[rows] = decision.propensity
            reason[rows] = mine.reasons(decision)
        if self.hard_stop and self.campaign.budget.form == "total":
            self._stop(batch, decided, level, reason, propensity)
        self.ledger.authorise(batch, level)
        return Answers(level, reason, propensity, treated.arm)

    def _stop(
        self,
        batch: Day,
        decided: Mapping[Side, Decision],
        level: NDArray[np.int32],
        reason: NDArray[np.str_],
        propensity: NDArray[np.float64],
    ) -> None:
        limit = self.campaign.budget.limit - self.campaign.late_reserve
        left = limit - self.ledger.spent - sum(self.ledger.outstanding.values())
        reserved = {side: self.campaign.terms(side).reserved for side in decided}
        wanted = {side: int(np.asarray(most)[decided[side].level].sum()) for side, most in reserved.items()}
        most_of = dict.fromkeys(reserved, math.inf)
        for each in self.campaign.side_budgets:
            for side in (name for name in reserved if name == each.side):
                most_of[side] = min(most_of[side], each.limit - self.ledger.committed(side))
        margin = {side: wanted[side] + most[-1] for side, most in reserved.items()}
        if sum(margin.values()) <= left and all(margin[side] <= most_of[side] for side in reserved):
            return
        shares = {side: iter(decision.policy.propensities().T.tolist()) for side, decision in decided.items()}
        for row, side in enumerate(batch.side.tolist()):
            most = reserved[side]
            room = min(left, most_of[side])
            found = fit_budget(int(level[row]), next(shares[side]), most, room)
            if most[level[row]] > max(room, 0):
                reason[row] = "budget_exhausted"
            level[row], propensity[row] = found.level, found.propensity
            if found.level != NOTHING:
                left -= most[found.level]
                most_of[side] -= most[found.level]


@dataclass
class Pricing:
    """Asks a pacer for prices and makes them active, in process: the hourly job of a simulation.

    feed_down, store_down  hours (from, to) in which the spend cannot be read, or a price not be published
    prices                 every record published, in order
    """

    policy: PricedPolicy
    forecast: Forecast
    pacer: Pacer
    feed_down: tuple[float, float] = (0.0, 0.0)
    store_down: tuple[float, float] = (0.0, 0.0)
    model_version: str = "in-process"

    @property
    def moments(self) -> Sequence[float]:
        """Return when the next price is requested."""
        return self.pacer.moments(self.policy.campaign.hours)

    def __call__(self, at: float, observed: Mapping[Side, NDArray[np.int64]]) -> Resolution | None:
        """Make the price of a moment active; None where the pacer keeps the last one.

        Raises:
            NotCertified: there is none that may be published.
            Unavailable: feed or store are down.
        """
        policy = self.policy
        if self.feed_down[0] <= at < self.feed_down[1]:
            raise Unavailable("the spend cannot be read")
        spend = policy.ledger.read(policy.campaign.name)
        found = self.pacer.price(
            CampaignState(
                campaign=policy.campaign,
                at=at,
                slot_and_step=scheduled_slot(self.moments, at),
                spend=spend,
                remaining=self.forecast.remaining(at, observed),
                curves=lambda: policy.ledger.sample(policy.model),
                newest=policy.price,
                version=policy.price.version + 1 if policy.price else 1,
                model_version=self.model_version,
                now=spend.observed_at,
            )
        )
        if found is not None:
            if self.store_down[0] <= at < self.store_down[1]:
                raise Unavailable("the price store cannot be written")
            policy.price = found.record
        return found


def past_traffic(accounts: Mapping[Side, Accounts], rows: int, seed: int) -> dict[Side, NDArray[np.str_]]:
    """side → (rows,), accounts of requests before the window: the sample that the first price is solved on."""
    stream = np.random.default_rng(seed)
    return {
        side: stream.choice(who.account_id, size=rows, p=who.activity / who.activity.sum())
        for side, who in accounts.items()
    }
