"""Errors of the stores, in the same words for each."""

from collections.abc import Mapping, Sequence

from serving.ledger.clock import time_of
from serving.ledger.records import Correction, Entry, Known, ReportedOutcome, Row, asked
from shadowprice.errors import Conflict
from shadowprice.pacing.decision_log.records import Decision

NO_AMOUNT = " and no amount; a correction of kind reversal states it"
"""End of the error of an outcome that differs from what stands by its amount alone, where there is none yet."""


def owner_conflict(call: Sequence[Row], decided: Mapping[str, Decision]) -> Conflict | None:
    """Return why a call is refused: a request id that stands for another account or side, decided or in the call."""
    owners: dict[str, Known] = {}
    for row in call:
        request = asked(row)
        before = decided.get(request.request_id)
        owner = owners.get(request.request_id) if before is None else Known(*before[:3])
        if owner not in (None, request):
            return other_owner(request)
        if isinstance(row, Entry):
            owners[request.request_id] = request
    return None


def other_owner(request: Known) -> Conflict:
    """Error of a request id that stands for another account or side."""
    return Conflict(
        f"request_id: {request.request_id!r} was decided before for another account or side; "
        "every request needs an identifier of its own"
    )


def other_content(outcome: ReportedOutcome) -> Conflict:
    """Error of an event that arrived again with another content."""
    where = f"{outcome.where}.id".lstrip(".")
    return Conflict(f"{where}: event {outcome.event_id!r} was received before with another content")


def other_outcome(outcome: ReportedOutcome, response: float, cost: int, amount: int | None) -> Conflict:
    """Error of a request that has another outcome."""
    where = f"{outcome.where}.data.request_id".lstrip(".")
    other = "" if outcome.amount is None else "; a correction of kind reversal changes the amount"
    if other and amount is None and (outcome.response, outcome.cost) == (response, cost):
        other = NO_AMOUNT
    settled = f"request {outcome.request_id!r} is settled with response {response} and cost {cost}"
    return Conflict(f"{where}: {settled}{other}")


def given_back(outcome: ReportedOutcome, released_at: int) -> Conflict:
    """The caller returned the authorization: its money may belong to another request by now."""
    where = f"{outcome.where}.data.cost".lstrip(".")
    return Conflict(
        f"{where}: request {outcome.request_id!r} was given back at {time_of(released_at).isoformat()}; what was given "
        "back cannot be captured; an administrator may book it as a correction with override"
    )


def no_room(outcome: ReportedOutcome, needed: int, room: int, limit: str = "") -> Conflict:
    """Error of a cost after the authorization expired: nothing is reserved for it any more.

    ``limit`` names the further limit without room; empty: the main budget has none.
    """
    where = f"{outcome.where}.data.cost".lstrip(".")
    if limit:
        return Conflict(
            f"{where}: the authorization of request {outcome.request_id!r} is closed, and limit {limit!r} has no room "
            f"for {needed} minor units: {max(room, 0)} are left; raise that limit, or have an administrator book it as "
            "a correction with override"
        )
    return Conflict(
        f"{where}: the authorization of request {outcome.request_id!r} is closed, and the budget has no room for "
        f"{needed} minor units: {max(room, 0)} are left; set late_reserve aside for such captures, or have an "
        "administrator book it as a correction with override"
    )


def not_reported(outcome: ReportedOutcome) -> Conflict:
    """Error of a correction without an outcome."""
    where = f"{outcome.where}.data.request_id".lstrip(".")
    return Conflict(f"{where}: request {outcome.request_id!r} has no outcome; report its outcome first")


def raised(correction: Correction, response: float, cost: int) -> Conflict:
    """Error of a refund or clawback that raises a response or a cost."""
    outcome = correction.outcome
    where = f"{outcome.where}.data.kind".lstrip(".")
    return Conflict(
        f"{where}: request {outcome.request_id!r} stands at response {response} and cost {cost}; a {correction.kind} "
        "cannot raise either; a reversal can"
    )


def captured(request_id: str) -> Conflict:
    """Error of a release after the capture."""
    return Conflict(f"request_ids: request {request_id!r} is settled; what was paid cannot be given back")
