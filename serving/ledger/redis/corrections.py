"""Corrections as arguments of their script, and as rows of its list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from serving.ledger.records import Ceiling, Correction, Counted
from serving.ledger.redis.limits import bounds, shared_keys
from serving.ledger.redis.scripts import Call
from serving.ledger.refusals import given_back, no_room, not_reported, other_content, raised
from shadowprice.pacing.decision_log.records import CorrectionRow


def correct(corrections: Sequence[Correction], ceiling: Ceiling | None, at: int) -> Call:
    """The call of :meth:`serving.ledger.store.Store.correct`."""
    arguments: list[str | int | bytes] = ["" if ceiling is None else ceiling.limit, at, bounds(ceiling)]
    for correction in corrections:
        outcome = correction.outcome
        arguments += [
            f"{outcome.source}\n{outcome.event_id}",
            outcome.request_id,
            outcome.side,
            repr(outcome.response),
            outcome.cost,
            outcome.content,
            correction.kind,
            int(correction.override),
            int(correction.raises),
            orjson.dumps([outcome.side, outcome.observed_at, outcome.misdated, outcome.caller]),
            int(outcome.misdated),
            _row(correction),
            int(correction.replayed),
        ]

    def read(answer: Any) -> Counted:
        if isinstance(answer, int):
            return Counted(answer, len(corrections) - answer)
        refused = corrections[answer[1]]
        match answer[0]:
            case b"content":
                raise other_content(refused.outcome)
            case b"missing":
                raise not_reported(refused.outcome)
            case b"raised":
                raise raised(refused, float(answer[2]), int(answer[3]))
            case b"returned":
                raise given_back(refused.outcome, int(answer[2]))
        raise no_room(refused.outcome, int(answer[2]), int(answer[3]), answer[4].decode())

    return Call("correct", arguments, read, shared_keys(ceiling))


def correction(kept: bytes) -> CorrectionRow:
    """The row that the list holds."""
    response, cost, recorded_at, row = kept.split(b"\n", 3)
    return CorrectionRow(
        previous_response=float(response), previous_cost=int(cost), recorded_at=int(recorded_at), **orjson.loads(row)
    )


def _row(correction: Correction) -> bytes:
    outcome = correction.outcome
    return orjson.dumps(
        {
            "source": outcome.source,
            "event_id": outcome.event_id,
            "request_id": outcome.request_id,
            "side": outcome.side,
            "kind": correction.kind,
            "response": outcome.response,
            "cost": outcome.cost,
            "override": correction.override,
            "content": outcome.content,
            "observed_at": outcome.observed_at,
            "misdated": outcome.misdated,
            "caller": outcome.caller,
        }
    )
