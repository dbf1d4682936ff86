"""Outcomes as CloudEvents 1.0: structured, batched, or in binary mode."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal, TypeVar
from urllib.parse import unquote

import orjson
from pydantic import AwareDatetime, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from serving.http.limits import MAX_ITEMS
from serving.http.web import parse_json
from serving.ledger.api.fields import Identifier, Message, MinorUnits
from serving.ledger.api.messages import Unprocessable, parse, refusal
from serving.ledger.clock import microseconds
from shadowprice.errors import InvalidRequest

TYPE = "shadowprice.outcome.v1"
"""Event type of an outcome; the ledger does not insist on it."""
BINARY_MARK = "ce-specversion"


def _flag(value: object) -> object:
    """Accept 0 and 1, as tables write ``redeemed``."""
    return bool(value) if type(value) is int and value in (0, 1) else value


class OutcomeData(Message):
    """Outcome of a request.

    redeemed     whether the incentive was redeemed; required for customers
    response     measured response, such as a merchant's share ratio; ``redeemed`` when absent
    cost         minor units paid
    observed_at  when that was known, with its offset from UTC
    amount       minor units of what was bought, before the discount; only with a response
    currency     of cost and amount, where the caller states it; that of the campaign
    """

    request_id: Identifier
    redeemed: Annotated[bool | None, BeforeValidator(_flag)] = None
    response: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None
    cost: MinorUnits
    observed_at: AwareDatetime
    amount: MinorUnits | None = None
    currency: Identifier | None = None


class Envelope(Message):
    """A CloudEvent around an outcome; extension attributes are ignored, as the standard allows."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, json_schema_extra={})

    specversion: Literal["1.0"]
    id: Identifier
    source: Identifier
    type: Identifier
    data: OutcomeData


SEVERAL = Field(min_length=1, max_length=MAX_ITEMS, fail_fast=True)
EVENT = TypeAdapter(Envelope)
EVENTS: TypeAdapter[list[Envelope]] = TypeAdapter(Annotated[list[Envelope], SEVERAL])
Wrapped = TypeVar("Wrapped", bound=Envelope)


@dataclass(frozen=True)
class Event:
    """One outcome.

    where     its name in an error, such as ``[3]``
    response  units of response
    content   the data as JSON of one form: deliveries that agree in instant, response, cost and amount have the same
    amount    minor units of the response; None where they were not reported
    currency  that the caller states; None: it states none
    """

    where: str
    source: str
    event_id: str
    request_id: str
    redeemed: bool | None
    response: float
    cost: int
    observed_at: datetime
    content: str
    amount: int | None = None
    currency: str | None = None


def read_events(body: bytes, headers: Mapping[str, str]) -> list[Event]:
    """Return the events of a request to ``/v1/outcomes``; see :func:`read_envelopes`."""
    return [event_of(envelope, where) for envelope, where in read_envelopes(body, headers, EVENT, EVENTS)]


def read_envelopes(
    body: bytes, headers: Mapping[str, str], one: TypeAdapter[Wrapped], several: TypeAdapter[list[Wrapped]]
) -> list[tuple[Wrapped, str]]:
    """Return the envelopes of a request, each with its name in an error.

    Accepts one structured event, a JSON list of them, or binary mode (attributes in ``ce-``
    headers, data in the body).

    Raises:
        InvalidRequest: names the first field that is wrong, within a list with its index; or data are too deep.
    """
    if BINARY_MARK in headers:
        names = ("specversion", "id", "source", "type")
        # The HTTP binding of CloudEvents writes what is not plain ASCII in percent encoding.
        attributes = {name: unquote(headers[f"ce-{name}"]) for name in names if f"ce-{name}" in headers}
        try:
            return [(one.validate_json(orjson.dumps({**attributes, "data": parse_json(body)})), "")]
        except orjson.JSONEncodeError:
            # It reads deeper values than it writes.
            raise InvalidRequest("is nested too deeply", field="data") from None
        except ValidationError as error:
            raise refusal(error) from None
    if body.lstrip()[:1] == b"[":
        envelopes: list[Wrapped] = parse(several, body)
        return [(envelope, f"[{index}]") for index, envelope in enumerate(envelopes)]
    return [(parse(one, body), "")]


def event_of(envelope: Envelope, where: str) -> Event:
    """The outcome in an envelope.

    Raises:
        Unprocessable: it has neither ``redeemed`` nor ``response``.
    """
    data = envelope.data
    if data.redeemed is None and data.response is None:
        raise Unprocessable("needs redeemed or response", field=f"{where}.data.redeemed".lstrip("."))
    # A sum with 0.0 has no negative zero, which is another text.
    response = 0.0 + (float(bool(data.redeemed)) if data.response is None else data.response)
    facts = data.model_dump(exclude={"redeemed", "currency"} | ({"amount"} if data.amount is None else set()))
    facts |= {"response": response, "observed_at": microseconds(data.observed_at)}
    return Event(
        where=where,
        source=envelope.source,
        event_id=envelope.id,
        request_id=data.request_id,
        redeemed=data.redeemed,
        response=response,
        cost=data.cost,
        observed_at=data.observed_at,
        content=orjson.dumps(facts).decode(),
        amount=data.amount,
        currency=data.currency,
    )
