"""What the predictor sends to be authorised, checked field by field."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from serving.limits import IDENTIFIER_RULE, MAX_ITEMS, MAX_MINOR_UNITS, is_identifier
from serving.protocol import REASONS
from shadowprice.campaign import Side
from shadowprice.errors import InvalidRequest


def _check_identifier(value: str) -> str:
    if not is_identifier(value):
        raise ValueError(IDENTIFIER_RULE)
    return value


def _check_reason(value: str) -> str:
    if value not in REASONS:
        raise ValueError(f"must be one of {list(REASONS)}")
    return value


Identifier = Annotated[str, AfterValidator(_check_identifier)]
MinorUnits = Annotated[int, Field(ge=0, le=MAX_MINOR_UNITS)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1)]


class Message(BaseModel):
    """Base of everything received: nothing is converted, nothing unknown is accepted."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, protected_namespaces=())


class Item(Message):
    """A decision to authorise.

    incentive        minor units at that level
    response         expected response, and expected_cost the money it is expected to cost
    response_unpaid  expected response if the money is refused
    propensities     probability of each level of the side, for the log; not kept where absent
    features_at      when the features were computed, seconds since 1970 (UTC); absent where there were none
    """

    request_id: Identifier
    account_id: Identifier
    side: Side
    level: Annotated[int, Field(ge=0, le=10_000)]
    incentive: MinorUnits
    response: Finite
    expected_cost: Finite
    propensity: Annotated[float, Field(gt=0, le=1)]
    reason: Annotated[str, AfterValidator(_check_reason)]
    response_unpaid: Finite = 0.0
    propensities: Annotated[list[Probability], Field(max_length=10_000)] | None = None
    features_at: Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)] | None = None


class Authorizations(Message):
    """Decisions of one call, authorised all or none."""

    campaign: Identifier
    model_version: Identifier
    price_version: Annotated[int, Field(ge=1, le=2**53)]
    items: Annotated[list[Item], Field(min_length=1, max_length=MAX_ITEMS)]


class Releases(Message):
    """Promises that were not made use of, given back all or none."""

    campaign: Identifier
    request_ids: Annotated[list[Identifier], Field(min_length=1, max_length=MAX_ITEMS)]


Parsed = TypeVar("Parsed")


def parse(adapter: TypeAdapter[Parsed], body: bytes) -> Parsed:
    """A message from JSON.

    Raises:
        InvalidRequest: names the first field that is wrong; the message counts the others.
    """
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        raise refusal(error) from None


def refusal(error: ValidationError) -> InvalidRequest:
    """What pydantic found, as an error of ours; nothing the caller sent is repeated but names of fields."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    first = problems[0]
    others = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
    return Unprocessable(f"{first['msg']}{others}", field=_path(first["loc"]) or "body")


class Unprocessable(InvalidRequest):
    """The body is JSON or nearly so, and says something that cannot be."""

    status = 422


def _path(location: tuple[Any, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")
