"""Moves of a portfolio in the sqlite file: one step as a job of the writer, and what is kept of them."""

import sqlite3
from dataclasses import dataclass

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
from serving.ledger.records import Ceiling
from serving.ledger.sqlite.authorizations import committed, moved

ROW = "SELECT content, half, state, recorded_at FROM move"
HOLDING = "SELECT 1 FROM move WHERE state = 'sent' AND id GLOB ? || '*'"


@dataclass(frozen=True)
class TakeStep:
    """:meth:`serving.ledger.store.Store.move`."""

    step: Step
    move: Move
    allowance: Allowance
    end: State | None
    at: int
    now: int = 0

    def __call__(self, database: sqlite3.Connection) -> State:
        """Take the step, unless it was taken before."""
        move, bounds = self.move, self.allowance
        row = database.execute(f"{ROW} WHERE id = ?", (move.id,)).fetchone()
        known = None if row is None else MoveRow.of(*row)
        check_known(self.step, move, known)
        if self.step in WAITING and not move.held and database.execute(HOLDING, (HELD,)).fetchone():
            raise is_held(move)
        if self.step == "finish":
            assert known is not None
            assert self.end is not None
            return self._finish(database, known.state, self.end)
        if known is not None:
            return known.state
        limit = bounds.limit + moved(database)
        state: State
        if self.step in ("restore_give", "restore_take"):
            state = "taken"
        elif self.step == "refuse":
            state = "refused"
        elif self.step == "hold":
            state = "sent"
        elif self.step == "take":
            state = "taken" if limit + move.amount <= bounds.cap else "refused"
        else:
            state = "sent"
            (last,) = database.execute("SELECT MAX(recorded_at) FROM move WHERE half = 'give'").fetchone()
            if not move.undoes and last is not None and self.at - last < bounds.every:
                raise too_soon(move, bounds.every)
            free = Ceiling(limit, bounds.reserve).grantable(*committed(database))
            if move.amount > min(free, limit - bounds.floor):
                raise no_money(move, free, limit - bounds.floor)
        database.execute(
            "INSERT INTO move (id, half, state, amount, content, recorded_at) VALUES (?, ?, ?, ?, ?, ?)",
            (move.id, half_of(self.step), state, move.amount, move.content, self.at),
        )
        if state != "refused":
            _add(database, "given" if half_of(self.step) == "give" else "received", move.amount)
        return state

    def _finish(self, database: sqlite3.Connection, state: State, end: State) -> State:
        if state == "sent":
            database.execute("UPDATE move SET state = ? WHERE id = ?", (end, self.move.id))
            if end == "returned":
                _add(database, "received", self.move.amount)
        elif state != end:
            raise other_end(self.move, state)
        return end


def _add(database: sqlite3.Connection, name: str, amount: int) -> None:
    database.execute(f"UPDATE moved SET {name} = {name} + ?", (amount,))


def read_moves(database: sqlite3.Connection) -> list[MoveRow]:
    """Return the newest moves and all that are under way, the oldest first."""
    query = (
        f"{ROW} WHERE state = 'sent' OR sequence > "
        f"(SELECT COALESCE(MAX(sequence), 0) - {MAX_MOVES} FROM move) ORDER BY sequence"
    )
    return [MoveRow.of(*row) for row in database.execute(query)]
