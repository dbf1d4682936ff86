"""Checks of the fields of a limit; each raises :class:`InvalidInput` that names its field."""

import re
from collections.abc import Mapping
from typing import Any

from shadowprice.errors import InvalidInput
from shadowprice.limits.sums import MOST_AMOUNT

MOST_CAMPAIGNS = 16
"""Campaigns that share one limit: each authorization reads the sum of every one of them."""

LIMIT_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"


def check_fields(data: Any, known: set[str], field: str) -> None:
    """Make sure that an object has no other fields than the known ones."""
    if not isinstance(data, Mapping):
        raise InvalidInput(f"must be an object with fields of {sorted(known)}", field=field)
    unknown = sorted(set(data) - known)
    if unknown:
        raise InvalidInput(f"has no field {unknown[0]!r}; it takes {sorted(known)}", field=field)


def check_name(name: object, field: str) -> None:
    """Make sure that a name can be a label."""
    if not isinstance(name, str) or not re.fullmatch(LIMIT_NAME, name):
        raise InvalidInput(
            f"must be at most 63 ASCII letters, digits, '-' or '_', the first a letter or digit, got {name!r}",
            field=field,
        )


def check_whole(given: object, least: int, field: str, noun: str) -> None:
    """Make sure that a whole number is between ``least`` and :data:`~shadowprice.limits.sums.MOST_AMOUNT`."""
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= MOST_AMOUNT:
        raise InvalidInput(
            f"must be a whole number of {noun} from {least} to {MOST_AMOUNT}, got {given!r}", field=field
        )


def check_choice(given: object, choices: tuple[str, ...], field: str) -> None:
    """Make sure that a value is one of the choices."""
    if given not in choices:
        raise InvalidInput(f"must be one of {choices}, got {given!r}", field=field)


def check_campaigns(given: Any, field: str) -> tuple[str, ...]:
    """Return the campaigns that share a limit, checked; none where one campaign has it alone."""
    named = not isinstance(given, str) and all(isinstance(name, str) and name for name in given)
    if not named or len(set(given)) != len(given) or len(given) == 1 or len(given) > MOST_CAMPAIGNS:
        raise InvalidInput(f"must be a list of 2 to {MOST_CAMPAIGNS} different campaigns, or left out", field=field)
    return tuple(given)


def check_text(given: object, field: str) -> None:
    """Make sure that a name, where one is given, is not empty."""
    if given is not None and (not isinstance(given, str) or not given):
        raise InvalidInput(f"must be a name, or left out, got {given!r}", field=field)
