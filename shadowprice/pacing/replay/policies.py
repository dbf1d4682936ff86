"""Ways to price a day, run in process on the same requests with the same luck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.decision import NOTHING, fit_budget
from shadowprice.errors import Unavailable
from shadowprice.groups import Groups
from shadowprice.limits import MOST_AMOUNT, Asked
from shadowprice.limits.usage import Left, tightest
from shadowprice.pacing.forecast import Forecast
from shadowprice.pacing.pacers import CampaignState, Pacer, scheduled_slot
from shadowprice.pacing.replay.day import Accounts, Day
from shadowprice.pacing.replay.ledger import SimulatedLedger
from shadowprice.pacing.replay.outcomes import NamedCurves
from shadowprice.pacing.replay.run import Answers
from shadowprice.pacing.resolve import Resolution
from shadowprice.policy import Decided, Policy, treated_in
from shadowprice.price import PriceRecord


@dataclass
class PricedPolicy:
    """Answers batches by the policy at the active price, on the model's curves.

    hard_stop  each answer is cut to what the budgets and caps leave, as the ledger does it
               (:func:`shadowprice.decision.fit_budget`). Without it the budget is a plan.
    groups     of accounts, which an experiment by clusters assigns
    """

    campaign: Campaign
    model: Mapping[Side, NamedCurves]
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
        at = [self.campaign.starts_at + timedelta(hours=hour) for hour in batch.at.tolist()]
        treated, _ = treated_in(self.campaign, batch.account_id.tolist(), [""] * len(batch), at, self.groups)
        decided: dict[Side, tuple[NDArray[np.intp], Decided]] = {}
        policy = Policy(self.campaign, self.ledger.coverage, self.price.of(self.campaign.priced), self.price.tie_share)
        for side in self.campaign.sides:
            rows = np.flatnonzero(batch.side == side)
            if not rows.size:
                continue
            eligible = policy.eligible(batch.take(rows).of_side(side))
            reason[rows] = "ineligible"
            rows = rows[eligible.rows]
            curves, names = self.model[side].of(batch.account_id[rows]), batch.request_id[rows].tolist()
            made = policy.answer(eligible, curves, names, treated.take(rows))
            decided[side] = rows, made
            level[rows], propensity[rows] = made.decision.level, made.decision.propensity
            reason[rows] = made.reasons
        if self.campaign.limits or (self.hard_stop and self.campaign.budget.form == "total"):
            self._stop(batch, at, decided, level, reason, propensity)
        self.ledger.authorize(batch, level)
        return Answers(level, reason, propensity, treated.arm)

    def _stop(
        self,
        batch: Day,
        at: Sequence[datetime],
        decided: Mapping[Side, tuple[NDArray[np.intp], Decided]],
        level: NDArray[np.int32],
        reason: NDArray[np.str_],
        propensity: NDArray[np.float64],
    ) -> None:
        """Cut answers to what budgets and caps leave, one request after the other, as the ledger does."""
        campaign, ledger, stop = self.campaign, self.ledger, self.hard_stop
        limit = campaign.budget.limit - campaign.late_reserve if campaign.budget.form == "total" else MOST_AMOUNT
        left = int(limit) - ledger.spent - sum(ledger.outstanding.values())
        reserved = {side: campaign.terms(side).reserved for side in decided}
        wanted = sum(
            int(np.asarray(reserved[side])[answered.decision.level].sum()) for side, (_, answered) in decided.items()
        )
        if not campaign.limits and wanted + max(max(most) for most in reserved.values()) <= left:
            return
        cells = ((row, side, place) for side, (rows, _) in decided.items() for place, row in enumerate(rows.tolist()))
        shares = {side: answered.decision.policy.propensities().T.tolist() for side, (_, answered) in decided.items()}
        for row, side, place in sorted(cells):
            made, share = decided[side][1], shares[side][place]
            names = str(batch.account_id[row]), side, str(batch.partners[row]), str(made.treated.arm[place])
            asked = Asked(*names, frozenset(made.groups[place].split(",")))
            most, sums = reserved[side], campaign.limits.sums(asked, at[row])
            if stop:
                others = ledger.elsewhere(sums)
                room = tightest(Left(left, campaign.budget.name), ledger.bounds(at[row]), sums, ledger.usage, others)
                allowed = bool(made.unpaid[place])
                fitted = fit_budget(int(level[row]), share, most, room.amount, unpaid_allowed=allowed)
                if most[level[row]] > max(room.amount, 0):
                    reason[row] = room.reason
                level[row], propensity[row] = fitted.level, fitted.propensity
            held = 0 if level[row] == NOTHING else most[level[row]]
            left -= held
            ledger.hold(str(batch.request_id[row]), sums, held)
            ledger.count(campaign.limits.sums_by_level(asked, at[row]), int(level[row]))


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
        spend = policy.ledger.read(policy.campaign.name, at)
        resolution = self.pacer.price(
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
        if resolution is not None:
            if self.store_down[0] <= at < self.store_down[1]:
                raise Unavailable("the price store cannot be written")
            policy.price = resolution.record
        return resolution


def past_traffic(accounts: Mapping[Side, Accounts], rows: int, seed: int) -> dict[Side, NDArray[np.str_]]:
    """side → (rows,), accounts of requests before the window: the sample that the first price is solved on."""
    stream = np.random.default_rng(seed)
    return {
        side: stream.choice(who.account_id, size=rows, p=who.activity / who.activity.sum())
        for side, who in accounts.items()
    }
