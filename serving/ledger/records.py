"""Records of a ledger's store."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from shadowprice.campaign import Side
from shadowprice.decision import NOTHING, fit_budget
from shadowprice.errors import Conflict
from shadowprice.limits import Bound
from shadowprice.limits.usage import Left, Usage
from shadowprice.pacing.decision_log.records import CorrectionKind, Decision, OutcomeRow

Cause = Literal["expired", "returned"]
CAUSES: tuple[Cause, ...] = ("expired", "returned")


class Ceiling(NamedTuple):
    """Amounts that the hard stop holds, minor units.

    limit         the most that open authorizations and what is spent may come to together
    late_reserve  part of the limit that authorizations leave to captures after an expiry
    name          of the main budget
    bounds        of the further limits, in the order of the campaign's
    """

    limit: int
    late_reserve: int = 0
    name: str = "budget"
    bounds: tuple[Bound, ...] = ()

    @property
    def by_name(self) -> dict[str, Bound]:
        """Bounds of the further limits."""
        return {bound.name: bound for bound in self.bounds}

    def room(self, committed: int) -> int:
        """Amount that may still be captured without an authorization where ``committed`` is open or spent."""
        return self.limit - committed

    def grantable(self, committed: int, late: int) -> int:
        """Amount that may still be authorized where ``committed`` is open or spent, ``late`` of it captured late."""
        return self.limit - committed - max(0, self.late_reserve - late)


class Turn(NamedTuple):
    """A decision that may be recorded, and the sums of the places that it takes."""

    decision: Decision
    places: tuple[str, ...] = ()


class Entry(NamedTuple):
    """A decision to record, and how a nearly exhausted budget or a full segment changes it.

    wanted      the decision where the budget covers every level
    spare       the decision where it does not cover the wanted level; its propensities are those of ``wanted``
    reserved    (J,), the most that each level of the side can cost; unused without a ceiling
    ttl         microseconds of ledger time after which the authorization is released if no outcome is reported
    sums        of further limits that the authorization adds to
    places      sums of the places that the wanted decision takes
    further     to record in turn where one of these places is not free; the spare comes after them
    by_level    sums that count the recorded decision, each without the level at its end
    """

    wanted: Decision
    spare: Decision
    reserved: tuple[int, ...]
    ttl: int
    sums: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    further: tuple[Turn, ...] = ()
    by_level: tuple[str, ...] = ()

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Decisions in the order in which their places are tried; the last one takes none."""
        return (Turn(self.wanted, self.places), *self.further, Turn(self.spare))

    def instead(self, other: Decision, full: Left) -> Decision:
        """Return the decision to record where a limit of places is full: ``other`` takes the share of the wanted."""
        kept = list(self.wanted.propensities)
        missing, kept[self.wanted.level] = kept[self.wanted.level], 0.0
        if other.level != NOTHING:
            missing = kept[other.level] = min(kept[other.level] + missing, 1.0)
        return other._replace(propensity=missing, propensities=tuple(kept), reason=full.reason, limited_by=full.name)

    def at(self, left: Left | None) -> Decision:
        """Return the decision to record where ``left`` remains; None where nothing limits it."""
        if left is None or max(self.reserved) <= left.amount:
            return self.wanted
        fitted = fit_budget(
            self.wanted.level,
            self.wanted.propensities,
            self.reserved,
            left.amount,
            unpaid_allowed=self.spare.level != NOTHING,
        )
        kept = self.wanted
        if kept.reserved > max(left.amount, 0):
            kept = self.spare._replace(reason=left.reason, limited_by=left.name)
        return kept._replace(propensity=fitted.propensity, propensities=fitted.probabilities)


class Known(NamedTuple):
    """A request that nothing is to be recorded for: only its earlier decision is looked up."""

    request_id: str
    account_id: str
    side: Side


class Recorded(NamedTuple):
    """Recorded answer of a request; ``repeat`` when it was recorded before."""

    decision: Decision
    repeat: bool


Row = Entry | Known
Answer = list[Recorded | None] | Conflict
"""Of one call: the decision of each row, None for a :class:`Known` without one; or why the call is refused."""


def request_of(row: Row) -> str:
    """Return the id of the request that a row is about."""
    return row.request_id if isinstance(row, Known) else row.wanted.request_id


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
class ReportedOutcome:
    """Outcome of a request.

    where     its name in an error, such as ``[3]``
    response  units of response
    content   the event's data as JSON of one form: two deliveries of one event have the same
    misdated  whether ``observed_at`` cannot be right by the ledger's clock
    late      whether the authorization was released before, where that is known from a log; None: the store judges
    caller    name of the token that was shown
    amount    minor units of the response; None where they were not reported
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
    caller: str = ""
    amount: int | None = None

    def row(self, at: int) -> OutcomeRow:
        """Return the row that is recorded at a time, in microseconds; late only where that is known."""
        return OutcomeRow(
            request_id=self.request_id,
            side=self.side,
            response=self.response,
            cost=self.cost,
            late=bool(self.late),
            observed_at=self.observed_at,
            recorded_at=at,
            misdated=self.misdated,
            caller=self.caller,
            amount=self.amount,
        )


@dataclass(frozen=True)
class Correction:
    """A change of an outcome that was reported.

    outcome   the outcome after the correction, with the event that corrects it
    kind      ``reversal``: what was reported was wrong; ``refund``: the money was given back; ``clawback``: the
              platform took it back. Only a reversal raises a response or a cost
    override  an administrator records it also without an outcome before it, without room, and after a return
    replayed  whether it comes from a log: it was recorded, so it is recorded again
    """

    outcome: ReportedOutcome
    kind: CorrectionKind
    override: bool = False
    replayed: bool = False

    @property
    def raises(self) -> bool:
        """Return whether a correction of this kind may raise a response or a cost."""
        return self.kind == "reversal"


@dataclass(frozen=True)
class Counted:
    """Numbers of new and repeated items of a call."""

    accepted: int
    repeated: int


@dataclass(frozen=True)
class Dates:
    """Dates to compare a wall clock with; microseconds since 1970 (UTC), None where there is none.

    recorded  of the decision that was recorded last
    server    of the store's own clock, now
    """

    recorded: int | None
    server: int | None


class Owners(NamedTuple):
    """Some sums of one limit in one period and campaign.

    usage  sum of each account or partner, by its name; of a budget that of ``""``. An owner may occur twice; the later
           sum is the newer
    next   where the next ones are; empty where there are no more
    first  date of the campaign's first decision, microseconds since 1970; None where nothing was decided
    """

    usage: dict[str, Usage]
    next: str
    first: int | None


@dataclass(frozen=True, kw_only=True)
class Storage:
    """Size of a store.

    used_bytes   bytes of the sqlite files, or memory that Redis uses; None where Redis does not tell
    limit_bytes  memory that Redis may use; 0 where there is no limit but that of the disk or the machine
    decisions    decisions kept
    outcomes     outcomes kept
    """

    used_bytes: int | None
    limit_bytes: int
    decisions: int
    outcomes: int
