"""From requests to authorised answers, without anything of a web server.

The curve is the head's, worth and cost are the campaign's, the choice is made by
:func:`shadowprice.decision.decide` alone, and what the ledger has recorded is what is answered.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from serving.in_force import InForce
from serving.ledger_client import Authorised, Proposal
from serving.metrics import PredictorMetrics
from serving.protocol import INPUTS, NOTHING, OUTPUTS, Answers, Requests
from shadowprice.campaign import Campaign, Side
from shadowprice.decision import decide
from shadowprice.errors import Conflict, ShadowpriceError, Unavailable
from shadowprice.responses.heads import allowed_by


class Ledger(Protocol):
    """What answers are authorised by; :class:`serving.ledger_client.Authoriser` is the real one."""

    def authorise(self, proposals: Sequence[Proposal], *, model_version: str, price_version: int) -> list[Authorised]:
        """Record the proposals, all or none, and return what stands for each, in order."""


class Current(Protocol):
    """Where price and model in force are found; :class:`serving.price_watcher.PriceWatcher` is the real one."""

    @property
    def current(self) -> InForce | None:
        """The pair in force, if any was found yet."""


@dataclass(frozen=True)
class Predictor:
    """Decides for one campaign. Safe to call from several threads.

    source                     price and model in force
    ledger                     what promises are authorised by
    authorisation_required     refuse to answer while the ledger does not (decision record 0003)
    """

    campaign: Campaign
    source: Current
    ledger: Ledger
    metrics: PredictorMetrics
    authorisation_required: bool = True

    def answer_all(self, calls: Sequence[Requests]) -> list[Answers | Exception]:
        """What :meth:`answer` gives each of several calls, found together; or the error it refuses one with.

        A request id that stands in two of the calls is answered in the first and repeated in the second.
        """
        if len(calls) == 1:
            return [self._outcome(calls[0])]
        together = Requests(*([item for call in calls for item in getattr(call, name)] for name in INPUTS))
        found = self._outcome(together, len(calls))
        if isinstance(found, Answers):
            return list(_parts(found, [len(call) for call in calls]))
        if isinstance(found, Unavailable):
            return [found] * len(calls)
        # One of the calls is refused; the others have nothing to do with it.
        return [self._outcome(call) for call in calls]

    def _outcome(self, requests: Requests, calls: int = 1) -> Answers | ShadowpriceError:
        try:
            return self.answer(requests, calls)
        except ShadowpriceError as error:
            return error

    def answer(self, requests: Requests, calls: int = 1) -> Answers:
        """Answer n requests of any sides; what is unknown or stale degrades the answer, as ``reason`` says.

        Of several reasons the first of ineligible, repeat, budget_exhausted, stale_price, cold_start, explored,
        tie, optimal is given. A request id that was answered before, also within the call, gets that answer. An
        account that no level is allowed for is given nothing, and the ledger has nothing to record.

        Raises:
            Conflict: a request id stands for another account or side.
            InvalidInput: a side the campaign does not have.
            Unavailable: there is no price yet, or no authorisation.
        """
        in_force = self.source.current
        if in_force is None:
            raise Unavailable(f"campaign {self.campaign.name!r} has no price yet")
        price = in_force.price
        first = _first_occurrences(requests)
        now = datetime.now(UTC)
        stale = price.stale(now)
        proposals: list[Proposal | None] = [None] * len(requests)
        failed = False
        for side in dict.fromkeys(requests.side):
            rows = [row for row in first.values() if requests.side[row] == side]
            failed |= self._propose(side, rows, requests, in_force, stale, now, proposals)
        wanted = [proposal for proposal in (proposals[row] for row in first.values()) if proposal is not None]
        stored, unauthorised = self._authorise(wanted, in_force) if wanted else ([], False)
        for happened, reason in ((failed, "features"), (stale, "stale_price"), (unauthorised, "unauthorised")):
            if happened:
                self.metrics.degraded(reason, calls)
        place = {decision.request_id: decision for decision in stored}
        for request_id, row in first.items():
            if proposals[row] is None:
                place[request_id] = _ineligible(request_id)
        return _answers(
            requests,
            first,
            place,
            price_version=price.version,
            model_version=in_force.model.version,
            price_age_seconds=(now - price.solved_at).total_seconds(),
            degraded=failed or stale or unauthorised,
        )

    def _propose(
        self,
        side: Side,
        rows: list[int],
        requests: Requests,
        in_force: InForce,
        stale: bool,
        now: datetime,
        proposals: list[Proposal | None],
    ) -> bool:
        """Fill in the proposals of one side; returns whether the feature store failed."""
        terms, price, model = self.campaign.terms(side), in_force.price, in_force.model
        request_ids = [requests.request_id[row] for row in rows]
        with self.metrics.stage("features"):
            embeddings = model.features.read(side, [requests.account_id[row] for row in rows])
        allowed = allowed_by(model.heads[side], embeddings.matrix)
        if allowed is not None:
            # Who may be given nothing is not decided for: no score reaches over a rule.
            able = np.flatnonzero(allowed.any(axis=0))
            rows, request_ids = [rows[column] for column in able], [request_ids[column] for column in able]
            embeddings, allowed = embeddings.take(able), allowed[:, able]
            if not rows:
                return embeddings.failed
        with self.metrics.stage("curve"):
            response = model.heads[side].response(embeddings.matrix)
        with self.metrics.stage("decide"):
            cost = self.campaign.charges(side, response)
            prices = [price.prices[name] for name in self.campaign.priced]
            decision = decide(
                terms.value(response),
                cost,
                prices,
                price.tie_share,
                request_ids,
                allowed,
                exploration=self.campaign.exploration,
            )
        expected_cost = terms.cost(response)
        unpaid = response[0] if terms.incentives[0] == 0 else np.zeros(len(rows), dtype=np.float32)
        reasons = np.where(decision.explored, "explored", np.where(decision.tied, "tie", "optimal")).astype(object)
        reasons[~embeddings.known] = "cold_start"
        if stale:
            reasons[:] = "stale_price"
        columns = np.arange(len(rows))
        for row, request_id, level, chosen, paid, propensity, reason, otherwise, vector, computed_at in zip(
            rows,
            request_ids,
            decision.level.tolist(),
            response[decision.level, columns].tolist(),
            expected_cost[decision.level, columns].tolist(),
            decision.propensity.tolist(),
            reasons.tolist(),
            unpaid.tolist(),
            decision.policy.propensities().T.tolist(),
            embeddings.computed_at.tolist(),
            strict=True,
        ):
            proposals[row] = Proposal(
                request_id=request_id,
                account_id=requests.account_id[row],
                side=side,
                level=level,
                incentive=terms.incentives[level],
                response=chosen,
                expected_cost=paid,
                propensity=propensity,
                reason=reason,
                response_unpaid=otherwise,
                propensities=vector,
                features_at=None if math.isnan(computed_at) else computed_at,
            )
        self.metrics.features_used(side, int((~embeddings.known).sum()), _oldest(embeddings.computed_at, now))
        return embeddings.failed

    def _authorise(self, proposals: list[Proposal], in_force: InForce) -> tuple[list[Authorised], bool]:
        """What stands for each proposal, and whether it stands without the ledger's word."""
        try:
            with self.metrics.stage("authorise"):
                stored = self.ledger.authorise(
                    proposals, model_version=in_force.model.version, price_version=in_force.price.version
                )
            return stored, False
        except Unavailable as error:
            if self.authorisation_required:
                raise Unavailable(
                    f"nothing is promised without authorisation; send the request again: {error}"
                ) from error
            return [_unrecorded(proposal) for proposal in proposals], True


def _first_occurrences(requests: Requests) -> dict[str, int]:
    """request id → row where it first occurs."""
    first: dict[str, int] = {}
    for row, request_id in enumerate(requests.request_id):
        other = first.setdefault(request_id, row)
        if (requests.account_id[other], requests.side[other]) != (requests.account_id[row], requests.side[row]):
            raise Conflict(f"request_id: {request_id!r} is used in rows {other} and {row} for two accounts or sides")
    return first


def _parts(answers: Answers, sizes: Sequence[int]) -> Iterator[Answers]:
    """The answers of consecutive calls of these sizes."""
    start = 0
    for size in sizes:
        part = slice(start, start := start + size)
        yield replace(answers, **{name: getattr(answers, name)[part] for name in OUTPUTS})


def _oldest(computed_at: NDArray[np.float64], now: datetime) -> float | None:
    known = computed_at[np.isfinite(computed_at)]
    return now.timestamp() - float(known.min()) if known.size else None


def _unrecorded(proposal: Proposal) -> Authorised:
    return Authorised(
        request_id=proposal.request_id,
        level=proposal.level,
        incentive=proposal.incentive,
        response=proposal.response,
        expected_cost=proposal.expected_cost,
        propensity=proposal.propensity,
        reason=proposal.reason,
        repeat=False,
    )


def _ineligible(request_id: str) -> Authorised:
    return Authorised(
        request_id=request_id,
        level=NOTHING,
        incentive=0,
        response=0.0,
        expected_cost=0.0,
        propensity=1.0,
        reason="ineligible",
        repeat=False,
    )


def _answers(
    requests: Requests,
    first: Mapping[str, int],
    stored: Mapping[str, Authorised],
    *,
    price_version: int,
    model_version: str,
    price_age_seconds: float,
    degraded: bool,
) -> Answers:
    decisions = [stored[request_id] for request_id in requests.request_id]
    return Answers(
        incentive=np.array([decision.incentive for decision in decisions], dtype=np.int64),
        level=np.array([decision.level for decision in decisions], dtype=np.int32),
        response=np.array([decision.response for decision in decisions], dtype=np.float64),
        expected_cost=np.array([decision.expected_cost for decision in decisions], dtype=np.float64),
        propensity=np.array([decision.propensity for decision in decisions], dtype=np.float64),
        reason=[
            "repeat" if decision.repeat or first[decision.request_id] != row else decision.reason
            for row, decision in enumerate(decisions)
        ],
        price_version=price_version,
        model_version=model_version,
        price_age_seconds=price_age_seconds,
        degraded=degraded,
    )
