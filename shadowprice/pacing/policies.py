"""Ways to price a day, run in process on the same requests with the same luck."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.decision import decide
from shadowprice.errors import NotFound, Unavailable
from shadowprice.pacing.day import Accounts, Day
from shadowprice.pacing.forecast import Forecast
from shadowprice.pacing.outcomes import NOTHING, Outcomes, Population
from shadowprice.pacing.replay import Answers, ResolveSlot
from shadowprice.pacing.resolve import Resolution, resolve
from shadowprice.pacing.spend import SpendReport
from shadowprice.price import PriceRecord


class Books:
    """Totals and recent traffic of one campaign, kept in process: the ledger of a simulation."""

    def __init__(self, campaign: Campaign, history: Mapping[Side, NDArray[np.str_]], sample_rows: int = 4000) -> None:
        self.campaign = campaign
        self.spent = 0
        self.responses: dict[Side, float] = dict.fromkeys(history, 0.0)
        self.requests: dict[Side, int] = dict.fromkeys(history, 0)
        self.recent: dict[Side, deque[str]] = {
            side: deque(accounts.tolist(), maxlen=sample_rows) for side, accounts in history.items()
        }

    def settle(self, outcomes: Outcomes) -> None:
        """Add the outcomes of a batch."""
        self.spent += int(outcomes.cost.sum())
        for side, recent in self.recent.items():
            mine = outcomes.side == side
            self.responses[side] += float(outcomes.response[mine].sum())
            self.requests[side] += int(np.count_nonzero(mine))
            recent.extend(outcomes.account_id[mine].tolist())

    def read(self, campaign: str) -> SpendReport:
        """Totals now, or :class:`NotFound` for a campaign these books are not of."""
        if campaign != self.campaign.name:
            raise NotFound(f"these are the books of {self.campaign.name!r}, not of {campaign!r}")
        return SpendReport(
            spent=self.spent,
            responses=dict(self.responses),
            requests=dict(self.requests),
            observed_at=datetime.now(UTC),
        )

    def sample(self, model: Mapping[Side, Population]) -> dict[Side, Curves]:
        """Curves of the most recent requests of each side."""
        return {side: model[side].of(np.array(recent, dtype=np.str_)) for side, recent in self.recent.items()}


@dataclass
class PricedPolicy:
    """Answers batches by :func:`decide` at the price in force, on the model's curves.

    hard_stop  for a total budget: an incentive is given only while its full amount is still there,
               else the cheapest level if that fits, else nothing. Without it the budget is a plan.
    """

    campaign: Campaign
    model: Mapping[Side, Population]
    books: Books
    hard_stop: bool = False
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
        for side in self.campaign.sides:
            rows = np.flatnonzero(batch.side == side)
            if not rows.size:
                continue
            response = self.model[side].of(batch.account_id[rows]).response
            decision = decide(
                self.campaign.terms(side).value(response),
                self.campaign.net_cost(side, response),
                list(self.price.prices.values()),
                self.price.tie_share,
                batch.request_id[rows].tolist(),
                exploration=self.campaign.exploration,
            )
            level[rows] = decision.level
            propensity[rows] = decision.propensity
            reason[rows] = np.where(decision.explored, "explored", np.where(decision.tied, "tie", "optimal"))
        if self.hard_stop and self.campaign.budget.form == "total":
            self._stop(batch, level, reason)
        return Answers(level, reason, propensity)

    def _stop(self, batch: Day, level: NDArray[np.int32], reason: NDArray[np.str_]) -> None:
        left = self.campaign.budget.limit - self.books.spent
        for row, side in enumerate(batch.side.tolist()):
            levels = self.campaign.terms(side).levels
            if levels[level[row]] > left:
                level[row] = 0 if levels[0] <= left else NOTHING
                reason[row] = "budget_exhausted"
            if level[row] != NOTHING:
                left -= levels[level[row]]


@dataclass
class Pricer:
    """Solves prices for a :class:`PricedPolicy` and puts them in force."""

    policy: PricedPolicy
    forecast: Forecast
    model_version: str = "in-process"

    def hourly(self, slot: int, observed: Mapping[Side, NDArray[np.int64]]) -> Resolution:
        """The system: every slot, the money left over the traffic still to come."""
        return self._solve(slot, self.policy.books.sample(self.policy.model), self.forecast.remaining(slot, observed))

    def static(self, slot: int, observed: Mapping[Side, NDArray[np.int64]]) -> Resolution | None:
        """One price for the whole window, from the forecast alone."""
        return self.hourly(0, observed) if slot == 0 else None

    def hindsight(self, day: Day) -> ResolveSlot:
        """One price for the whole window, from the requests that will really come."""

        def solve(slot: int, _observed: Mapping[Side, NDArray[np.int64]]) -> Resolution | None:
            if slot:
                return None
            counts = {side: count.astype(np.float64) for side, count in day.counts().items() if count.sum()}
            model = self.policy.model
            return self._solve(0, {side: model[side].of(day.account_id[day.side == side]) for side in counts}, counts)

        return solve

    def _solve(
        self, slot: int, samples: Mapping[Side, Curves], remaining: Mapping[Side, NDArray[np.float64]]
    ) -> Resolution:
        policy = self.policy
        spend = policy.books.read(policy.campaign.name)
        found = resolve(
            policy.campaign,
            samples,
            remaining,
            spend,
            slot=slot,
            version=policy.price.version + 1 if policy.price else 1,
            model_version=self.model_version,
            now=spend.observed_at,
        )
        policy.price = found.record
        return found


def past_traffic(accounts: Mapping[Side, Accounts], rows: int, seed: int) -> dict[Side, NDArray[np.str_]]:
    """side → (rows,), accounts of requests before the window: the sample that the first price is solved on."""
    stream = np.random.default_rng(seed)
    return {
        side: stream.choice(who.account_id, size=rows, p=who.activity / who.activity.sum())
        for side, who in accounts.items()
    }
