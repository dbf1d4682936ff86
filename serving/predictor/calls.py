"""Several calls as one list of requests, and the answers back to each call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from serving.predictor.ledger.client import Authorization, KnownRequests
from serving.protocol import Answers, Reason, Requests
from shadowprice.campaign import Campaign
from shadowprice.errors import Conflict, ShadowpriceError


@dataclass(frozen=True)
class Calls:
    """Requests of calls that are answered together; lists of length n.

    call   call of each request, from 0 on
    first  row where the request id of each request first occurs in its call
    """

    requests: Requests
    call: list[int]
    first: list[int]
    count: int

    @classmethod
    def joined(cls, calls: Sequence[Requests], first: Sequence[Sequence[int]]) -> Calls:
        """Join calls of which :func:`first_occurrences` are known."""
        starts = np.cumsum([0, *map(len, calls)]).tolist()
        return cls(
            requests=Requests.joined(calls),
            call=[index for index, call in enumerate(calls) for _ in range(len(call))],
            first=[start + row for start, rows in zip(starts, first, strict=False) for row in rows],
            count=len(calls),
        )

    @property
    def rows(self) -> list[int]:
        """Rows with the first occurrence of a request id in its call."""
        return [row for row, other in enumerate(self.first) if row == other]

    def sizes(self, rows: Sequence[int]) -> list[int]:
        """Return how many of the rows each call has."""
        return (
            np.bincount([self.call[row] for row in rows], minlength=self.count).tolist() if rows else [0] * self.count
        )

    def known(self, rows: Sequence[int]) -> KnownRequests:
        """Return the requests of rows that nothing is proposed for."""
        requests = self.requests
        return KnownRequests(
            request_id=[requests.request_id[row] for row in rows],
            account_id=[requests.account_id[row] for row in rows],
            side=[requests.side[row] for row in rows],
            call=[self.call[row] for row in rows],
        )


@dataclass(frozen=True)
class Unrecorded:
    """Answer to a request that the ledger has no decision for: it costs nothing.

    level   (n,) of each request
    arm     (n,) of each request's account
    """

    reason: Reason
    level: Sequence[int]
    arm: Sequence[str]
    price_version: int
    model_version: str


def first_occurrences(campaign: Campaign, requests: Requests) -> list[int]:
    """Return the row where the request id of each request first occurs in the call.

    Raises:
        Conflict: a request id is used for two accounts or sides.
        InvalidInput: a side that the campaign does not have.
    """
    for side in dict.fromkeys(requests.side):
        campaign.terms(side)
    first: dict[str, int] = {}
    rows = []
    for row, request_id in enumerate(requests.request_id):
        other = first.setdefault(request_id, row)
        if (requests.account_id[other], requests.side[other]) != (requests.account_id[row], requests.side[row]):
            raise Conflict(f"request_id: {request_id!r} is used in rows {other} and {row} for two accounts or sides")
        rows.append(other)
    return rows


def recorded_rows(calls: Calls, proposed: Sequence[int], known: Sequence[int], found: Authorization) -> list[int]:
    """Return the row of each decision that the ledger has found."""
    accepted = [row for row in proposed if found.errors[calls.call[row]] is None]
    return accepted + [known[place] for place in found.known]


def answers(
    calls: Calls,
    standing: Sequence[int],
    found: Authorization,
    unrecorded: Unrecorded,
    campaign: Campaign,
    *,
    price_age_seconds: float,
    degraded: bool,
) -> Iterator[Answers | ShadowpriceError]:
    """Yield the answer of each call, or why the ledger refuses it.

    Args:
        calls: the calls.
        standing: row of each of the ledger's decisions (:func:`recorded_rows`).
        found: the ledger's answer.
        unrecorded: answer of all other rows.
        campaign: whose offers the levels are.
        price_age_seconds, degraded: of all answers.
    """
    n, decisions = len(calls.requests), found.decisions
    rows = np.array(standing, dtype=np.intp)
    level = np.array(unrecorded.level, dtype=np.int32)
    unit_cost = np.zeros(n, dtype=np.int64)
    response, expected_cost, propensity = np.zeros(n), np.zeros(n), np.ones(n)
    repeat = np.zeros(n, dtype=np.bool_)
    price_version = np.full(n, unrecorded.price_version, dtype=np.int64)
    for column, values in (
        (level, decisions.level),
        (unit_cost, decisions.incentive),
        (response, decisions.response),
        (expected_cost, decisions.expected_cost),
        (propensity, decisions.propensity),
        (repeat, decisions.repeat),
        (price_version, decisions.price_version),
    ):
        column[rows] = values
    reason: list[str] = [unrecorded.reason] * n
    model_version = [unrecorded.model_version] * n
    arm, limited_by = list(unrecorded.arm), [""] * n
    columns = decisions.reason, decisions.model_version, decisions.arm, decisions.limited_by
    for row, why, version, name, limit in zip(standing, *columns, strict=True):
        reason[row], model_version[row], arm[row], limited_by[row] = why, version, name, limit
    chosen = list(zip(calls.requests.side, level.tolist(), strict=True))
    offers, amounts = campaign.offer_ids, {side: terms.incentives for side, terms in campaign.sides.items()}
    offer_id = [offers[side][place] if place >= 0 else "" for side, place in chosen]
    incentive = np.array([amounts[side][place] if place >= 0 else 0 for side, place in chosen], dtype=np.int64)
    # All calls at once, since a call's own part is a cheap slice.
    first = np.array(calls.first)
    incentive, unit_cost, level, response, expected_cost, propensity, price_version = (
        column[first] for column in (incentive, unit_cost, level, response, expected_cost, propensity, price_version)
    )
    repeat = repeat[first] | (first != np.arange(n))
    reason, model_version, arm, limited_by, offer_id = (
        [column[row] for row in calls.first] for column in (reason, model_version, arm, limited_by, offer_id)
    )
    end = 0
    for size, error in zip(np.bincount(calls.call, minlength=calls.count).tolist(), found.errors, strict=True):
        part = slice(end, end := end + size)
        if error is not None:
            yield error if isinstance(error, ShadowpriceError) else Conflict(error)
            continue
        yield Answers(
            incentive=incentive[part],
            unit_cost=unit_cost[part],
            level=level[part],
            offer_id=offer_id[part],
            response=response[part],
            expected_cost=expected_cost[part],
            propensity=propensity[part],
            reason=reason[part],
            repeat=repeat[part],
            price_version=price_version[part],
            model_version=model_version[part],
            arm=arm[part],
            limited_by=limited_by[part],
            active_price_version=unrecorded.price_version,
            active_model_version=unrecorded.model_version,
            price_age_seconds=price_age_seconds,
            degraded=degraded,
        )
