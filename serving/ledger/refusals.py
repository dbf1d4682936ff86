"""What a store refuses, said the same way by each."""

from __future__ import annotations

from serving.ledger.store import Decision, Outcome
from shadowprice.errors import Conflict


def other_owner(wanted: Decision, index: int) -> Conflict:
    """A request id stands for one account and side for ever."""
    return Conflict(
        f"items.request_id[{index}]: {wanted.request_id!r} was decided before for another account "
        "or side; every request needs an identifier of its own"
    )


def other_content(outcome: Outcome) -> Conflict:
    """The same event arrived with another content."""
    where = f"{outcome.where}.id".lstrip(".")
    return Conflict(f"{where}: event {outcome.event_id!r} was received before with another content")


def other_outcome(outcome: Outcome, response: float, cost: int) -> Conflict:
    """The request was settled otherwise."""
    where = f"{outcome.where}.data.request_id".lstrip(".")
    return Conflict(f"{where}: request {outcome.request_id!r} is settled with response {response} and cost {cost}")


def captured(request_id: str) -> Conflict:
    """What is captured cannot be given back."""
    return Conflict(f"request_ids: request {request_id!r} is settled; what was paid cannot be given back")
