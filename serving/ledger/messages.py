"""What the predictor sends to be authorised, checked field by field."""

from __future__ import annotations

from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from serving.limits import IDENTIFIER_RULE, MAX_ID_LENGTH, MAX_ITEMS, MAX_MINOR_UNITS, is_identifier
from serving.protocol import Reason
from shadowprice.campaign import Side
from shadowprice.errors import InvalidRequest


def _check_identifier(value: str) -> str:
    if not is_identifier(value):
        raise ValueError(IDENTIFIER_RULE)
    return value


# The limits of the description are checked by the validator, whose words are for people.
Identifier = Annotated[
    str,
    AfterValidator(_check_identifier),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_ID_LENGTH}),
]
MinorUnits = Annotated[int, Field(ge=0, le=MAX_MINOR_UNITS)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1)]
Value = TypeVar("Value")
Column = Annotated[list[Value], Field(min_length=1, max_length=MAX_ITEMS)]


class Message(BaseModel):
    """Base of everything received: nothing is converted, nothing unknown is accepted."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, protected_namespaces=())


class Items(Message):
    """n decisions to authorise, as columns: lists of one length, so that a call of a hundred is few objects.

    incentive        minor units at that level
    response         expected response, and expected_cost the money it is expected to cost
    response_unpaid  expected response if the money is refused; 0 where absent
    propensities     probability of each level of the side; a nearly exhausted budget adds up those that do not fit
    features_at      when the features were computed, seconds since 1970 (UTC); null where there were none
    """

    request_id: Column[Identifier]
    account_id: Column[Identifier]
    side: Column[Side]
    level: Column[Annotated[int, Field(ge=0, le=10_000)]]
    incentive: Column[MinorUnits]
    response: Column[Finite]
    expected_cost: Column[Finite]
    propensity: Column[Annotated[float, Field(gt=0, le=1)]]
    reason: Column[Reason]
    propensities: Column[Annotated[list[Probability], Field(max_length=10_000)]]
    response_unpaid: Column[Finite] | None = None
    features_at: Column[Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)] | None] | None = None

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        sizes = {name: len(column) for name, column in vars(self).items() if column is not None}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"must all have one length, got {sizes}")
        return self


class Authorizations(Message):
    """Decisions of one call, authorised all or none."""

    campaign: Identifier
    model_version: Identifier
    price_version: Annotated[int, Field(ge=1, le=2**53)]
    items: Items


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
