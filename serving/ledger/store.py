"""The ledger's store: the operations that must be atomic and durable, and nothing else.

What may be asked for is checked before (:mod:`serving.ledger.api.authorise`, :mod:`serving.ledger.api.settle`);
a store only decides what depends on what it holds. There are two, held to the same tests:
:mod:`serving.ledger.sqlite` and :mod:`serving.ledger.redis` (decision record 0012).

The states of an authorization, by its request id:

    authorise ──► open ──► captured        an outcome came; its cost is spent, the rest is free again
                    │
                    ├────► expired ──► captured late, where the budget has room for its cost
                    └────► given back      for good; an administrator may still book it as a correction
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, Protocol, get_args

from serving.ledger.api.headroom import Storage
from serving.ledger.totals import Totals
from serving.ledger.traffic import Traffic
from shadowprice.campaign import Side
from shadowprice.decision import fit_budget
from shadowprice.errors import Conflict

Cause = Literal["expired", "returned"]
CAUSES: tuple[Cause, ...] = ("expired", "returned")
CorrectionKind = Literal["reversal", "refund", "clawback"]
CORRECTION_KINDS: tuple[CorrectionKind, ...] = get_args(CorrectionKind)
SWEEP = 1000
"""Promises released by one call at most, so that no caller waits for a long queue of them."""


class Ceiling(NamedTuple):
    """What the hard stop holds, in minor units.

    limit         the most that open authorizations and what is spent may come to together
    late_reserve  part of the limit that authorizations leave to captures after an expiry
    """

    limit: int
    late_reserve: int = 0

    def room(self, committed: int) -> int:
        """What may still be captured without an authorization where ``committed`` is open or spent."""
        return self.limit - committed

    def grantable(self, committed: int, late: int) -> int:
        """What may still be authorized where ``committed`` is open or spent, and ``late`` of it was captured late."""
        return self.limit - committed - max(0, self.late_reserve - late)


class Decision(NamedTuple):
    """What a request is told, and what the log keeps of how it came about; money in minor units.

    propensity    probability of this answer when it was given; propensities (J,) of each level, where what is
                  missing from 1 is the probability of nothing
    features_at   when the features were computed, microseconds since 1970 (UTC); None where there were none
    most_units    incentives that may be paid for it at most; 1 where it was recorded before there were more
    """

    request_id: str
    account_id: str
    side: Side
    level: int
    incentive: int
    response: float
    expected_cost: float
    propensity: float
    propensities: tuple[float, ...]
    reason: str
    model_version: str
    price_version: int
    features_at: int | None
    decided_at: int
    most_units: int = 1

    @property
    def reserved(self) -> int:
        """Minor units held back while the authorization is open: the most that it can cost."""
        return self.incentive * self.most_units


class Entry(NamedTuple):
    """A decision to record, and how a nearly exhausted budget changes it.

    wanted      the decision where the budget covers every level
    spare       the decision where it does not cover the wanted level; its propensities are those of ``wanted``
    reserved    (J,), the most that each level of the side can cost, ascending; unused without a ceiling
    ttl         microseconds of ledger time after which the authorization is released if no outcome is reported
    """

    wanted: Decision
    spare: Decision
    reserved: tuple[int, ...]
    ttl: int

    def at(self, left: int | None) -> Decision:
        """Return the decision to record when ``left`` minor units remain; None where nothing limits them."""
        if left is None or self.reserved[-1] <= left:
            return self.wanted
        found = fit_budget(self.wanted.level, self.wanted.propensities, self.reserved, left)
        kept = self.wanted if self.wanted.reserved <= max(left, 0) else self.spare
        return kept._replace(propensity=found.propensity, propensities=found.probabilities)


class Known(NamedTuple):
    """A request that nothing is to be recorded for: only its earlier decision is looked up."""

    request_id: str
    account_id: str
    side: Side


class Recorded(NamedTuple):
    """What stands for a request; ``repeat`` when it stood before."""

    decision: Decision
    repeat: bool


Row = Entry | Known
Answer = list[Recorded | None] | Conflict
"""Of one call: the decision of each row, None for a :class:`Known` without one; or why the call is refused."""


def asked(row: Row) -> Known:
    """Return the request that a row is about."""
    return row if isinstance(row, Known) else Known(*row.wanted[:3])


def lone(answers: Sequence[Answer]) -> list[Recorded | None]:
    """Return the rows of the only call.

    Raises:
        Conflict: it was refused.
    """
    (answer,) = answers
    if isinstance(answer, Conflict):
        raise answer
    return answer


@dataclass(frozen=True)
class Outcome:
    """What came of a request.

    where     how to name it in an error, such as ``[3]``
    response  units of response
    content   the event's data as JSON of one form: two deliveries of one event have the same
    misdated  whether ``observed_at`` cannot be right by the ledger's clock
    late      whether the authorization was released before, where that is known from a log; None: the store judges
    """

    where: str
    source: str
    event_id: str
    request_id: str
    side: Side
    response: float
    cost: int
    observed_at: int
    content: str
    misdated: bool = False
    late: bool | None = None


@dataclass(frozen=True)
class Correction:
    """A change of an outcome that was reported.

    outcome   the outcome as it stands from now on, with the event that corrects it
    kind      ``reversal``: what was reported was wrong; ``refund``: the money was given back; ``clawback``: the
              platform took it back. Only a reversal raises a response or a cost
    override  an administrator books it also without an outcome before it, and without room
    """

    outcome: Outcome
    kind: CorrectionKind
    override: bool = False

    @property
    def raises(self) -> bool:
        """Whether a correction of this kind may raise a response or a cost."""
        return self.kind == "reversal"


@dataclass(frozen=True)
class Counted:
    """How many of a call were new, and how many had been taken before."""

    accepted: int
    repeated: int


@dataclass(frozen=True)
class OutcomeRow:
    """A captured outcome as it is kept; times in microseconds since 1970 (UTC)."""

    request_id: str
    side: Side
    response: float
    cost: int
    late: bool
    observed_at: int
    recorded_at: int
    misdated: bool = False


@dataclass(frozen=True)
class Dates:
    """Dates to compare a wall clock with; microseconds since 1970 (UTC), None where there is none.

    recorded  of the decision that was recorded last
    server    of the store's own clock, now
    """

    recorded: int | None
    server: int | None


class CorrectionRow(NamedTuple):
    """A correction as it is kept; times in microseconds since 1970 (UTC).

    response, cost    of the request from then on; previous_response and previous_cost until then
    """

    source: str
    event_id: str
    request_id: str
    side: Side
    kind: CorrectionKind
    response: float
    cost: int
    previous_response: float
    previous_cost: int
    override: bool
    content: str
    observed_at: int
    recorded_at: int
    misdated: bool


class Store(Protocol):
    """The books of one campaign. Safe to share between threads.

    Calls that write are atomic, durable when their future is done, and idempotent: after an error or
    a lost answer, sending the same again is right. Each raises :class:`~shadowprice.errors.Unavailable`
    where the store cannot be used; whether the call was recorded is then not known.

    ``at`` is the date of the records, microseconds since 1970 (UTC). Expiry is judged by ledger time alone
    (:mod:`serving.ledger.clock`).
    """

    @property
    def alive(self) -> bool:
        """Whether calls are still carried out."""

    @property
    def trouble(self) -> str | None:
        """Why the newest write failed, or why no call is carried out; None where all is well."""

    def check(self) -> None:
        """Check in bounded time what may go wrong without a caller; :attr:`trouble` holds what was found.

        Raises:
            Unavailable: the store must not be used for now.
        """

    def authorise(self, calls: Sequence[Sequence[Row]], ceiling: Ceiling | None, at: int) -> Future[list[Answer]]:
        """Record the decisions of several calls in order; a request id that is known keeps its first decision.

        Each call is recorded whole, or refused alone: one of its request ids stands for another account or side,
        in the store or in an earlier call. The others are not affected by it.

        With a ``ceiling`` what is reserved for open authorizations plus what is spent never exceeds its limit: the
        decision recorded is :meth:`Entry.at` of :meth:`Ceiling.grantable`. Authorizations that have expired are
        released first, at most :data:`SWEEP` of them.
        """

    def settle(self, outcomes: Sequence[Outcome], ceiling: Ceiling | None, at: int) -> Future[Counted]:
        """Capture outcomes in order, all or none: book the cost, close the authorization.

        An open authorization has the room for its cost. After an expiry a cost above 0 needs :meth:`Ceiling.room`,
        unless there is no ceiling. After a return it is refused. What costs nothing is always booked.

        Raises (by the future):
            Conflict: an event id, or a request, that was reported before with another content; a cost after a return,
                or without room.
        """

    def correct(self, corrections: Sequence[Correction], ceiling: Ceiling | None, at: int) -> Future[Counted]:
        """Correct outcomes in order, all or none; rows that were recorded stay as they are.

        A cost that rises needs :meth:`Ceiling.room` for the difference, unless there is no ceiling or the correction
        is an override. An override of a request without an outcome first records an outcome of nothing.

        Raises (by the future):
            Conflict: an event id that was used before with another content; a request without an outcome; a refund or
                clawback that raises a response or a cost; a cost without room.
        """

    def release(self, request_ids: Sequence[str], at: int) -> Future[Counted]:
        """Release authorizations that were not made use of, all or none; what is not open any more is repeated.

        Raises (by the future):
            Conflict: one is captured.
        """

    def expire(self, at: int) -> Future[int]:
        """Release up to :data:`SWEEP` authorizations that have expired, and keep the ledger time; returns how many."""

    def find(self, request_ids: Sequence[str]) -> dict[str, Decision]:
        """Decisions of the requests that are known."""

    def totals(self) -> Totals:
        """All sums, of one moment."""

    def dates(self) -> Dates:
        """Dates that a wall clock can be compared with."""

    def traffic(self, since: int, limit: int) -> Traffic:
        """Requests decided at or after ``since`` by hour and side, and those of the newest ``limit`` among them.

        ``since`` is a multiple of :data:`~serving.ledger.traffic.QUARTER`. O(quarters + limit).
        """

    def decisions_after(self, sequence: int, limit: int) -> list[Decision]:
        """The decisions recorded as number ``sequence`` + 1, + 2, … of the campaign."""

    def outcomes_after(self, sequence: int, limit: int) -> list[OutcomeRow]:
        """The outcomes recorded as number ``sequence`` + 1, + 2, … of the campaign."""

    def storage(self) -> Storage:
        """Bytes used, and rows kept. O(log rows)."""

    def corrections_after(self, sequence: int, limit: int) -> list[CorrectionRow]:
        """The corrections recorded as number ``sequence`` + 1, + 2, … of the campaign."""

    def close(self) -> None:
        """Finish what was called, then let go."""


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(at: datetime) -> int:
    """Microseconds since 1970 (UTC) of an aware time, exactly."""
    return (at - EPOCH) // timedelta(microseconds=1)


def time_of(microseconds: int) -> datetime:
    """The inverse of :func:`microseconds`."""
    return EPOCH + timedelta(microseconds=microseconds)
