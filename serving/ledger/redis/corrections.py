"""Corrections as the message of their script."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from serving.ledger.records import Ceiling, Correction, Counted
from serving.ledger.redis.limits import ceiling_message, shared_keys
from serving.ledger.redis.rows import values
from serving.ledger.redis.scripts import Call
from serving.ledger.refusals import given_back, no_room, not_reported, other_content, raised
from shadowprice.pacing.decision_log.records import CorrectionRow


def correct(corrections: Sequence[Correction], ceiling: Ceiling | None, at: int) -> Call:
    """The call of :meth:`serving.ledger.store.Store.correct`."""
    changes = [
        {
            "event": f"{correction.outcome.source}\n{correction.outcome.event_id}",
            "row": values(_row(correction, at)),
            "raises": correction.raises,
            "replayed": correction.replayed,
            "outcome": values(replace(correction.outcome, response=0.0, cost=0, amount=None).row(at)),
        }
        for correction in corrections
    ]
    message = ceiling_message(ceiling) | {"at": at, "corrections": changes}

    def read(answer: Any) -> Counted:
        if isinstance(answer, int):
            return Counted(answer, len(corrections) - answer)
        refused = corrections[answer[1]]
        match answer[0]:
            case "content":
                raise other_content(refused.outcome)
            case "missing":
                raise not_reported(refused.outcome)
            case "raised":
                raise raised(refused, float(answer[2]), int(answer[3]))
            case "returned":
                raise given_back(refused.outcome, int(answer[2]))
        raise no_room(refused.outcome, int(answer[2]), int(answer[3]), answer[4])

    return Call("correct", message, read, shared_keys(ceiling))


def _row(correction: Correction, at: int) -> CorrectionRow:
    """The row that is recorded, without what was reported before."""
    outcome = correction.outcome
    return CorrectionRow(
        source=outcome.source,
        event_id=outcome.event_id,
        request_id=outcome.request_id,
        side=outcome.side,
        kind=correction.kind,
        response=outcome.response,
        cost=outcome.cost,
        previous_response=0.0,
        previous_cost=0,
        override=correction.override,
        content=outcome.content,
        observed_at=outcome.observed_at,
        recorded_at=at,
        misdated=outcome.misdated,
        caller=outcome.caller,
        amount=outcome.amount,
    )
