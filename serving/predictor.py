"""From requests to authorised answers, without anything of a web server.

The curve is the head's, worth and cost are the campaign's, the choice is made by
:func:`shadowprice.decision.decide` alone, and what the ledger has recorded is what is answered.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from serving.in_force import InForce
from serving.ledger_client import Authorised, Proposals
from serving.metrics import PredictorMetrics
from serving.protocol import INPUTS, OUTPUTS, Answers, Requests
from shadowprice.campaign import Campaign, Side
from shadowprice.decision import NOTHING, decide
from shadowprice.errors import Conflict, ShadowpriceError, Unavailable
from shadowprice.responses.heads import allowed_by


class Ledger(Protocol):
    """What answers are authorised by; :class:`serving.ledger_client.Authoriser` is the real one."""

    async def authorise(self, proposals: Proposals, *, model_version: str, price_version: int) -> Authorised:
        """Record the proposals, all or none, and return what stands for each, in order."""


class Current(Protocol):
    """Where price and model in force are found; :class:`serving.price_watcher.PriceWatcher` is the real one."""

    @property
    def current(self) -> InForce | None:
        """The pair in force, if any was found yet."""


@dataclass(frozen=True)
class Predictor:
    """Decides for one campaign, on an event loop.

    source                     price and model in force
    ledger                     what promises are authorised by
    authorisation_required     refuse to answer while the ledger does not (decision record 0003)
    """

    campaign: Campaign
    source: Current
    ledger: Ledger
    metrics: PredictorMetrics
    authorisation_required: bool = True

    async def answer_all(self, calls: Sequence[Requests]) -> list[Answers | Exception]:
        """What :meth:`answer` gives each of several calls, found together; or the error it refuses one with.

        A request id that stands in two of the calls is answered in the first and repeated in the second.
        """
        if len(calls) == 1:
            return [await self._outcome(calls[0])]
        together = Requests(*([item for call in calls for item in getattr(call, name)] for name in INPUTS))
        found = await self._outcome(together, len(calls))
        if isinstance(found, Answers):
            return list(_parts(found, [len(call) for call in calls]))
        if isinstance(found, Unavailable):
            return [found] * len(calls)
        # One of the calls is refused; the others have nothing to do with it.
        return [await self._outcome(call) for call in calls]

    async def _outcome(self, requests: Requests, calls: int = 1) -> Answers | ShadowpriceError:
        try:
            return await self.answer(requests, calls)
        except ShadowpriceError as error:
            return error

    async def answer(self, requests: Requests, calls: int = 1) -> Answers:
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
        proposed: list[tuple[list[int], Proposals]] = []
        failed = False
        for side in dict.fromkeys(requests.side):
            rows = [row for row in first.values() if requests.side[row] == side]
            mine, proposals, unread = await self._propose(side, rows, requests, in_force, stale, now)
            failed |= unread
            if mine:
                proposed.append((mine, proposals))
        rows, wanted = _merged(proposed)
        stored, unauthorised = await self._authorise(wanted, in_force) if rows else (_unrecorded(wanted), False)
        for happened, reason in ((failed, "features"), (stale, "stale_price"), (unauthorised, "unauthorised")):
            if happened:
                self.metrics.degraded(reason, calls)
        return _answers(
            requests,
            first,
            rows,
            stored,
            price_version=price.version,
            model_version=in_force.model.version,
            price_age_seconds=(now - price.solved_at).total_seconds(),
            degraded=failed or stale or unauthorised,
        )

    async def _propose(
        self, side: Side, rows: list[int], requests: Requests, in_force: InForce, stale: bool, now: datetime
    ) -> tuple[list[int], Proposals, bool]:
        """The rows of one side that may be given something, what it would be, and whether the store failed."""
        terms, price, model = self.campaign.terms(side), in_force.price, in_force.model
        with self.metrics.stage("features"):
            embeddings = await model.features.fetch(side, [requests.account_id[row] for row in rows])
        self.metrics.features_used(side, int((~embeddings.known).sum()), _oldest(embeddings.computed_at, now))
        allowed = allowed_by(model.heads[side], embeddings.matrix)
        if allowed is not None:
            # Who may be given nothing is not decided for: no score reaches over a rule.
            able = np.flatnonzero(allowed.any(axis=0))
            rows = [rows[column] for column in able]
            embeddings, allowed = embeddings.take(able), allowed[:, able]
        request_ids = [requests.request_id[row] for row in rows]
        with self.metrics.stage("curve"):
            response = model.heads[side].response(embeddings.matrix)
        with self.metrics.stage("decide"):
            decision = decide(
                terms.value(response),
                self.campaign.charges(side, response),
                [price.prices[name] for name in self.campaign.priced],
                price.tie_share,
                request_ids,
                allowed,
                exploration=self.campaign.exploration,
            )
        level, columns = decision.level, np.arange(len(rows))
        unpaid = response[0] if terms.incentives[0] == 0 else np.zeros(len(rows), dtype=np.float32)
        reasons = np.where(decision.explored, "explored", np.where(decision.tied, "tie", "optimal")).astype(object)
        reasons[~embeddings.known] = "cold_start"
        if stale:
            reasons[:] = "stale_price"
        times = embeddings.computed_at.tolist()
        proposals = Proposals(
            request_id=request_ids,
            account_id=[requests.account_id[row] for row in rows],
            side=[side] * len(rows),
            level=level.tolist(),
            incentive=np.asarray(terms.incentives)[level].tolist(),
            response=response[level, columns].tolist(),
            expected_cost=terms.cost(response)[level, columns].tolist(),
            propensity=decision.propensity.tolist(),
            reason=reasons.tolist(),
            response_unpaid=unpaid.tolist(),
            propensities=decision.policy.propensities().T.tolist(),
            features_at=[None if math.isnan(at) else at for at in times],
        )
        return rows, proposals, embeddings.failed

    async def _authorise(self, proposals: Proposals, in_force: InForce) -> tuple[Authorised, bool]:
        """What stands for each proposal, and whether it stands without the ledger's word."""
        try:
            with self.metrics.stage("authorise"):
                stored = await self.ledger.authorise(
                    proposals, model_version=in_force.model.version, price_version=in_force.price.version
                )
            return stored, False
        except Unavailable as error:
            if self.authorisation_required:
                raise Unavailable(
                    f"nothing is promised without authorisation; send the request again: {error}"
                ) from error
            return _unrecorded(proposals), True


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


def _merged(proposed: Sequence[tuple[list[int], Proposals]]) -> tuple[list[int], Proposals]:
    """Rows and proposals of all sides, in the order of their rows: who comes first is promised first."""
    if len(proposed) == 1:
        return proposed[0]
    rows = [row for mine, _ in proposed for row in mine]
    order = sorted(range(len(rows)), key=rows.__getitem__)
    columns = {
        field.name: [value for _, proposals in proposed for value in getattr(proposals, field.name)]
        for field in fields(Proposals)
    }
    return sorted(rows), Proposals(**{name: [column[at] for at in order] for name, column in columns.items()})


def _unrecorded(proposals: Proposals) -> Authorised:
    return Authorised(
        request_id=proposals.request_id,
        level=proposals.level,
        incentive=proposals.incentive,
        response=proposals.response,
        expected_cost=proposals.expected_cost,
        propensity=proposals.propensity,
        reason=proposals.reason,
        repeat=[False] * len(proposals.request_id),
    )


def _answers(
    requests: Requests,
    first: Mapping[str, int],
    rows: Sequence[int],
    stored: Authorised,
    *,
    price_version: int,
    model_version: str,
    price_age_seconds: float,
    degraded: bool,
) -> Answers:
    """What stands for each request; ``stored`` is of ``rows``, and a first occurrence beyond them is ineligible."""
    place = {row: at for at, row in enumerate(rows)}
    # Behind the last of the stored stands what the ineligible are given.
    ineligible = len(rows)
    asked = [first[request_id] for request_id in requests.request_id]
    index = [place.get(row, ineligible) for row in asked]
    reasons, repeats = [*stored.reason, "ineligible"], [*stored.repeat, False]
    return Answers(
        incentive=np.array([*stored.incentive, 0], dtype=np.int64)[index],
        level=np.array([*stored.level, NOTHING], dtype=np.int32)[index],
        response=np.array([*stored.response, 0.0], dtype=np.float64)[index],
        expected_cost=np.array([*stored.expected_cost, 0.0], dtype=np.float64)[index],
        propensity=np.array([*stored.propensity, 1.0], dtype=np.float64)[index],
        reason=[
            "repeat" if repeats[at] or row != other else reasons[at]
            for row, (other, at) in enumerate(zip(asked, index, strict=True))
        ],
        price_version=price_version,
        model_version=model_version,
        price_age_seconds=price_age_seconds,
        degraded=degraded,
    )
