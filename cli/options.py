"""Values of options that hold a name."""

import math
from collections.abc import Iterable

import typer


def pairs(given: Iterable[str], option: str) -> dict[str, str]:
    """Return NAME=VALUE texts as a mapping; a name may have the sign too, as a condition has.

    >>> pairs(["customer=20,60"], "levels")
    {'customer': '20,60'}

    Raises:
        typer.BadParameter: a text has no name or no value.
    """
    assigned: dict[str, str] = {}
    for text in given:
        name, _, value = text.rpartition("=")
        if not name or not value:
            raise typer.BadParameter(f"{text!r}: write NAME=VALUE", param_hint=f"--{option}")
        assigned[name] = value
    return assigned


def number(text: str, option: str) -> float:
    """Return a finite number.

    >>> number("0.14", "context")
    0.14

    Raises:
        typer.BadParameter: it is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise typer.BadParameter(f"{text!r}: write a number, such as 0.14", param_hint=f"--{option}")
    return value


def numbers(text: str, option: str) -> list[int | float]:
    """Return numbers that commas divide; those without a point are whole.

    >>> numbers("0,0.14,20", "levels")
    [0, 0.14, 20]

    Raises:
        typer.BadParameter: one of them is no number.
    """
    try:
        return [int(part) if part.strip().isdigit() else float(part) for part in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: write numbers, such as 0.10,0.14", param_hint=f"--{option}") from error
