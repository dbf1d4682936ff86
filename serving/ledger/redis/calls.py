"""Authorizations, outcomes and releases as the messages of their scripts."""

from collections.abc import Sequence
from typing import Any

from serving.http.limits import MAX_SWEEP
from serving.ledger.records import Answer, Ceiling, Counted, Known, ReportedOutcome, Row, asked
from serving.ledger.redis import rows
from serving.ledger.redis.limits import ceiling_message, left_of, shared_keys
from serving.ledger.redis.scripts import Call
from serving.ledger.refusals import captured, given_back, no_room, other_content, other_outcome, other_owner


def authorize(calls: Sequence[Sequence[Row]], ceiling: Ceiling | None, at: int) -> Call:
    """The call of :meth:`serving.ledger.store.Store.authorize`."""
    entries = [row for call in calls for row in call if not isinstance(row, Known)]
    message = ceiling_message(ceiling) | {
        "at": at,
        "most": MAX_SWEEP,
        "reserved": {row.wanted.side: row.reserved for row in entries},
        "calls": [[rows.asked(row) for row in call] for call in calls],
    }

    def read(answer: list[Any]) -> list[Answer]:
        return [
            other_owner(asked(call[result]))
            if isinstance(result, int)
            else [rows.recorded(row, kept, left_of(ceiling, kept)) for row, kept in zip(call, result, strict=True)]
            for call, result in zip(calls, answer, strict=True)
        ]

    # Of a recovery the dates are old, and nothing is limited.
    date = None if ceiling is None else at
    return Call("authorize", message, read, shared_keys(ceiling), date)


def settle(outcomes: Sequence[ReportedOutcome], ceiling: Ceiling | None, at: int) -> Call:
    """The call of :meth:`serving.ledger.store.Store.settle`."""
    reports = [
        {
            "event": f"{outcome.source}\n{outcome.event_id}",
            "content": outcome.content,
            "row": rows.values(outcome.row(at)),
            "late": outcome.late,
        }
        for outcome in outcomes
    ]
    message = ceiling_message(ceiling) | {"at": at, "outcomes": reports}

    def read(answer: Any) -> Counted:
        if isinstance(answer, int):
            return Counted(answer, len(outcomes) - answer)
        if answer[0] == "content":
            raise other_content(outcomes[answer[1]])
        if answer[0] == "returned":
            raise given_back(outcomes[answer[1]], int(answer[2]))
        if answer[0] == "room":
            refused = outcomes[answer[1]]
            raise no_room(refused, refused.cost, int(answer[2]), answer[3])
        amount = int(answer[4]) if len(answer) > 4 else None
        raise other_outcome(outcomes[answer[1]], float(answer[2]), int(answer[3]), amount)

    return Call("settle", message, read, shared_keys(ceiling))


def release(request_ids: Sequence[str], at: int) -> Call:
    """The call of :meth:`serving.ledger.store.Store.release`."""

    def read(answer: Any) -> Counted:
        if isinstance(answer, int):
            return Counted(answer, len(request_ids) - answer)
        raise captured(answer[1])

    return Call("release", {"at": at, "request_ids": request_ids}, read)
