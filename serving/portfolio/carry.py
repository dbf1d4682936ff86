"""Carry out moves of budget, in the one order that cannot grant a sum twice.

First the giver's ledger lowers its limit by money that is unspent and unheld, and notes the move. Then the receiver's
raises its limit, or refuses for good. Last the giver learns the end; after a refusal its limit is back. Where this
process ends in between, the money is in no limit until another run goes on from the giver's note.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from serving.http.limits import MAX_MOVES
from serving.ledger.moves import Move, MoveRow, State, Step
from shadowprice.errors import ShadowpriceError


class MovesLedger(Protocol):
    """Ledger of one campaign, as far as moves need it."""

    def move(self, campaign: str, step: Step, move: Move, end: State | None = None) -> State:
        """Take a step, and return the state of the ledger's half of the move."""

    def moves(self) -> list[MoveRow]:
        """Moves that the ledger knows."""


def carry_out(move: Move, ledgers: Mapping[str, MovesLedger]) -> State:
    """Move money, and return how it ended: ``taken``, or ``returned`` where the receiver's cap does not allow it.

    Raises:
        ShadowpriceError: a ledger refuses, or does not answer; :func:`complete` goes on later.
    """
    state = ledgers[move.source].move(move.source, "give", move)
    return finish(move, ledgers) if state == "sent" else state


def finish(move: Move, ledgers: Mapping[str, MovesLedger]) -> State:
    """Go on with a move that its giver has sent."""
    answered = ledgers[move.target].move(move.target, "take", move)
    return ledgers[move.source].move(move.source, "finish", move, "taken" if answered == "taken" else "returned")


def complete(ledgers: Mapping[str, MovesLedger]) -> tuple[list[MoveRow], dict[str, str]]:
    """Go on with every move that an earlier run has left under way.

    Returns:
        The moves that still are, and name → reason, of each ledger that does not answer or refuses.
    """
    left: list[MoveRow] = []
    silent: dict[str, str] = {}
    for name, ledger in ledgers.items():
        try:
            under_way = [row for row in ledger.moves() if row.half == "give" and row.state == "sent"]
        except ShadowpriceError as error:
            silent[name] = str(error)
            continue
        for row in under_way:
            try:
                finish(row.move, ledgers)
            except (ShadowpriceError, KeyError) as error:
                left.append(row)
                silent.setdefault(row.move.target, str(error) or "is not in the portfolio")
    return left, silent


def lost(rows: Mapping[str, Sequence[MoveRow]]) -> list[tuple[str, Move]]:
    """Return the halves that a ledger lacks although the other one has counted the money: its name, and the move.

    Args:
        rows: name → moves that the ledger shows.
    """
    known = {name: {row.move.id for row in own} for name, own in rows.items()}
    # A full page shows only the newest.
    since = {name: own[0].recorded_at if len(own) >= MAX_MOVES else 0 for name, own in rows.items()}
    return [
        (peer, row.move)
        for own in rows.values()
        for row in own
        for peer in [row.move.target if row.half == "give" else row.move.source]
        if row.state == "taken" and peer in known and row.move.id not in known[peer] and row.recorded_at > since[peer]
    ]


def restore(rows: Mapping[str, Sequence[MoveRow]], ledgers: Mapping[str, MovesLedger]) -> list[Move]:
    """Give every ledger the halves that it lost, and return their moves.

    Raises:
        ShadowpriceError: a ledger refuses or does not answer; the others stay restored.
    """
    found = lost(rows)
    for name, move in found:
        ledgers[name].move(name, "restore_give" if name == move.source else "restore_take", move)
    return [move for _, move in found]
