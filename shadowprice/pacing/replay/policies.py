"""Ways to price a day, run in process on the same requests with the same luck."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.decision import NOTHING, fit_budget
from shadowprice.errors import NotFound, Unavailable
from shadowprice.groups import Groups
from shadowprice.limits import MOST_AMOUNT, Asked, Bound, Cap, GroupBudget, name_of
from shadowprice.limits.coverage import Coverage, SideRequests
from shadowprice.limits.usage import Left, Usage, tightest
from shadowprice.pacing.contexts import Contexts, drawn_contexts, joined_contexts
from shadowprice.pacing.forecast import Forecast
from shadowprice.pacing.pacers import CampaignState, Pacer, scheduled_slot
from shadowprice.pacing.replay.day import Accounts, Day
from shadowprice.pacing.replay.outcomes import NamedCurves, Outcomes
from shadowprice.pacing.replay.run import Answers
from shadowprice.pacing.resolve import Resolution
from shadowprice.pacing.spend import CapUse, SpendReport, hours_counted
from shadowprice.policy import Decided, Policy, treated_in
from shadowprice.price import PriceRecord


class SimulatedLedger:
    """Totals, further limits and recent traffic of one campaign, kept in process: the ledger of a simulation.

    Args:
        campaign: whose requests are counted.
        history: side → accounts of requests before the window.
        coverage: which budgets count a request, and what rules allow; by default without columns of accounts.
        sample_rows: newest requests of a side that are remembered; at least those of the history.
        partners: side → partners of the requests before the window, in the order of ``history``; by default none.

    :attr:`beside` are the ledgers of the campaigns that share limits with this one.
    """

    def __init__(
        self,
        campaign: Campaign,
        history: Mapping[Side, NDArray[np.str_]],
        coverage: Coverage | None = None,
        sample_rows: int = 4000,
        partners: Mapping[Side, NDArray[np.str_]] | None = None,
    ) -> None:
        self.campaign = campaign
        self.coverage = coverage or campaign.coverage()
        self._fixed = {bound.name: bound for bound in campaign.limits.bounds}
        self.usage: dict[str, Usage] = {}
        self._noted: dict[str, tuple[Sequence[str], int]] = {}
        self._now = campaign.starts_at
        self.first: datetime | None = None
        self.beside: list[SimulatedLedger] = []
        self.spent_of: dict[Side, int] = dict.fromkeys(history, 0)
        self.responses: dict[Side, float] = dict.fromkeys(history, 0.0)
        self.requests: dict[Side, int] = dict.fromkeys(history, 0)
        self.outstanding: dict[Side, int] = dict.fromkeys(history, 0)
        self.recent: dict[Side, deque[tuple[str, str, Mapping[str, Any] | None]]] = {}
        for side, accounts in history.items():
            beside = partners[side].tolist() if partners and side in partners else [""] * len(accounts)
            before = zip(accounts.tolist(), beside, [None] * len(accounts), strict=True)
            self.recent[side] = deque(before, maxlen=max(sample_rows, len(accounts)))

    def bounds(self, at: datetime) -> dict[str, Bound]:
        """Bounds of the further limits at a time, by name."""
        if not self.campaign.limits.roll_over:
            return self._fixed
        return {bound.name: bound for bound in self.campaign.bounds(at)}

    @property
    def spent(self) -> int:
        """Minor units paid on all sides."""
        return sum(self.spent_of.values())

    def elsewhere(self, sums: Sequence[str]) -> dict[str, Usage]:
        """Return the sums of the other campaigns that share their limits, added up, by name; absent ones are zero."""
        usages: dict[str, Usage] = {}
        for key in sums if self.beside else ():
            for other in self._sharing(self._fixed[name_of(key)].campaigns):
                usages[key] = usages.get(key, Usage()).plus(*other.usage.get(key, Usage()))
        return usages

    def _sharing(self, campaigns: Sequence[str]) -> list[SimulatedLedger]:
        return [ledger for ledger in self.beside if ledger.campaign.name in campaigns]

    def hold(self, request_id: str, sums: Sequence[str], amount: int) -> None:
        """Hold the amount of one request in the sums of its further limits, before :meth:`authorize`."""
        if sums:
            self._noted[request_id] = sums, amount
            self._add(sums, amount, int(amount > 0))

    def _add(self, sums: Sequence[str], amount: int, uses: int) -> None:
        for name in sums:
            self.usage[name] = self.usage.get(name, Usage()).plus(amount, uses)

    def count(self, sums: Sequence[str], level: int) -> None:
        """Count the level of one request in its sums of second outcomes."""
        self._add([f"{name}{level}" for name in sums], 0, 1)

    def authorize(self, batch: Day, level: NDArray[np.int32]) -> None:
        """Hold the amount that each request of a batch is given."""
        for side, recent in self.recent.items():
            mine = batch.side == side
            levels = level[mine]
            amounts = np.asarray(self.campaign.terms(side).reserved, dtype=np.int64)
            self.outstanding[side] += int(amounts[levels[levels != NOTHING]].sum())
            self.requests[side] += int(np.count_nonzero(mine))
            rows = np.flatnonzero(mine).tolist()
            contexts = [{name: values[row] for name, values in batch.context.items()} for row in rows]
            recent.extend(zip(batch.account_id[mine].tolist(), batch.partners[mine].tolist(), contexts, strict=True))
        self.first = self.first or self.campaign.starts_at + timedelta(hours=float(batch.at.min(initial=0.0)))
        self._now = max(self._now, self.campaign.starts_at + timedelta(hours=float(batch.at.max(initial=0.0))))

    def settle(self, outcomes: Outcomes) -> None:
        """Capture redeemed amounts and release the held ones."""
        for side in self.recent:
            mine = outcomes.side == side
            self.spent_of[side] += int(outcomes.cost[mine].sum())
            self.responses[side] += float(outcomes.response[mine].sum())
            self.outstanding[side] -= self.campaign.terms(side).most_units * int(outcomes.incentive[mine].sum())
        if self._noted:
            for request_id, cost in zip(outcomes.request_id.tolist(), outcomes.cost.tolist(), strict=True):
                sums, held = self._noted.pop(request_id, ((), 0))
                self._add(sums, cost - held, 0)

    def read(self, campaign: str, at: float | None = None) -> SpendReport:
        """Totals ``at`` hours after the opening, by default at the last request.

        Raises:
            NotFound: the campaign is another ledger's.
        """
        if campaign != self.campaign.name:
            raise NotFound(f"this is the ledger of {self.campaign.name!r}, not of {campaign!r}")
        now = self._now if at is None else self.campaign.starts_at + timedelta(hours=max(at, 0.0))
        sums = self.campaign.limits.current(now)
        return SpendReport(
            spent=self.spent,
            responses=dict(self.responses),
            requests=dict(self.requests),
            outstanding=dict(self.outstanding),
            spent_of=dict(self.spent_of),
            used_of={
                budget.name: self.usage.get(sums[budget.name], Usage()).amount
                - self.campaign.granted_before(budget, now)
                for budget in self.campaign.limits.budgets
            },
            caps={cap.name: self._use(cap, now) for cap in self.campaign.limits.counted_by_owner},
            observed_at=datetime.now(UTC),
        )

    def _use(self, cap: GroupBudget | Cap, now: datetime) -> CapUse:
        """Use of a cap or a shared budget in its period that contains ``now``."""
        limits = self.campaign.limits
        begin = limits.begin_of(cap, now)
        elsewhere: dict[str, Usage] = {}
        others = self._sharing(cap.campaigns)
        for other in others:
            for name, usage in other.usage.items():
                if name.startswith(begin):
                    owner = name.removeprefix(begin)
                    elsewhere[owner] = elsewhere.get(owner, Usage()).plus(*usage)
        own = {name.removeprefix(begin): usage for name, usage in self.usage.items() if name.startswith(begin)}
        return CapUse.of(
            own, elsewhere, hours_counted(limits.calendar.began(cap.period, now), [use.first for use in others], now)
        )

    def sample(self, model: Mapping[Side, NamedCurves]) -> dict[Side, Curves]:
        """Curves of the most recent requests of each side, with their budgets and rules."""
        sampled = {}
        for side, recent in self.recent.items():
            names, partners = [name for name, *_ in recent], [partner for _, partner, _ in recent]
            curves = model[side].of(np.array(names, dtype=np.str_))
            sampled[side] = self.coverage.mark(SideRequests(side, names, partners, self._contexts(side)), curves)
        return sampled

    def _contexts(self, side: Side) -> Contexts | None:
        """Contexts of the sample: requests before the window have those of the window in turn; None without any."""
        wanted = self.coverage.context_names(side)
        known = [context for _, _, context in self.recent[side] if context is not None]
        before = len(self.recent[side]) - len(known)
        window = {name: [own.get(name) for own in known] for name in wanted}
        drawn = drawn_contexts(window, before)
        return None if drawn is None else joined_contexts([(drawn, before), (window, len(known))], wanted)


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
