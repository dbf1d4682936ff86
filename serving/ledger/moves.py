"""Moves of unspent budget between the ledgers of two campaigns (decision record 0109).

Each ledger keeps its half, one row for each move, and changes its own limit in the same step:

    giver     give ──► sent ──┬─► taken       the receiver has the money
                              └─► returned    the receiver refused it for good: the limit is back
    receiver  take ──► taken, or refused where its cap does not allow it
              refuse ──► refused, or taken where it has the money: a person takes a move back that is under way

A ledger that was restored may have given what it does not know. ``hold`` puts all of its limit above its floor, below
which no move leaves it, under way to itself. Meanwhile no other move changes its limit. Its lost halves come back by
``restore_give`` and ``restore_take``, which ask for no money and no cap: the other ledger has counted it. Then
``finish`` returns what was held (:func:`serving.portfolio.carry.restore`).

Each step may come twice, late, or from two coordinators: the first one counts. While a move is ``sent`` its money is in
no limit, so no order of the steps grants it twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, cast

import orjson

from serving.ledger.clock import microseconds, time_of
from shadowprice.campaign import Campaign
from shadowprice.errors import Conflict
from shadowprice.limits import MOST_AMOUNT

Step = Literal["give", "take", "refuse", "finish", "hold", "restore_give", "restore_take"]
RESTORING = ("hold", "restore_give", "restore_take")
"""Steps after a loss; only an administrator takes them."""
WAITING = ("give", "take", "finish")
"""Steps that a ledger refuses while it holds money back."""
HELD = "held|"
"""Begin of the ids of moves of a campaign to itself, by which a restored ledger holds money back."""
Half = Literal["give", "take"]
State = Literal["sent", "taken", "returned", "refused"]


class Move(NamedTuple):
    """Move as its planner states it; the same in both ledgers.

    id            unique; a repeat has the same content
    source        campaign that gives
    target        campaign that receives
    amount        minor units
    planned_at    seconds since 1970 (UTC)
    source_price  value of the last minor unit there, and the bounds of its interval; likewise ``target_price``
    reason        for a person
    undoes        id of the move that this one takes back; empty for others
    """

    id: str
    source: str
    target: str
    amount: int
    planned_at: int
    source_price: tuple[float, float, float]
    target_price: tuple[float, float, float]
    reason: str
    undoes: str = ""

    @property
    def held(self) -> bool:
        """Return whether this is what a restored ledger holds back."""
        return self.id.startswith(HELD)

    @property
    def content(self) -> str:
        """JSON of one form, by which a repeat is known."""
        return orjson.dumps(self._asdict()).decode()

    @classmethod
    def of(cls, content: str | bytes) -> Move:
        """Return the move that :attr:`content` came from."""
        fields = orjson.loads(content)
        prices = {name: tuple(fields[name]) for name in ("source_price", "target_price")}
        return cls(**(fields | prices))


class Allowance(NamedTuple):
    """Bounds of a campaign's moves; amounts in minor units.

    limit    of the campaign file
    reserve  of the limit that stays for captures after an expiry
    floor    least limit that a move may leave
    cap      largest one
    every    microseconds between two moves that it gives
    """

    limit: int
    reserve: int
    floor: int
    cap: int
    every: int

    @classmethod
    def of(cls, campaign: Campaign) -> Allowance:
        """Return the bounds of a campaign; one without terms gives nothing and refuses everything."""
        terms, limit = campaign.portfolio, int(campaign.budget.limit)
        if terms is None:
            return cls(limit, campaign.late_reserve, MOST_AMOUNT, 0, 0)
        return cls(limit, campaign.late_reserve, terms.floor, terms.cap, round(terms.hours_between * 3.6e9))


@dataclass(frozen=True)
class MoveRow:
    """Half of a move that one ledger keeps; ``recorded_at`` in microseconds since 1970 (UTC)."""

    move: Move
    half: Half
    state: State
    recorded_at: int

    @classmethod
    def of(cls, content: str | bytes, half: str, state: str, recorded_at: int) -> MoveRow:
        """Return the row from what a store keeps."""
        return cls(Move.of(content), cast(Half, half), cast(State, state), recorded_at)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as ``GET /v1/moves`` has it; :meth:`read` is the inverse."""
        times = {
            "recorded_at": time_of(self.recorded_at),
            "planned_at": datetime.fromtimestamp(self.move.planned_at, UTC),
        }
        return {"half": self.half, "state": self.state} | self.move._asdict() | times

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> MoveRow:
        """Return a row of ``GET /v1/moves``."""
        planned_at = round(datetime.fromisoformat(row["planned_at"]).timestamp())
        move = orjson.dumps({name: row[name] for name in Move._fields} | {"planned_at": planned_at})
        return cls.of(move, row["half"], row["state"], microseconds(datetime.fromisoformat(row["recorded_at"])))


def half_of(step: Step) -> Half:
    """Return the half of a move that a step belongs to."""
    return "take" if step in ("take", "refuse", "restore_take") else "give"


def check_own(campaign: str, step: Step, move: Move) -> None:
    """Refuse a step of another ledger.

    Raises:
        Conflict: it is one.
    """
    own = move.target if half_of(step) == "take" else move.source
    fits = step in ("hold", "finish") if move.held else step != "hold"
    if own != campaign or (move.source == move.target) != move.held or not fits or move.amount < 1:
        raise Conflict(f"move {move.id!r}: its {step} is not of campaign {campaign!r}")


def check_known(step: Step, move: Move, known: MoveRow | None) -> None:
    """Refuse a step of a move that was recorded otherwise, or whose begin was not recorded.

    Raises:
        Conflict: so it is.
    """
    if known is not None and (known.move != move or known.half != half_of(step)):
        raise Conflict(f"move {move.id!r} was recorded before with another content: {known.move.content}")
    if known is None and step == "finish":
        raise Conflict(f"move {move.id!r} was never given")


def is_held(move: Move) -> Conflict:
    """Error of a ledger that was restored, and whose moves nobody has compared with the others."""
    return Conflict(
        f"move {move.id!r}: the ledger was restored and may have lost moves; stop the job that moves budget, and run "
        "it once with --restore"
    )


def too_soon(move: Move, every: int) -> Conflict:
    """Error of a campaign that gave money a short time ago."""
    return Conflict(f"move {move.id!r}: {move.source!r} gave less than {every / 3.6e9:g} hours ago; wait")


def no_money(move: Move, free: int, above_floor: int) -> Conflict:
    """Error of a giver that holds or has spent the money, or would fall below its floor."""
    return Conflict(
        f"move {move.id!r}: {move.amount} minor units are more than the {max(free, 0)} that {move.source!r} has "
        f"unspent and unheld, or the {max(above_floor, 0)} above its floor"
    )


def other_end(move: Move, state: State) -> Conflict:
    """Error of a move that ended otherwise."""
    return Conflict(f"move {move.id!r} has ended: it is {state}")
