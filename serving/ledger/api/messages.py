"""Messages of the predictor to be authorized, checked field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

from serving.http.limits import (
    IDENTIFIER_RULE,
    MAX_CONTEXT_LENGTH,
    MAX_ID_LENGTH,
    MAX_ITEMS,
    MAX_MINOR_UNITS,
    is_identifier,
)
from serving.http.web import check_structure
from serving.protocol import RecordedReason
from shadowprice.campaign import Side
from shadowprice.errors import InvalidRequest
from shadowprice.pacing.decision_log import records


def _check_identifier(value: str) -> str:
    if not is_identifier(value):
        raise ValueError(IDENTIFIER_RULE)
    return value


def _check_partner(value: str) -> str:
    return value if value == "" else _check_identifier(value)


# The limits of the description are checked by the validator, whose words are for people.
Identifier = Annotated[
    str,
    AfterValidator(_check_identifier),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_ID_LENGTH}),
]
Partner = Annotated[str, AfterValidator(_check_partner), WithJsonSchema({"type": "string", "maxLength": MAX_ID_LENGTH})]
Context = Annotated[str, Field(max_length=MAX_CONTEXT_LENGTH)]
MinorUnits = Annotated[int, Field(ge=0, le=MAX_MINOR_UNITS)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1)]
Value = TypeVar("Value")
UNKNOWN = "unknown_field"
MAX_NAME = 64
"""Characters of an unknown field's name that are repeated to the caller."""
# A list stops at its first wrong value: collecting a million errors takes a gigabyte.
Column = Annotated[list[Value], Field(min_length=1, max_length=MAX_ITEMS, fail_fast=True)]


Version = Annotated[int, Field(ge=1, le=2**53)]


class Message(BaseModel):
    """Base of everything received: nothing is converted, nothing unknown is accepted.

    The number of errors in a message is bounded, whatever it holds.
    """

    # ``extra="forbid"`` would collect an error for each unknown field.
    model_config = ConfigDict(
        strict=True,
        extra="allow",
        frozen=True,
        protected_namespaces=(),
        json_schema_extra={"additionalProperties": False},
    )

    @model_validator(mode="after")
    def _nothing_unknown(self) -> Self:
        if self.__pydantic_extra__:
            name = next(iter(self.__pydantic_extra__))[:MAX_NAME]
            raise PydanticCustomError(UNKNOWN, "Extra inputs are not permitted", {"name": name})
        return self


class Columns(Message):
    """Base of rows sent as columns: lists of one length, so that a call of a hundred is few objects."""

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        sizes = {name: len(column) for name, column in vars(self).items() if column is not None}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"must all have one length, got {sizes}")
        return self


_TYPES: dict[type, Any] = {str: Identifier, int: MinorUnits, float: Finite}
_SENT: dict[str, Any] = {
    "side": Side,
    "level": Annotated[int, Field(ge=0, le=10_000)],
    "propensity": Annotated[float, Field(gt=0, le=1)],
    "propensities": Annotated[list[Probability], Field(max_length=10_000, fail_fast=True)],
    "reason": RecordedReason,
    "partner_id": Partner,
    "context": Context,
    "groups": Context,
    "features_at": Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)],
}
"""Fields of a decision whose values are checked for more than the limits of their type."""


def _sent(column: records.Column) -> Any:
    value: Any = _SENT.get(column.name) or _TYPES[column.type]
    list_of: Any = Column
    if column.optional:
        value = value | None
    if column.optional or column.earlier is not records.REQUIRED:
        return list_of[value] | None, None
    return list_of[value], ...


def items_model(record: type) -> Any:
    """Return the message of n decisions to authorize, as columns, for the fields of a record class."""
    sent = {column.name: _sent(column) for column in records.columns(record) if column.field.sent}
    return create_model(
        "Items",
        __base__=Columns,
        __doc__="""n decisions to authorize, as columns.

incentive        unit cost of that level, minor units
response         expected response, and expected_cost the money it is expected to cost
response_unpaid  expected response if the money is refused; 0 where absent
unpaid_allowed   whether each request may be given the level of no incentive if the money is refused; true where absent
propensities     probability of each level of the side; a nearly exhausted budget adds up those that do not fit
partner_id       partner of each request; empty where it has none
context          context values of each request as a JSON object; empty where it has none
groups           names of the budgets with a condition that count each request, joined by commas
model_version, price_version   those that each was decided with; those of the message where absent
features_at      when the features were computed, seconds since 1970 (UTC); null where there were none""",
        **sent,
        response_unpaid=(Column[Finite] | None, None),
        unpaid_allowed=(Column[bool] | None, None),
        model_version=(Column[Identifier] | None, None),
        price_version=(Column[Version] | None, None),
    )


if TYPE_CHECKING:

    class Items(Columns):
        """Columns of the fields of a decision; the type checker cannot list them."""

        def __init__(self, **columns: object) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

else:
    Items = items_model(records.Decision)


class KnownItems(Columns):
    """n requests that the caller would decide without an authorization; their earlier decisions are looked up.

    call  the call each belongs to, from 0 on
    """

    request_id: Column[Identifier]
    account_id: Column[Identifier]
    side: Column[Side]
    call: Column[Annotated[int, Field(ge=0, lt=MAX_ITEMS)]]


class Authorizations(Message):
    """Decisions of several calls, each authorized all or none; at least one item or known request.

    sizes  items of each call, in order; all are one call where absent
    known  requests of the same calls that nothing is recorded for
    """

    campaign: Identifier
    model_version: Identifier
    price_version: Version
    items: Items | None = None
    sizes: Column[Annotated[int, Field(ge=0, le=MAX_ITEMS)]] | None = None
    known: KnownItems | None = None

    @property
    def call_sizes(self) -> list[int]:
        """Items of each call."""
        return [0 if self.items is None else len(self.items.request_id)] if self.sizes is None else self.sizes

    @model_validator(mode="after")
    def _calls_match(self) -> Self:
        if self.items is None and self.known is None:
            raise ValueError("must have items or known requests")
        count = 0 if self.items is None else len(self.items.request_id)
        if sum(self.call_sizes) != count:
            raise ValueError(f"sizes must sum to the {count} items")
        if self.known is not None and max(self.known.call) >= len(self.call_sizes):
            raise ValueError(f"known.call must be below the {len(self.call_sizes)} calls")
        return self


class Releases(Message):
    """Unused authorizations, given back all or none."""

    campaign: Identifier
    request_ids: Column[Identifier]


Parsed = TypeVar("Parsed")


def parse(adapter: TypeAdapter[Parsed], body: bytes) -> Parsed:
    """A message from JSON.

    Raises:
        InvalidRequest: names the first field that is wrong; the message counts the others.
    """
    check_structure(body)
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        raise refusal(error) from None


def refusal(error: ValidationError) -> InvalidRequest:
    """Return the findings of pydantic as an error of ours; it repeats only names of fields."""
    problems = error.errors(include_url=False, include_input=False)
    first = problems[0]
    others = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
    location = (*first["loc"], first["ctx"]["name"]) if first["type"] == UNKNOWN else first["loc"]
    return Unprocessable(f"{first['msg']}{others}", field=_path(location) or "body")


class Unprocessable(InvalidRequest):
    """The body is JSON or nearly so, and says something that cannot be."""

    status = 422


def _path(location: tuple[Any, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")
