"""Moves of a portfolio as the message of their script, and reading them."""

from collections.abc import Mapping
from typing import Any

import redis

from serving.http.limits import MAX_MOVES
from serving.ledger.moves import (
    HELD,
    WAITING,
    Allowance,
    Move,
    MoveRow,
    State,
    Step,
    check_known,
    half_of,
    is_held,
    no_money,
    other_end,
    too_soon,
)
from serving.ledger.redis.rows import unpack
from serving.ledger.redis.scripts import Call


def take_step(step: Step, move: Move, bounds: Allowance, end: State | None, at: int) -> Call:
    """The call of :meth:`serving.ledger.store.Store.move`."""
    message = {
        "step": step,
        "half": half_of(step),
        "free": step not in WAITING or move.held,
        "held": HELD,
        "id": move.id,
        "amount": move.amount,
        "content": move.content,
        "undo": bool(move.undoes),
        "at": at,
        "limit": bounds.limit,
        "late_reserve": bounds.reserve,
        "floor": bounds.floor,
        "cap": bounds.cap,
        "every": bounds.every,
        "end_": end,
    }

    def read(answer: Any) -> State:
        if isinstance(answer, str):
            return answer  # type: ignore[return-value]
        match answer[0]:
            case "money":
                raise no_money(move, int(answer[1]), int(answer[2]))
            case "held":
                raise is_held(move)
            case "soon":
                raise too_soon(move, bounds.every)
            case "ended":
                raise other_end(move, answer[1])
        check_known(step, move, None if answer[0] == "missing" else MoveRow.of(*answer[1:]))
        raise AssertionError(answer)

    return Call("move", message, read)


def read_moves(client: redis.Redis, key: Mapping[str, str]) -> list[MoveRow]:
    """Return the newest moves and all that are under way, the oldest first."""
    newest: Any = client.lrange(key["moved"], -MAX_MOVES, -1)
    sent: Any = client.smembers(key["move_sent"])
    names = [*(sent - set(newest)), *newest]
    kept: Any = client.hmget(key["move"], names) if names else []
    rows = [MoveRow.of(*unpack(row)) for row in kept if row is not None]
    return sorted(rows, key=lambda row: row.recorded_at)
