"""Carry out moves of budget, in the one order that cannot grant a sum twice.

First the giver's ledger lowers its limit by money that is unspent and unheld, and notes the move. Then the receiver's
raises its limit, or refuses for good. Last the giver learns the end; after a refusal its limit is back. Where this
process ends in between, the money is in no limit until another run goes on from the giver's note.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from serving.http.limits import MAX_MOVES
from serving.ledger.moves import Move, MoveRow, State, Step
from shadowprice.errors import Conflict, NotFound, ShadowpriceError


class MovesLedger(Protocol):
    """Ledger of one campaign, as far as moves need it."""

    def move(self, campaign: str, step: Step, move: Move, end: State | None = None) -> State:
        """Take a step, and return the state of the ledger's half of the move."""

    def moves(self) -> list[MoveRow]:
        """Moves that the ledger knows."""

    def totals(self) -> Mapping[str, Any]:
        """Totals, as ``GET /v1/totals`` has them."""


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


def take_back(move: Move, ledgers: Mapping[str, MovesLedger]) -> State:
    """End a move that is under way: ``returned``, or ``taken`` where its receiver has the money already.

    The receiver says that it has not taken the money, and never will.

    Raises:
        ShadowpriceError: a ledger refuses, or does not answer; the money stays under way.
    """
    answered = ledgers[move.target].move(move.target, "refuse", move)
    return ledgers[move.source].move(move.source, "finish", move, "taken" if answered == "taken" else "returned")


def under_way(rows: Sequence[MoveRow]) -> list[MoveRow]:
    """Return the moves of a ledger whose money is in no limit, without what it holds back."""
    return [row for row in rows if row.half == "give" and row.state == "sent" and not row.move.held]


def holds(rows: Sequence[MoveRow]) -> list[Move]:
    """Return what a ledger holds back since it was restored."""
    return [row.move for row in rows if row.state == "sent" and row.move.held]


def complete(ledgers: Mapping[str, MovesLedger]) -> tuple[list[MoveRow], dict[str, str]]:
    """Go on with every move that an earlier run has left under way.

    Returns:
        The moves that still are, and name → reason, of each ledger that does not answer or refuses.
    """
    left: list[MoveRow] = []
    silent: dict[str, str] = {}
    for name, ledger in ledgers.items():
        try:
            waiting = under_way(ledger.moves())
        except ShadowpriceError as error:
            silent[name] = str(error)
            continue
        for row in waiting:
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


def restore(ledgers: Mapping[str, MovesLedger]) -> list[Move]:
    """Give every ledger the halves that it lost, return what restored ledgers hold back, and return these moves.

    Meanwhile nothing else may move budget, no step of an earlier run may be on its way, and no ledger may be restored.

    Raises:
        Conflict: moves were lost that no other ledger shows; what is held back stays so.
        NotFound: a restored campaign had a move under way to one that is not among the ledgers.
        ShadowpriceError: a ledger refuses or does not answer; call again.
    """
    rows = {name: ledger.moves() for name, ledger in ledgers.items()}
    held = {name: moves for name, own in rows.items() if (moves := holds(own))}
    _check_shown(rows, held)
    known = {name: {row.move.id for row in own} for name, own in rows.items()}
    given = [row for own in rows.values() for row in own if row.half == "give" and not row.move.held]
    unknown = [row for row in given if row.move.target in held and row.move.id not in known[row.move.target]]
    # A restored receiver may have had the money of a move that is still under way, and have spent it.
    found = lost(rows) + [(row.move.target, row.move) for row in unknown if row.state == "sent"]
    # Gives come first, so that no limit is meanwhile above what it was before the loss.
    for name, move in sorted(found, key=lambda lacking: lacking[0] == lacking[1].target):
        ledgers[name].move(name, "restore_give" if name == move.source else "restore_take", move)
    # A restored giver may have had its money back, and a restored receiver may have refused.
    sent = [row.move for row in given if row.state == "sent" and row.move.source in held]
    refused = [*sent, *(row.move for row in unknown if row.state == "returned")]
    if strange := {move.target for move in refused} - ledgers.keys():
        raise NotFound(f"{sorted(strange)} may have money of restored campaigns; put their workspaces back")
    ends = {move.id: ledgers[move.target].move(move.target, "refuse", move) for move in refused}
    back = [move for move in sent if ends[move.id] == "refused"]
    for name in ledgers if held else ():
        more = [*held.get(name, ()), *(move for move in back if move.source == name)]
        _check_room(name, ledgers[name].totals(), sum(move.amount for move in more))
    returned = [move for moves in held.values() for move in moves]
    for move in returned:
        ledgers[move.source].move(move.source, "finish", move, "returned")
    complete(ledgers)
    return [*(move for _, move in found), *returned]


def _check_shown(rows: Mapping[str, Sequence[MoveRow]], held: Iterable[str]) -> None:
    """Refuse where another ledger shows too few of its moves to tell what a restored one has lost."""
    for name in held:
        newest = max((row.recorded_at for row in rows[name] if not row.move.held), default=0)
        for peer, own in rows.items():
            if peer != name and len(own) >= MAX_MOVES and own[0].recorded_at > newest:
                raise Conflict(
                    f"{peer!r} shows its newest {MAX_MOVES} moves, and {name!r} was restored to before them: what it "
                    "lost cannot be told; restore a newer backup"
                )


def _check_room(name: str, totals: Mapping[str, Any], more: int) -> None:
    """Refuse a ledger that has used more than its moves allow: it had money by a move that nobody knows any more."""
    limit = int(totals["budget"]["limit"]) + int(totals["moved"]) + more
    used = int(totals["net_spent"]) + int(totals["outstanding"]) - sum(totals["overridden_by_side"].values())
    if used > limit:
        raise Conflict(
            f"{name!r} has spent or holds {used} minor units and its limit is {limit}: it had money by a move that "
            f"both ledgers lost; raise its budget.limit by {used - limit} at least, lower that of the giver by as "
            "much, start the ledgers again, and repeat"
        )
