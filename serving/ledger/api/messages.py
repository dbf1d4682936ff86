"""Messages of the predictor to be authorized, checked field by field."""

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from serving.http.limits import MAX_ITEMS
from serving.http.web import check_structure
from serving.ledger.api.fields import UNKNOWN, Column, Columns, Finite, Identifier, Message, Version
from serving.ledger.api.items import Items
from serving.ledger.moves import Move, Step
from shadowprice.campaign import Side
from shadowprice.errors import InvalidRequest
from shadowprice.limits import MOST_AMOUNT


class KnownItems(Columns):
    """n requests that the caller would decide without an authorization; only their earlier decisions are read.

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


Price = Annotated[tuple[Finite, Finite, Finite], Field(description="value of the last minor unit, and its interval")]


class MoveStep(Message):
    """Step of a move of budget between two campaigns, for the ledger of ``campaign`` (:mod:`serving.ledger.moves`).

    end  of ``finish``: what the receiver answered
    """

    campaign: Identifier
    step: Step
    id: Annotated[str, Field(min_length=1, max_length=400)]
    source: Identifier
    target: Identifier
    amount: Annotated[int, Field(ge=1, le=MOST_AMOUNT)]
    planned_at: Annotated[int, Field(ge=0, le=10**11)]
    source_price: Price
    target_price: Price
    reason: Annotated[str, Field(max_length=1000)]
    undoes: Annotated[str, Field(max_length=400)] = ""
    end: Literal["taken", "returned"] | None = None

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if (self.step == "finish") != (self.end is not None):
            raise ValueError("end belongs to finish, and to nothing else")
        return self

    @property
    def move(self) -> Move:
        """The move, without the step."""
        return Move(*(getattr(self, name) for name in Move._fields))


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
    """The body can be read, and its content is impossible."""

    status = 422


def _path(location: tuple[Any, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")
