"""Corrections of outcomes: CloudEvents with the values of an outcome after the correction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import TypeAdapter

from serving.ledger.api.events import SEVERAL, Envelope, Event, OutcomeData, event_of, read_envelopes
from serving.ledger.api.messages import Unprocessable
from serving.ledger.api.settle import TOLERANCE, outcomes
from serving.ledger.clock import time_of
from serving.ledger.records import Correction
from shadowprice.campaign import Campaign
from shadowprice.pacing.decision_log.records import CorrectionKind, Decision

CORRECTION_TYPE = "shadowprice.correction.v1"
"""Event type of a correction; the ledger does not insist on it."""


class CorrectionData(OutcomeData):
    """The outcome of a request after the correction: absolute values, no differences.

    kind      ``reversal``, ``refund`` or ``clawback``
    override  record it also without an earlier outcome and beyond the budget; for administrators
    """

    kind: CorrectionKind
    override: bool = False


class CorrectionEnvelope(Envelope):
    """A CloudEvent around a correction; extension attributes are ignored, as the standard allows."""

    data: CorrectionData


EVENT = TypeAdapter(CorrectionEnvelope)
EVENTS: TypeAdapter[list[CorrectionEnvelope]] = TypeAdapter(Annotated[list[CorrectionEnvelope], SEVERAL])


@dataclass(frozen=True)
class CorrectionEvent:
    """One correction: the corrected outcome, and why."""

    event: Event
    kind: CorrectionKind
    override: bool


def read_corrections(body: bytes, headers: Mapping[str, str]) -> list[CorrectionEvent]:
    """Return the events of a request to ``/v1/corrections``; see :func:`serving.ledger.api.events.read_envelopes`."""
    return [
        CorrectionEvent(event_of(envelope, where), envelope.data.kind, envelope.data.override)
        for envelope, where in read_envelopes(body, headers, EVENT, EVENTS)
    ]


def needs_administrator(events: Sequence[CorrectionEvent]) -> bool:
    """Return whether any of the corrections may exceed the limit of the budget."""
    return any(event.override for event in events)


def corrections(
    campaign: Campaign, events: Sequence[CorrectionEvent], decided: Mapping[str, Decision], now: datetime, caller: str
) -> list[Correction]:
    """Return the events as corrections, held to the rules of :func:`serving.ledger.api.settle.outcomes`.

    Raises:
        Unprocessable: one dated before its decision, but an override: it is likely to be about another request.
    """
    corrected = outcomes(campaign, [event.event for event in events], decided, now, caller)
    for outcome, event in zip(corrected, events, strict=True):
        decided_at = decided[outcome.request_id].decided_at
        if outcome.observed_at < decided_at - TOLERANCE and not event.override:
            raise Unprocessable(
                f"is before the decision of request {outcome.request_id!r} at {time_of(decided_at):%Y-%m-%dT%H:%M:%SZ};"
                " send the date of the correction, or let an administrator book it with override",
                field=f"{outcome.where}.data.observed_at".lstrip("."),
            )
    return [Correction(outcome, event.kind, event.override) for outcome, event in zip(corrected, events, strict=True)]
