"""Checks of the keys and values of a mapping, with messages that name their place."""

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from shadowprice.currency import check_code
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


def currency_code(given: Any) -> str:
    """Return a code of ISO 4217, or the word for numbers of offers, or raise :class:`InvalidInput`."""
    return check_code(Kinds.text(given, "currency"), "currency")


def time_zone(given: Any, place: str) -> str:
    """Return the name of a time zone, which may be empty, or raise :class:`InvalidInput`."""
    zone = Kinds.text(given, place)
    try:
        if zone:
            ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidInput(f"must be a time zone such as Europe/Berlin; got {zone!r}", field=place) from error
    return zone


def split_options(given: Mapping[str, Any], zone: str, vouchers: bool) -> dict[str, Any]:
    """Return the options of the split, or raise :class:`InvalidInput` that names their place."""
    entry: dict[str, Any] = Kinds.texts(given.get("split"), "split")
    reject_unknown(
        entry, ("test_from", "label_delay_days", *(() if vouchers else ("validation_from", "purge"))), "split"
    )
    for key in ("validation_from", "test_from"):
        if key in entry:
            try:
                at = datetime.fromisoformat(entry[key])
            except ValueError as error:
                reason = f"must be a time such as 2026-05-01; got {entry[key]!r}"
                raise InvalidInput(reason, field=f"split.{key}") from error
            entry[key] = at if at.tzinfo or not zone else at.replace(tzinfo=ZoneInfo(zone))
    if "label_delay_days" in entry:
        entry["label_delay_days"] = Kinds.number(entry["label_delay_days"], "split.label_delay_days")
    if "purge" in entry:
        entry["purge"] = Kinds.choice(entry["purge"], ("true", "false"), "split.purge") == "true"
    return entry


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
