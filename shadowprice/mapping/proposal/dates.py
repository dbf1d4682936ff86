"""Forms of times that are no ISO 8601."""

import re
from collections.abc import Collection
from decimal import Decimal
from functools import cache
from itertools import product

from shadowprice.mapping.moments import EXCEL, SINCE

DATES = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%Y.%m.%d"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d %Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%y-%m-%d", "%y/%m/%d", "%d-%b-%y", "%d %b %y"),
)
CLOCKS = (" %H:%M:%S", " %H:%M", "", " %I:%M:%S %p", " %I:%M %p", "T%H:%M:%S", "T%H:%M")
FORMATS = tuple(date + clock for date, clock in product(DATES, CLOCKS))
"""Formats of a time, as for strptime; those that name the century first."""
_FIRST, _LAST = 946_684_800_000_000, 4_102_444_800_000_000
_NAMES = re.compile(
    r"date|datum|time|zeit|epoch|hora|fecha|heure|(?:^|[_ ])(?:at|ts|on)$|sent|shown|created", re.IGNORECASE
)
_PARTS = {
    **dict.fromkeys(("%d", "%m", "%H", "%I", "%M", "%S"), r"[0-9]{1,2}"),
    "%y": r"[0-9]{2}",
    "%Y": r"[0-9]{4}",
    "%p": r"(?:[AaPp][Mm])",
    "%b": r"[A-Za-z]{3}",
    "%B": r"[A-Za-z]{3,9}",
}


def formats_of(cells: Collection[str]) -> list[str]:
    """Return the formats whose form every cell has; the times themselves are not checked."""
    left = list(FORMATS)
    for cell in cells:
        left = [pattern for pattern in left if _pattern(pattern).fullmatch(cell)]
        if not left:
            break
    return left


def number_format(name: str, numbers: Collection[Decimal]) -> str:
    """Return the format of numbers that are times of 2000 to 2100 in a column named after a time; empty for others."""
    least, most = min(numbers), max(numbers)
    for format, unit in SINCE.items():
        if least * unit > _FIRST and most * unit < _LAST and _NAMES.search(name):
            return format
    day = 86_400_000_000
    first, last = (at // day + 25_569 for at in (_FIRST, _LAST))
    return EXCEL if first < least and most < last and _NAMES.search(name) else ""


@cache
def _pattern(format: str) -> re.Pattern[str]:
    return re.compile("".join(_PARTS.get(part) or re.escape(part) for part in re.findall(r"%.|[^%]", format)))
