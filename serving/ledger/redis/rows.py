"""Records and messages as Redis keeps and gets them: msgpack, which its scripts read and write by ``cmsgpack``.

A record is the array of its fields in their order. Lua has no null in an array, so None is kept as false.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import msgpack
import redis

from serving.ledger.records import Known, Recorded, Row
from serving.ledger.sound import sound_decision, sound_outcome
from shadowprice.decision import NOTHING
from shadowprice.limits.usage import Left
from shadowprice.pacing.decision_log.records import Column, CorrectionRow, Decision, OutcomeRow, columns

Record = TypeVar("Record", Decision, OutcomeRow, CorrectionRow)
COLUMNS: dict[type, tuple[Column, ...]] = {kind: columns(kind) for kind in (Decision, OutcomeRow, CorrectionRow)}


def pack(value: object) -> bytes:
    """Return a message or an array of fields as bytes."""
    packed: bytes = msgpack.packb(value)
    return packed


def unpack(kept: bytes) -> Any:
    """Return what a script packed."""
    return msgpack.unpackb(kept, strict_map_key=False)


def values(record: Decision | OutcomeRow | CorrectionRow) -> list[Any]:
    """Return the fields of a record in their order."""
    held: Iterable[Any] = (
        (getattr(record, field.name) for field in fields(record)) if is_dataclass(record) else tuple(record)
    )
    return [False if value is None else value for value in held]


def record(kind: type[Record], held: Sequence[Any]) -> Record:
    """Return a record from its fields; those that an older record lacks have their default."""
    return kind(*map(_value, COLUMNS[kind], held))


def _value(column: Column, held: Any) -> Any:
    if column.optional and held is False:
        return None
    return tuple(map(float, held)) if column.type is tuple else column.type(held)


def find(client: redis.Redis, key: str, request_ids: Sequence[str | bytes]) -> list[Decision | None]:
    """Decisions of the requests in the hash ``key``; None for those that are not known."""
    return decisions(client.hmget(key, list(request_ids))) if request_ids else []


def decisions(kept: Any) -> list[Decision | None]:
    """Decisions as ``HMGET`` answers them; None for those that are not known."""
    return [None if value is None else decision(value) for value in kept]


def decision(kept: bytes) -> Decision:
    """A decision as the script wrote it."""
    return sound_decision(record(Decision, unpack(kept)))


def outcome(kept: bytes) -> OutcomeRow:
    """An outcome as the script wrote it."""
    return sound_outcome(record(OutcomeRow, unpack(kept)))


def correction(kept: bytes) -> CorrectionRow:
    """A correction as the script wrote it."""
    return record(CorrectionRow, unpack(kept))


def asked(row: Row) -> dict[str, Any]:
    """Return a row of the message; one that is only looked up has the first fields of a decision, and nothing else."""
    if isinstance(row, Known):
        return {"decision": row}
    wanted = values(sound_decision(row.wanted))
    _, *others = row.turns
    *further, spare = (_changed(wanted, other.decision) for other in others)
    return {
        "decision": wanted,
        "spare": spare,
        "unpaid_allowed": row.spare.level != NOTHING,
        "ttl": row.ttl,
        "sums": row.sums,
        "places": [turn.places for turn in row.turns],
        "further": further,
        "by_level": row.by_level,
    }


def _changed(wanted: Sequence[Any], other: Decision) -> dict[int, Any]:
    """Return the fields of another decision that differ, by their places."""
    return {place: value for place, value in enumerate(values(other), start=1) if value != wanted[place - 1]}


def recorded(row: Row, answer: Any, left: Left | None) -> Recorded | None:
    """Return the record of a row: its earlier decision, or the new one where ``left`` remains."""
    if isinstance(answer, dict):
        return Recorded(sound_decision(record(Decision, answer["kept"])), repeat=True)
    if isinstance(row, Known) or answer is False:
        return None
    if left is None or left.amount >= 0:
        return Recorded(row.at(left), repeat=False)
    return Recorded(row.instead(row.turns[answer[2] - 1].decision, left), repeat=False)
