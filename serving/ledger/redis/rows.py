"""Decisions and outcomes as Redis keeps them, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import redis

from serving.ledger.records import Known, Recorded, Row
from serving.ledger.sound import sound_decision, sound_outcome
from shadowprice.limits.usage import Left
from shadowprice.pacing.decision_log.records import Decision, OutcomeRow

PROPENSITY, REASON, LIMITED_BY = map(Decision._fields.index, ("propensity", "reason", "limited_by"))
"""Places in a decision; the probabilities of all levels follow the propensity, then the reason."""
DECISION_ARGUMENTS = 14
"""Arguments of a row that is recorded, after request id, account and side."""


def find(client: redis.Redis, key: str, request_ids: Sequence[str | bytes]) -> list[Decision | None]:
    """Decisions of the requests in the hash ``key``; None for those that are not known."""
    return decisions(client.hmget(key, list(request_ids))) if request_ids else []


def decisions(kept: Any) -> list[Decision | None]:
    """Decisions as ``HMGET`` answers them; None for those that are not known."""
    return [None if value is None else decision(value) for value in kept]


def arguments(row: Row) -> list[str | int | bytes]:
    """Arguments of one row; those of a decision are empty where there is none to record."""
    if isinstance(row, Known):
        return [*row, *[""] * DECISION_ARGUMENTS]
    wanted, spare = sound_decision(row.wanted), row.spare
    return [
        wanted.request_id,
        wanted.account_id,
        wanted.side,
        row.ttl,
        wanted.incentive,
        wanted.reserved,
        wanted.level,
        wanted.reason,
        repr(float(wanted.propensity)),
        ",".join(repr(float(share)) for share in wanted.propensities),
        *_around_probabilities(wanted),
        spare.level,
        *_around_limit(spare),
        "\n".join(row.sums),
    ]


def recorded(row: Row, kept: bytes | int | list[int] | None, left: Left | None) -> Recorded | None:
    """Return what stands for a row: what was kept before, or the decision for what was ``left``."""
    if isinstance(kept, bytes):
        return Recorded(decision(kept), repeat=True)
    if isinstance(row, Known) or kept is None:
        return None
    return Recorded(row.at(left), repeat=False)


def _around_probabilities(decision: Decision) -> tuple[bytes, bytes]:
    """JSON of a decision before its propensity and after its probabilities, which the script computes."""
    before, after = decision[:PROPENSITY], decision[PROPENSITY + 2 :]
    return orjson.dumps(list(before))[:-1] + b",", b"," + orjson.dumps(list(after))[1:]


def _around_limit(decision: Decision) -> tuple[bytes, bytes, bytes]:
    """JSON of a decision before its propensity, between reason and ``limited_by``, and after that."""
    between, after = decision[REASON + 1 : LIMITED_BY], decision[LIMITED_BY + 1 :]
    head, _ = _around_probabilities(decision)
    rest = b"," + orjson.dumps(list(after))[1:] if after else b"]"
    return head, b"," + orjson.dumps(list(between))[1:-1] + b",", rest


def decision(kept: bytes) -> Decision:
    """A decision as the script wrote it."""
    row: list[Any] = orjson.loads(kept.split(b"\n", 3)[3])
    row[PROPENSITY] = float(row[PROPENSITY])
    row[PROPENSITY + 1] = tuple(map(float, row[PROPENSITY + 1]))
    return sound_decision(Decision(*row))


def outcome(request_id: str, kept: bytes) -> OutcomeRow:
    """An outcome as the script wrote it."""
    late, response, cost, recorded_at, row = kept.split(b"\n", 4)
    side, observed_at, *rest = orjson.loads(row)
    return sound_outcome(
        OutcomeRow(request_id, side, float(response), int(cost), late == b"1", observed_at, int(recorded_at), *rest)
    )
