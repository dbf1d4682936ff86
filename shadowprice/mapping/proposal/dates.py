"""Forms of times that are no ISO 8601."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from itertools import product

DATES = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%Y.%m.%d"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%y-%m-%d", "%y/%m/%d"),
)
CLOCKS = (" %H:%M:%S", " %H:%M", "", " %I:%M:%S %p", " %I:%M %p", "T%H:%M:%S", "T%H:%M")
FORMATS = tuple(date + clock for date, clock in product(DATES, CLOCKS))
"""Formats of a time, as for strptime; those that name the century first."""
_PARTS = {
    **dict.fromkeys(("%d", "%m", "%H", "%I", "%M", "%S"), r"[0-9]{1,2}"),
    "%y": r"[0-9]{2}",
    "%Y": r"[0-9]{4}",
    "%p": r"(?:[AaPp][Mm])",
}


def formats_of(cells: Collection[str]) -> list[str]:
    """Return the formats that every cell has the form of; whether it is a time of them is not looked at."""
    left = list(FORMATS)
    for cell in cells:
        left = [each for each in left if _pattern(each).fullmatch(cell)]
        if not left:
            break
    return left


@cache
def _pattern(format: str) -> re.Pattern[str]:
    return re.compile("".join(_PARTS.get(part) or re.escape(part) for part in re.findall(r"%.|[^%]", format)))
