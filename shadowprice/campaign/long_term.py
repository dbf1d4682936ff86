"""Long-term value of a response: which late outcome it is, and the early ones that predict it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from shadowprice.curves import AMOUNT
from shadowprice.documents import parse_json
from shadowprice.errors import InvalidInput


@dataclass(frozen=True)
class LongTerm:
    """Windows of an outcome of customers.

    late   number ``x_…`` of the outcome table, minor units, such as ``x_value_90_days``; empty where its window is open
    early  ``amount`` and numbers ``x_…`` of the outcome table whose window ends with the label, such as ``x_visits``;
           the response itself is always among them

    >>> LongTerm("x_value_90", ("amount", "x_visits"))
    LongTerm(late='x_value_90', early=('amount', 'x_visits'))
    """

    late: str
    early: tuple[str, ...]

    def __post_init__(self) -> None:
        if not re.fullmatch(r"x_\w+", str(self.late)):
            raise InvalidInput(f"must be a number of the outcomes, x_…, got {self.late!r}", field="long_term.late")
        for name in self.early:
            if not re.fullmatch(rf"(x_\w+|{AMOUNT})", str(name)) or name == self.late:
                raise InvalidInput(
                    f"must be {AMOUNT} and numbers of the outcomes, x_…, but the late one, got {name!r}",
                    field="long_term.early",
                )
        if not self.early or len(set(self.early)) < len(self.early):
            raise InvalidInput("must name one early outcome or more, each once", field="long_term.early")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; :meth:`from_dict` is the inverse."""
        return asdict(self) | {"early": list(self.early)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LongTerm:
        """Read what :meth:`to_dict` gave, checking every field."""
        if set(data) != {"late", "early"} or not isinstance(data["early"], list):
            raise InvalidInput('must be {"late": …, "early": […]}', field="long_term")
        return cls(data["late"], tuple(data["early"]))

    @classmethod
    def parse(cls, text: str) -> LongTerm:
        """Read JSON; raises :class:`InvalidInput` as :meth:`from_dict` does."""
        try:
            return cls.from_dict(parse_json(text))
        except InvalidInput:
            raise
        except (ValueError, TypeError) as error:
            raise InvalidInput(f"is not a late outcome and early ones as JSON: {error}", field="long_term") from error
