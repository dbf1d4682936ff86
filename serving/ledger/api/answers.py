"""Write the ledger's answer to the calls of one message."""

from collections.abc import Iterator, Sequence

from serving.ledger.api.messages import Authorizations
from serving.ledger.records import Answer, Recorded
from shadowprice.errors import Conflict
from shadowprice.pacing.decision_log.records import Decision, columns

COLUMNS = tuple(column.name for column in columns(Decision) if column.field.returned)
"""Columns of a decision that the predictor receives."""


def recorded_rows(batch: Authorizations, answers: Sequence[Answer]) -> tuple[list[Recorded], list[int]]:
    """Return the decisions of the items of accepted calls, then of known requests, and the places of the latter.

    A place is a row of ``batch.known``; known requests that were never decided have none.
    """
    recorded: list[Recorded] = []
    looked_up: list[Iterator[Recorded | None]] = []
    for answer, size in zip(answers, batch.call_sizes, strict=True):
        rows = [] if isinstance(answer, Conflict) else answer
        recorded += [row for row in rows[:size] if row is not None]
        looked_up.append(iter(rows[size:]))
    places = []
    for place, call in enumerate([] if batch.known is None else batch.known.call):
        looked = next(looked_up[call], None)
        if looked is not None:
            recorded.append(looked)
            places.append(place)
    return recorded, places


def content(recorded: Sequence[Recorded], places: Sequence[int], answers: Sequence[Answer]) -> dict[str, object]:
    """Return the JSON content: decisions as columns, places of the known requests, and the error of each call."""
    columns = zip(*(row.decision for row in recorded), strict=True) if recorded else [()] * len(Decision._fields)
    named = dict(zip(Decision._fields, columns, strict=True))
    return {
        "decisions": {name: named[name] for name in COLUMNS} | {"repeat": [row.repeat for row in recorded]},
        "known": places,
        "errors": [str(answer) if isinstance(answer, Conflict) else None for answer in answers],
    }
