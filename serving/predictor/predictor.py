"""From requests to authorized answers, without anything of a web server.

The curve is the head's, the decision that of :class:`shadowprice.policy.Policy`, the answer what the ledger recorded.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from serving.predictor.active import Active
from serving.predictor.calls import Calls, Unrecorded, answers, first_occurrences, recorded_rows
from serving.predictor.context import check_context, check_partner
from serving.predictor.explain import explained, unexplained
from serving.predictor.ledger.authorizing import Ledger, authorize
from serving.predictor.ledger.client import Authorization
from serving.predictor.ledger.columns import Proposals
from serving.predictor.metrics import PredictorMetrics
from serving.predictor.wanted import Group, groups_of, merged, proposals_of, want, with_versions
from serving.protocol import Answers, Requests, UnrecordedReason
from shadowprice.arms import Treatment
from shadowprice.campaign import Campaign, Side
from shadowprice.decision import NOTHING
from shadowprice.errors import InvalidContext, ShadowpriceError, Unavailable
from shadowprice.groups import Groups
from shadowprice.limits.attributes import Attributes
from shadowprice.limits.coverage import Coverage
from shadowprice.pacing.decision_log.basis import Bases
from shadowprice.policy import treated_in

MOST_BASES = 16
"""Writers of bases in memory: two sides, at the active price and the canary's, and those before."""


class Current(Protocol):
    """Source of the active price and model; :class:`serving.predictor.price_watcher.PriceWatcher` is the real one."""

    @property
    def current(self) -> Active | None:
        """The active pair, if any was found yet."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Predictor:
    """Decides for one campaign, on an event loop.

    source                     active price and model
    ledger                     authorizes the decisions
    authorization_required     refuse to answer while the ledger does not (decision record 0003)
    window                     a request outside the campaign's window costs nothing; False: decide at any time
    groups                     of accounts, which an experiment by clusters assigns
    attributes                 side → columns of its accounts that conditions of budgets and rules read
    clock                      returns the time (UTC)
    """

    campaign: Campaign
    source: Current
    ledger: Ledger
    metrics: PredictorMetrics
    authorization_required: bool = True
    window: bool = True
    groups: Groups | None = None
    attributes: Mapping[Side, Attributes] = field(default_factory=dict)
    clock: Callable[[], datetime] = _utc_now

    @cached_property
    def coverage(self) -> Coverage:
        """Tells which budgets count a request, and what rules allow."""
        return self.campaign.coverage(self.attributes)

    @cached_property
    def _bases(self) -> dict[tuple[Side, str], Bases]:
        """Writers of the bases of each side at a price."""
        return {}

    async def answer(self, requests: Requests) -> Answers:
        """Answer one call, as :meth:`answer_all` does.

        Raises:
            Conflict: a request id stands for another account or side.
            InvalidInput: a side the campaign does not have.
            InvalidContext: context that the active model does not read, or no partner where a limit counts by it.
            Unavailable: there is no price yet, or no authorization.
        """
        (outcome,) = await self.answer_all([requests])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def answer_all(self, calls: Sequence[Requests]) -> list[Answers | Exception]:
        """Answer several calls of any sides together; the answer of each is its own, or the error that refuses it.

        One message goes to the ledger, whatever the calls are; more where it does not take that one. A call is refused
        alone. Unknown accounts and a stale price degrade the answers, as ``reason`` says: the first of
        budget_exhausted or capped, holdout, stale_price, cold_start, explored, tie, optimal. A request id that was
        answered before, also within the call, gets that answer, also where the active model or the limits refuse its
        context or partner now. Otherwise an account that no level is allowed for (ineligible), or a request outside
        the window (outside_window), is given nothing that costs money, and the ledger has nothing to record.
        """
        active = self.source.current
        first = [self._first_occurrences(call) for call in calls]
        accepted = [(call, rows) for call, rows in zip(calls, first, strict=True) if isinstance(rows, list)]
        answered: Iterator[Answers | Exception] = iter(())
        if accepted:
            misfits = {
                place: error for place, (call, _) in enumerate(accepted) if (error := self._misfit(call, active))
            }
            # Context that nothing is decided with is not joined with that of the others.
            accepted = [
                (replace(call, context={}) if place in misfits else call, rows)
                for place, (call, rows) in enumerate(accepted)
            ]
            try:
                answered = await self._answer(Calls.joined(*zip(*accepted, strict=True)), active, misfits)
            except ShadowpriceError as error:
                answered = iter([error] * len(accepted))
        return [next(answered) if isinstance(rows, list) else rows for rows in first]

    async def explain(self, requests: Requests) -> tuple[list[dict[str, Any]], Active, bool]:
        """Explain what requests would be given now; nothing is authorized, recorded or counted.

        The ledger is not asked: a request id that was answered before has that answer, and a level above the
        remaining budget is not given.

        Returns:
            The explanation of each request, the active price and model, and whether features or price are degraded.

        Raises:
            Conflict, InvalidInput, InvalidContext: as :meth:`answer`.
            Unavailable: there is no price yet.
        """
        active = self.source.current
        if active is None:
            raise Unavailable(f"campaign {self.campaign.name!r} has no price yet")
        check_context(active.model, requests)
        check_partner(self.campaign, requests)
        first_occurrences(self.campaign, requests)
        now = self.clock()
        outside = self.window and not self.campaign.starts_at <= now < self.campaign.ends_at
        stale = not outside and active.price.stale(now)
        treated = self._treated(requests, now, active)
        explanations: dict[int, dict[str, Any]] = {}
        failed = False
        for group in () if outside else groups_of(active, requests, range(len(requests)), treated, stale):
            wanted = await want(self.campaign, self.coverage, group, requests, treated, lambda _: nullcontext())
            failed |= wanted.read.failed
            explanations |= dict(explained(self.campaign, group.pair, requests, group.side, wanted))
        reason: UnrecordedReason = "outside_window" if outside else "ineligible"
        in_order = [
            explanations.get(row) or unexplained(requests, row, reason, self._level_of_nothing(side, outside))
            for row, side in enumerate(requests.side)
        ]
        return in_order, active, failed or stale

    def _treated(self, requests: Requests, now: datetime, active: Active) -> Treatment:
        campaign, at = self.campaign.in_doubt() if active.alarmed else self.campaign, [now] * len(requests)
        treated, units = treated_in(campaign, requests.account_id, requests.partner_id, at, self.groups)
        beside = active.beside
        # A canary whose price is stale decides for nobody: the served model has a newer one, or is told to be stale.
        return treated if beside is None or beside.pair.price.stale(now) else beside.canary.treats(treated, units)

    def _first_occurrences(self, requests: Requests) -> list[int] | ShadowpriceError:
        try:
            return first_occurrences(self.campaign, requests)
        except ShadowpriceError as error:
            return error

    def _misfit(self, requests: Requests, active: Active | None) -> InvalidContext | None:
        """Return why nothing can be decided for the requests of a call; None where it can."""
        try:
            if active is not None:
                check_context(active.model, requests)
            check_partner(self.campaign, requests)
        except InvalidContext as error:
            return error
        return None

    async def _answer(
        self, calls: Calls, active: Active | None, misfits: Mapping[int, InvalidContext]
    ) -> Iterator[Answers | Exception]:
        """Answer joined calls; a call of ``misfits`` gets its earlier decisions, or its error where one is missing."""
        if active is None:
            raise Unavailable(f"campaign {self.campaign.name!r} has no price yet")
        price, requests, firsts, now = active.price, calls.requests, calls.rows, self.clock()
        fitting = [row for row in firsts if calls.call[row] not in misfits]
        outside = self.window and not self.campaign.starts_at <= now < self.campaign.ends_at
        stale = not outside and price.stale(now)
        treated = self._treated(requests, now, active)
        proposed: list[tuple[list[int], Proposals]] = []
        failed = False
        for group in () if outside else groups_of(active, requests, fitting, treated, stale):
            mine, proposals, unread = await self._propose(group, requests, treated, now)
            failed |= unread
            if mine:
                proposed.append((mine, proposals if active.beside is None else with_versions(proposals, group.pair)))
        rows, wanted = merged(proposed)
        if all(wanted.unpaid_allowed or ()):
            wanted = replace(wanted, unpaid_allowed=None)
        proposes = set(rows)
        known = [row for row in firsts if row not in proposes]
        with self.metrics.stage("authorize"):
            authorized, unauthorized = await authorize(
                self.ledger,
                wanted,
                calls.known(known),
                calls.sizes(rows),
                active,
                required=self.authorization_required,
            )
        for happened, why in ((failed, "features"), (stale, "stale_price"), (unauthorized, "unauthorized")):
            if happened:
                self.metrics.degraded(why, calls.count)
        standing = recorded_rows(calls, rows, known, authorized)
        self._count_arms(requests, standing, authorized)
        reason: UnrecordedReason = "outside_window" if outside else "ineligible"
        nothing = {side: self._level_of_nothing(side, outside) for side in self.campaign.sides}
        undecided = set(known).difference(standing)
        self._count_unrecorded(calls, undecided.intersection(fitting), authorized, reason)
        missing = {calls.call[row] for row in undecided}
        answered = answers(
            calls,
            standing,
            authorized,
            Unrecorded(
                reason=reason,
                level=[nothing[side] for side in requests.side],
                arm=treated.arm.tolist(),
                price_version=price.version,
                model_version=active.model.version,
            ),
            self.campaign,
            price_age_seconds=(now - price.solved_at).total_seconds(),
            degraded=failed or stale or unauthorized,
        )
        return (
            misfits[call] if call in misfits and call in missing and not isinstance(answer, Exception) else answer
            for call, answer in enumerate(answered)
        )

    def _level_of_nothing(self, side: Side, outside: bool) -> int:
        """Level of no incentive, where the side has one: a segment of a delivery is an offer, and not nothing."""
        terms = self.campaign.terms(side)
        nothing = terms.incentives[0] == terms.unit_costs[0] == 0 and not terms.segments
        return 0 if outside and nothing else NOTHING

    def _count_arms(self, requests: Requests, standing: Sequence[int], found: Authorization) -> None:
        arms_by_side: dict[Side, list[str]] = {side: [] for side in self.campaign.sides}
        for row, arm, repeat in zip(standing, found.decisions.arm, found.decisions.repeat, strict=True):
            if not repeat:
                arms_by_side[requests.side[row]].append(arm)
        for side, arms in arms_by_side.items():
            self.metrics.decided(side, arms)

    def _count_unrecorded(
        self, calls: Calls, rows: Iterable[int], found: Authorization, reason: UnrecordedReason
    ) -> None:
        answered = [row for row in rows if found.errors[calls.call[row]] is None]
        for side, count in Counter(calls.requests.side[row] for row in answered).items():
            self.metrics.unrecorded(side, reason, count)

    async def _propose(
        self, group: Group, requests: Requests, treated: Treatment, now: datetime
    ) -> tuple[list[int], Proposals, bool]:
        """The rows of a group that may be given something, what it would be, and whether the store failed."""
        side, faults = group.side, self.coverage.faults
        wanted = await want(self.campaign, self.coverage, group, requests, treated, self.metrics.stage)
        if self.coverage.faults > faults:
            self.metrics.degraded("rule")
        read, rows = wanted.read, wanted.rows
        self.metrics.features_used(side, int((~read.known).sum()), _oldest(read.computed_at[read.known], now))
        proposals = proposals_of(self.campaign, group, requests, wanted, self._basis(side, group.pair.price.sha256))
        return rows, proposals, read.failed

    def _basis(self, side: Side, price: str) -> Bases:
        """Return the writer of the bases of a side at a price, by its checksum."""
        if (side, price) not in self._bases:
            if len(self._bases) >= MOST_BASES:
                self._bases.clear()
            self._bases[side, price] = Bases(self.campaign, side, price)
        return self._bases[side, price]


def _oldest(computed_at: NDArray[np.float64], now: datetime) -> float | None:
    known = computed_at[np.isfinite(computed_at)]
    return now.timestamp() - float(known.min()) if known.size else None
