"""Checks of arguments and rows that name the field at fault."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shadowprice.errors import InvalidInput


def require(holds: object, field: str, message: str) -> None:
    """Raise :class:`InvalidInput` with ``message`` unless ``holds``.

    >>> require(-1 >= 0, "alpha", "must not be negative")
    Traceback (most recent call last):
    shadowprice.errors.InvalidInput: alpha: must not be negative
    """
    if not holds:
        raise InvalidInput(message, field=field)


def require_one_of(value: Any, allowed: Iterable[Any], field: str) -> None:
    """Raise :class:`InvalidInput` that lists what is ``allowed`` unless ``value`` is among it."""
    choices = list(allowed)
    require(value in choices, field, f"must be one of {', '.join(map(str, choices))}, got {value!r}")


def refuse_rows(field: str, wrong: ArrayLike, message: str) -> None:
    """Raise :class:`InvalidInput` with the first five rows at which ``wrong`` (n,) is true, if there are any."""
    rows = np.flatnonzero(np.asarray(wrong))
    if rows.size:
        raise InvalidInput(message, field=field, rows=rows[:5].tolist())
