"""Checks of the keys and values of a mapping, with messages that name their place."""

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from shadowprice.errors import InvalidInput

Unit = Literal["major", "minor"]

SHOWN_CHARACTERS = 60
"""Most characters of a value in a message: a file that is no mapping may be one value."""

COLUMN_KEYS = ("column", "constant", "expression", "row", "values", "format", "timezone", "plus_days", "unit")


class Kinds:
    """Values of a kind, or :class:`InvalidInput` with the place of the value."""

    @staticmethod
    def mapping(value: Any, place: str) -> dict[str, Any]:
        """A mapping; nothing is an empty one."""
        if value in (None, ""):
            return {}
        if not isinstance(value, dict):
            raise InvalidInput(f"must be keys with values, got {_shown(value)}", field=place)
        return dict(value)

    @classmethod
    def texts(cls, value: Any, place: str) -> dict[str, str]:
        """A mapping to text."""
        return {key: cls.text(item, f"{place}.{key}") for key, item in cls.mapping(value, place).items()}

    @staticmethod
    def text(value: Any, place: str) -> str:
        """A single value."""
        if not isinstance(value, str):
            raise InvalidInput(f"must be a single value, got {_shown(value)}", field=place)
        return value

    @classmethod
    def listed(cls, value: Any, place: str) -> list[str]:
        """A list of values; a single one is a list of one."""
        return [cls.text(item, place) for item in (value if isinstance(value, list) else [value])]

    @staticmethod
    def number(value: str, place: str) -> float:
        """A number."""
        try:
            amount = float(value)
        except ValueError:
            amount = math.nan
        if not math.isfinite(amount):
            raise InvalidInput(f"must be a number, got {_shown(value)}", field=place)
        return amount

    @classmethod
    def whole(cls, value: Any, place: str) -> int:
        """A whole number that is not negative."""
        text = cls.text(value, place)
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise InvalidInput(f"must be a whole number, got {_shown(value)}", field=place)
        return int(text)

    @staticmethod
    def choice(value: Any, choices: Sequence[str], place: str) -> str:
        """One of some values."""
        if value not in choices:
            raise InvalidInput(f"must be one of {', '.join(choices)}; got {_shown(value)}", field=place)
        return str(value)


def reject_unknown(given: Mapping[str, Any], known: Iterable[str], place: str) -> None:
    """Raise :class:`InvalidInput` where a key is not known; the message names the nearest one."""
    names = list(known)
    for key in given:
        if key not in names:
            near = difflib.get_close_matches(str(key), names, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
            raise InvalidInput(f"there is no such key; {hint}", field=f"{place}: {str(key)[:SHOWN_CHARACTERS]}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
