"""The ledger's store: the operations that must be atomic and durable, and nothing else.

What may be asked for is checked before (:mod:`serving.ledger.authorise`, :mod:`serving.ledger.settle`);
a store only decides what depends on what it holds. There are two, held to the same tests:
:mod:`serving.ledger.sqlite` and :mod:`serving.ledger.redis` (decision record 0012).

The states of an authorization, by its request id:

    authorise ──► open ──► captured        an outcome came; its cost is spent, the rest is free again
                    │
                    └────► released ──► captured late
                           expired, or given back     the money was paid all the same, so it is spent
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, Protocol

from serving.ledger.totals import Totals
from serving.ledger.traffic import Traffic
from shadowprice.campaign import Side
from shadowprice.decision import fit_budget

Cause = Literal["expired", "returned"]
CAUSES: tuple[Cause, ...] = ("expired", "returned")
SWEEP = 1000
"""Promises released by one call at most, so that no caller waits for a long queue of them."""


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
    expires_at  when the authorization is released if no outcome is reported, microseconds since 1970 (UTC)
    """

    wanted: Decision
    spare: Decision
    reserved: tuple[int, ...]
    expires_at: int

    def at(self, left: int | None) -> Decision:
        """Return the decision to record when ``left`` minor units remain; None where nothing limits them."""
        if left is None or self.reserved[-1] <= left:
            return self.wanted
        found = fit_budget(self.wanted.level, self.wanted.propensities, self.reserved, left)
        kept = self.wanted if self.wanted.reserved <= max(left, 0) else self.spare
        return kept._replace(propensity=found.propensity, propensities=found.probabilities)


class Recorded(NamedTuple):
    """What stands for a request; ``repeat`` when it stood before."""

    decision: Decision
    repeat: bool


@dataclass(frozen=True)
class Outcome:
    """What came of a request.

    where     how to name it in an error, such as ``[3]``
    response  units of response
    content   the event's data as JSON of one form: two deliveries of one event have the same
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


class Store(Protocol):
    """The books of one campaign. Safe to share between threads.

    Calls that write are atomic, durable when their future is done, and idempotent: after an error or
    a lost answer, sending the same again is right. Each raises :class:`~shadowprice.errors.Unavailable`
    where the store cannot be used; whether the call was recorded is then not known.
    """

    @property
    def alive(self) -> bool:
        """Whether calls are still carried out."""

    def authorise(self, entries: Sequence[Entry], ceiling: int | None, at: int) -> Future[list[Recorded]]:
        """Record decisions in order, all or none; a request id that is known keeps its first decision.

        With a ``ceiling`` what is reserved for open authorizations plus what is spent never exceeds it: the decision
        recorded is :meth:`Entry.at` of what is left. Authorizations that expired by ``at`` are released first, at
        most :data:`SWEEP` of them.

        Raises (by the future):
            Conflict: a request id stands for another account or side.
        """

    def settle(self, outcomes: Sequence[Outcome], at: int) -> Future[Counted]:
        """Capture outcomes, all or none: book the cost, close the authorization. Late ones are booked too.

        Raises (by the future):
            Conflict: an event id, or a request, that was reported before with another content.
        """

    def release(self, request_ids: Sequence[str], at: int) -> Future[Counted]:
        """Release authorizations that were not made use of, all or none; what is not open any more is repeated.

        Raises (by the future):
            Conflict: one is captured.
        """

    def expire(self, at: int) -> Future[int]:
        """Release up to :data:`SWEEP` authorizations that expired by ``at``; returns how many."""

    def find(self, request_ids: Sequence[str]) -> dict[str, Decision]:
        """Decisions of the requests that are known."""

    def totals(self) -> Totals:
        """All sums, of one moment."""

    def traffic(self, since: int, limit: int) -> Traffic:
        """Requests decided at or after ``since`` by hour and side, and the newest ``limit`` of them."""

    def decisions_after(self, sequence: int, limit: int) -> list[Decision]:
        """The decisions recorded as number ``sequence`` + 1, + 2, … of the campaign."""

    def outcomes_after(self, sequence: int, limit: int) -> list[OutcomeRow]:
        """The outcomes recorded as number ``sequence`` + 1, + 2, … of the campaign."""

    def close(self) -> None:
        """Finish what was called, then let go."""


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(at: datetime) -> int:
    """Microseconds since 1970 (UTC) of an aware time, exactly."""
    return (at - EPOCH) // timedelta(microseconds=1)


def time_of(microseconds: int) -> datetime:
    """The inverse of :func:`microseconds`."""
    return EPOCH + timedelta(microseconds=microseconds)
