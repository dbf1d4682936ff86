"""Checks of the numbers of a campaign."""

from typing import Any

import numpy as np

from shadowprice.errors import InvalidInput
from shadowprice.limits import MOST_AMOUNT


def number(text: str) -> float:
    """Return a number of JSON, as an int where it is whole."""
    value = float(text)
    return int(value) if value.is_integer() else value


def real(given: Any, field: str) -> float:
    """Return a number, or raise :class:`InvalidInput` about the field."""
    try:
        return float(given)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"must be a number: {error}", field=field) from error


def check_whole(given: object, least: int, noun: str, field: str, most: int = MOST_AMOUNT) -> None:
    """Raise :class:`InvalidInput` unless ``given`` is an int from ``least`` to ``most``."""
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        bound = f"at least {least}" if least else "not negative"
        raise InvalidInput(f"must be a whole number of {noun}, {bound}, got {given!r}", field=field)
    if given > most:
        raise InvalidInput(f"must be at most {most} {noun}", field=field)


def check_positive(given: float, field: str) -> None:
    """Raise :class:`InvalidInput` unless ``given`` is positive and finite."""
    if not (np.isfinite(given) and given > 0):
        raise InvalidInput("must be a positive number", field=field)
