"""The ledger's store: the operations that must be atomic and durable, and nothing else.

Requests are checked before (:mod:`serving.ledger.api.authorize`, :mod:`serving.ledger.api.settle`); a store only
decides what depends on its records. There are two, with the same tests:
:mod:`serving.ledger.sqlite` and :mod:`serving.ledger.redis` (decision record 0012).

The states of an authorization, by its request id:

    authorize ──► open ──► captured        an outcome came; its cost is spent, the rest is free again
                    │
                    ├────► expired ──► captured late, where the budget has room for its cost
                    └────► given back      for good; an administrator may still book it as a correction
"""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from serving.ledger.moves import Allowance, Move, MoveRow, State, Step
from serving.ledger.records import Answer, Ceiling, Correction, Counted, Dates, Owners, ReportedOutcome, Row, Storage
from serving.ledger.totals import LedgerTotals
from serving.ledger.traffic import Traffic
from shadowprice.limits.usage import Usage
from shadowprice.pacing.decision_log.records import CorrectionRow, Decision, OutcomeRow


class Store(Protocol):
    """Ledger database of one campaign. Safe to share between threads.

    Calls that write are atomic, durable when their future is done, and idempotent: after an error or
    a lost answer, sending the same again is right. Each raises :class:`~shadowprice.errors.Unavailable`
    where the store cannot be used; whether the call was recorded is then not known.

    ``at`` is the date of the records, microseconds since 1970 (UTC), by :meth:`date`. Expiry is judged by ledger time
    alone (:mod:`serving.ledger.clock`).
    """

    def date(self) -> int:
        """Return the date by which records are dated and limits count; see :class:`serving.ledger.clock.Calendar`."""

    @property
    def alive(self) -> bool:
        """Return whether calls are still carried out."""

    @property
    def trouble(self) -> str | None:
        """Reason why the newest write failed, or why no call is carried out; None where all is well."""

    def check(self) -> None:
        """Check in bounded time what may go wrong without a caller; :attr:`trouble` holds what was found.

        Raises:
            Unavailable: the store must not be used for now.
        """

    def authorize(self, calls: Sequence[Sequence[Row]], ceiling: Ceiling | None, at: int) -> Future[list[Answer]]:
        """Record the decisions of several calls in order; a request id that is known keeps its first decision.

        Each call is recorded whole, or refused alone: one of its request ids stands for another account or side,
        in the store or in an earlier call. The others are not affected by it.

        With a ``ceiling``, whose limit moves have changed since, what is reserved for open authorizations plus what is
        spent never exceeds its limit: the
        decision recorded is :meth:`Entry.at` of the tightest of :meth:`Ceiling.grantable` and the further limits. The
        sums of an authorization's limits change in the same step, here and in every later call. Authorizations that
        have expired are released first, at most :data:`~serving.http.limits.MAX_SWEEP` of them.
        """

    def settle(self, outcomes: Sequence[ReportedOutcome], ceiling: Ceiling | None, at: int) -> Future[Counted]:
        """Capture outcomes in order, all or none: book the cost, close the authorization.

        An open authorization holds its cost. After an expiry a cost above 0 needs :meth:`Ceiling.room`, unless there
        is no ceiling. After a return it is refused. An outcome without cost is always booked.

        Raises (by the future):
            Conflict: an event id, or a request, that was reported before with another content; a cost after a return,
                or without room.
        """

    def correct(self, corrections: Sequence[Correction], ceiling: Ceiling | None, at: int) -> Future[Counted]:
        """Correct outcomes in order, all or none; rows that were recorded stay as they are.

        A cost that rises needs :meth:`Ceiling.room` for the difference, unless there is no ceiling or the correction
        is an override. After a return only an override raises a cost. An override of a request without an outcome first
        records an outcome of nothing.

        Raises (by the future):
            Conflict: an event id that was used before with another content; a request without an outcome; a refund or
                clawback that raises a response or a cost; a cost that rises after a return, or without room.
        """

    def release(self, request_ids: Sequence[str], at: int) -> Future[Counted]:
        """Release unused authorizations, all or none; those that are no longer open count as repeats.

        Raises (by the future):
            Conflict: one is captured.
        """

    def expire(self, at: int) -> Future[int]:
        """Release authorizations that have expired, and keep the ledger time; returns how many.

        At most :data:`~serving.http.limits.MAX_SWEEP`.
        """

    def move(self, step: Step, move: Move, allowance: Allowance, end: State | None, at: int) -> Future[State]:
        """Take a step of a move of budget (:mod:`serving.ledger.moves`), and return the state of this half after it.

        ``give`` lowers the limit by money that is neither spent nor held, ``take`` raises it or refuses for good, and
        ``finish`` tells the giver the ``end``, which is ``taken`` or ``returned``; the others restore a lost half.
        Every later call counts with the changed limit. A step that was taken before changes nothing.

        Raises (by the future, or at once where the step is of another campaign):
            Conflict: the money is not there, the giver gave too recently, or the move is recorded otherwise.
        """

    def moves(self) -> list[MoveRow]:
        """The newest moves and all that are under way, the oldest first."""

    def find(self, request_ids: Sequence[str]) -> dict[str, Decision]:
        """Decisions of the requests that are known."""

    def totals(self) -> LedgerTotals:
        """All sums, of one moment."""

    def usage(self, sums: Sequence[str]) -> dict[str, Usage]:
        """Sums of further limits, by name, of one moment; absent ones are zero."""

    def owners(self, campaign: str, begin: str, after: str, limit: int) -> Owners:
        """Return about ``limit`` of the sums of a campaign whose names begin with ``begin``, by the rest of the name.

        Args:
            campaign: this one, or one that shares a limit with it.
            begin: name of the limit and its period, ``name|period|``.
            after: :attr:`Owners.next` of the call before; empty at first.
            limit: 1 or more.

        Sums of nothing are left out.

        Raises:
            InvalidRequest: ``after`` is of another store.
            Unavailable: the sums cannot be read, or this process does not keep the campaign's file.
        """

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

    def may_log(self, seconds: float) -> bool:
        """Return whether this process writes the log for ``seconds``: at most one of those that share the store.

        Raises:
            Unavailable: the store cannot tell.
        """

    def close(self) -> None:
        """Finish pending calls, then close."""
