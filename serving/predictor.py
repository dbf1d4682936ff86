"""From requests to authorised answers, without anything of a web server.

The curve is the head's, worth and cost are the campaign's, the choice is made by
:func:`shadowprice.decision.decide` alone, and what the ledger has recorded is what is answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from serving.features import Features
from serving.ledger_client import Authorised, Proposal
from serving.metrics import PredictorMetrics
from serving.protocol import Answers, Requests
from shadowprice.campaign import Campaign, Side
from shadowprice.decision import decide
from shadowprice.errors import Conflict, Unavailable
from shadowprice.price import PriceRecord
from shadowprice.responses.heads import Head


class Ledger(Protocol):
    """What answers are authorised by; :class:`serving.ledger_client.Authoriser` is the real one."""

    def authorise(self, proposals: Sequence[Proposal], *, model_version: str, price_version: int) -> list[Authorised]:
        """Record the proposals, all or none, and return what stands for each, in order."""


class CurrentPrice(Protocol):
    """Where the price in force is found; :class:`serving.price_watcher.PriceWatcher` is the real one."""

    @property
    def current(self) -> PriceRecord | None:
        """The price in force, if any was found yet."""


@dataclass(frozen=True)
class Predictor:
    """Decides for one campaign. Safe to call from several threads.

    features, prices, ledger   the three things it depends on
    authorisation_required     refuse to answer while the ledger does not (decision record 0003)
    """

    campaign: Campaign
    heads: Mapping[Side, Head]
    model_version: str
    features: Features
    prices: CurrentPrice
    ledger: Ledger
    metrics: PredictorMetrics
    authorisation_required: bool = True

    def answer(self, requests: Requests) -> Answers:
        """Answer n requests of any sides; what is unknown or stale degrades the answer, as ``reason`` says.

        Of several reasons the first of repeat, budget_exhausted, stale_price, cold_start, explored,
        tie, optimal is given. A request id that was answered before, also within the call, gets that answer.

        Raises:
            Conflict: a request id stands for another account or side.
            InvalidInput: a side the campaign does not have.
            Unavailable: there is no price yet, or no authorisation.
        """
        price = self.prices.current
        if price is None:
            raise Unavailable(f"campaign {self.campaign.name!r} has no price yet")
        first = _first_occurrences(requests)
        now = datetime.now(UTC)
        stale = price.stale(now)
        proposals: list[Proposal | None] = [None] * len(requests)
        failed = False
        for side in dict.fromkeys(requests.side):
            rows = [row for row in first.values() if requests.side[row] == side]
            failed |= self._propose(side, rows, requests, price, stale, now, proposals)
        wanted = [proposal for proposal in (proposals[row] for row in first.values()) if proposal is not None]
        stored, unauthorised = self._authorise(wanted, price)
        for happened, reason in ((failed, "features"), (stale, "stale_price"), (unauthorised, "unauthorised")):
            if happened:
                self.metrics.degraded(reason)
        place = {decision.request_id: decision for decision in stored}
        return _answers(
            requests,
            first,
            place,
            price_version=price.version,
            model_version=self.model_version,
            price_age_seconds=(now - price.solved_at).total_seconds(),
            degraded=failed or stale or unauthorised,
        )

    def warm_up(self) -> None:
        """Run everything but the ledger once for each side, so that the first caller does not wait for it."""
        for side in self.campaign.sides:
            embeddings = self.features.read(side, ["warm-up"])
            if embeddings.failed:
                raise Unavailable("the feature store does not answer")
            response = self.heads[side].response(embeddings.matrix)
            value, cost = self.campaign.terms(side).value(response), self.campaign.net_cost(side, response)
            decide(value, cost, [0.0], 0.0, ["warm-up"])

    def _propose(
        self,
        side: Side,
        rows: list[int],
        requests: Requests,
        price: PriceRecord,
        stale: bool,
        now: datetime,
        proposals: list[Proposal | None],
    ) -> bool:
        """Fill in the proposals of one side; returns whether the feature store failed."""
        terms = self.campaign.terms(side)
        request_ids = [requests.request_id[row] for row in rows]
        with self.metrics.stage("features"):
            embeddings = self.features.read(side, [requests.account_id[row] for row in rows])
        with self.metrics.stage("curve"):
            response = self.heads[side].response(embeddings.matrix)
        with self.metrics.stage("decide"):
            cost = self.campaign.net_cost(side, response)
            prices = [price.prices[self.campaign.budget.name]]
            decision = decide(
                terms.value(response),
                cost,
                prices,
                price.tie_share,
                request_ids,
                exploration=self.campaign.exploration,
            )
        expected_cost = terms.cost(response)
        unpaid = response[0] if terms.levels[0] == 0 else np.zeros(len(rows), dtype=np.float32)
        reasons = np.where(decision.explored, "explored", np.where(decision.tied, "tie", "optimal")).astype(object)
        reasons[~embeddings.known] = "cold_start"
        if stale:
            reasons[:] = "stale_price"
        vectors = decision.policy.propensities().T.tolist()
        for column, row in enumerate(rows):
            level = int(decision.level[column])
            proposals[row] = Proposal(
                request_id=request_ids[column],
                account_id=requests.account_id[row],
                side=side,
                level=level,
                incentive=terms.levels[level],
                response=float(response[level, column]),
                expected_cost=float(expected_cost[level, column]),
                propensity=float(decision.propensity[column]),
                reason=str(reasons[column]),
                response_unpaid=float(unpaid[column]),
                propensities=vectors[column],
                features_at=float(embeddings.computed_at[column]) if embeddings.known[column] else None,
            )
        self.metrics.features_used(side, int((~embeddings.known).sum()), _oldest(embeddings.computed_at, now))
        return embeddings.failed

    def _authorise(self, proposals: list[Proposal], price: PriceRecord) -> tuple[list[Authorised], bool]:
        """What stands for each proposal, and whether it stands without the ledger's word."""
        try:
            with self.metrics.stage("authorise"):
                stored = self.ledger.authorise(proposals, model_version=self.model_version, price_version=price.version)
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
