"""Ledger of a simulation, kept in process."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.decision import NOTHING
from shadowprice.errors import NotFound
from shadowprice.limits import Bound, Cap, GroupBudget, name_of
from shadowprice.limits.coverage import Coverage, SideRequests
from shadowprice.limits.usage import Usage
from shadowprice.pacing.contexts import Contexts, drawn_contexts, joined_contexts
from shadowprice.pacing.replay.day import Day
from shadowprice.pacing.replay.outcomes import NamedCurves, Outcomes
from shadowprice.pacing.spend import CapUse, SpendReport, hours_counted


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
