"""Types of the fields of messages, and what every message is checked for."""

from typing import Annotated, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from serving.http.limits import (
    IDENTIFIER_RULE,
    MAX_BASIS_LENGTH,
    MAX_CONTEXT_LENGTH,
    MAX_ID_LENGTH,
    MAX_ITEMS,
    MAX_MINOR_UNITS,
    is_identifier,
)


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
Basis = Annotated[str, Field(max_length=MAX_BASIS_LENGTH)]
MinorUnits = Annotated[int, Field(ge=0, le=MAX_MINOR_UNITS)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Level = Annotated[int, Field(ge=0, le=10_000)]
Levels = Annotated[list[Level], Field(max_length=10_000, fail_fast=True)]
Responses = Annotated[list[Finite], Field(max_length=10_000, fail_fast=True)]
Propensity = Annotated[float, Field(gt=0, le=1)]
Propensities = Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(max_length=10_000, fail_fast=True)]
Seconds = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]
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
