"""Check the outcomes of a call against their authorizations."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from serving.ledger.api.events import Event
from serving.ledger.api.messages import Unprocessable
from serving.ledger.clock import microseconds
from serving.ledger.records import ReportedOutcome
from shadowprice.campaign import Campaign
from shadowprice.errors import NotFound
from shadowprice.pacing.decision_log.records import Decision

TOLERANCE = timedelta(minutes=5) // timedelta(microseconds=1)
"""Microseconds that the clock of a caller may differ from the ledger's before its outcomes are flagged as misdated."""


def outcomes(
    campaign: Campaign, events: Sequence[Event], decided: Mapping[str, Decision], now: datetime, caller: str
) -> list[ReportedOutcome]:
    """Return the events as outcomes of their decisions; ``caller`` is the name of the admitted token.

    A decision never changes, so it may be read before the outcome is booked. An impossible date is the fault of a
    clock, so the outcome is booked and flagged.

    Raises:
        NotFound: a request that was never decided here; the message names it.
        Unprocessable: an impossible outcome, such as a cost above the authorized amount.
    """
    made = []
    latest = microseconds(now) + TOLERANCE
    for event in events:
        decision = decided.get(event.request_id)
        if decision is None:
            raise NotFound(f"{_field(event, 'request_id')}: request {event.request_id!r} was never decided")
        _check(campaign, decision, event)
        observed_at = microseconds(event.observed_at)
        made.append(
            ReportedOutcome(
                where=event.where,
                source=event.source,
                event_id=event.event_id,
                request_id=event.request_id,
                side=decision.side,
                response=event.response,
                cost=event.cost,
                observed_at=observed_at,
                content=event.content,
                misdated=not decision.decided_at - TOLERANCE <= observed_at <= latest,
                caller=caller,
                amount=event.amount,
            )
        )
    return made


def _check(campaign: Campaign, decision: Decision, event: Event) -> None:
    side, incentive = decision.side, decision.incentive
    if side == "customer":
        if event.redeemed is None:
            raise Unprocessable("is required for a customer", field=_field(event, "redeemed"))
        if event.response != float(event.redeemed):
            raise Unprocessable("of a customer must equal redeemed", field=_field(event, "response"))
        if not event.redeemed and event.cost and campaign.terms(side).cost_basis == "on_response":
            raise Unprocessable("must be 0 where nothing was redeemed", field=_field(event, "cost"))
    if event.amount and not event.response:
        raise Unprocessable("must be 0 or left out where there is no response", field=_field(event, "amount"))
    if event.currency not in (None, campaign.currency):
        raise Unprocessable(f"must be {campaign.currency}, that of the campaign", field=_field(event, "currency"))
    most = campaign.terms(side).most_response
    if event.response > most:
        raise Unprocessable(
            f"is above most_response = {most:g} of the campaign's terms; raise it there if the response is right",
            field=_field(event, "response"),
        )
    # A merchant paid on response is paid per unit of it. Its authorization fixed the most units, so
    # terms that changed since then do not raise the cost.
    per_unit = side == "merchant" and campaign.terms(side).cost_basis == "on_response"
    units = min(event.response, decision.most_units) if per_unit else 1.0
    if event.cost > math.ceil(incentive * units):
        of = f" for each of {event.response:g} units" if per_unit else ""
        if per_unit and event.response > decision.most_units:
            of += f", of which most_units = {decision.most_units} are paid by the campaign's terms,"
        raise Unprocessable(
            f"is above the {incentive} minor units{of} that were authorized", field=_field(event, "cost")
        )


def _field(event: Event, name: str) -> str:
    return f"{event.where}.data.{name}".lstrip(".")
