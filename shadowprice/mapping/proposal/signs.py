"""Signs in the numbers of a file: which one stands before decimals, and which one groups thousands."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from shadowprice.mapping.amounts import SIGNS, SPACE_SIGNS

CONVENTIONS = ((".", ""), (",", ""), (".", ","), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "'"))
"""Sign before decimals and sign of thousands, the plainest first."""
_NAMED = sorted({sign for signs in SIGNS.values() for sign in signs} | {"€", "£", "CN¥"}, key=len, reverse=True)
_CODE = rf"^[+-]?[A-Z]{{3}}(?=[{SPACE_SIGNS}\d])|(?<=[{SPACE_SIGNS}\d])[A-Z]{{3}}$"
_SPACES = dict.fromkeys(map(ord, SPACE_SIGNS))
_MONEY = re.compile(f"{_CODE}|{'|'.join(map(re.escape, _NAMED))}")


@dataclass(frozen=True)
class Signs:
    """Signs of the numbers of a file.

    doubt  a cell that other signs make another number; empty where there is none
    """

    decimal: str = "."
    thousands: str = ""
    doubt: str = ""

    def number(self, cell: str) -> Decimal | None:
        """Return the number that a cell holds; None where it holds none."""
        plain = _plain(bare(cell), self.decimal, self.thousands)
        return None if plain is None else Decimal(plain)


def bare(cell: str) -> str:
    """Return an amount without the sign or the code of a currency."""
    if cell[:1].isdigit() and cell[-1:].isdigit():
        return cell
    return _MONEY.sub("", cell, count=1).strip(SPACE_SIGNS)


def currency_in(cells: Collection[str]) -> str:
    """Return the sign or the code of a currency that stands in a cell; empty where there is none."""
    matches = (_MONEY.search(cell) for cell in cells if not (cell[:1].isdigit() and cell[-1:].isdigit()))
    return next((match.group() for match in matches if match), "")


def find_signs(columns: Sequence[Collection[str]], delimiter: str) -> Signs:
    """Return the signs by which most columns hold numbers.

    Where several signs fit and make different numbers, as in 1,200, the sign groups thousands if numbers below 1,000
    have none and all from 1,000 on have one. Otherwise a point stands before decimals, and so does a comma in a file
    of semicolons.

    Args:
        columns: distinct cells of each column.
        delimiter: of the file.
    """
    read = [
        (cells, readings) for column in columns if (readings := _readings(cells := [bare(cell) for cell in column]))
    ]
    # Numbers without a sign are the same by all conventions.
    telling = [(cells, readings) for cells, readings in read if any(not cell.lstrip("+-").isdigit() for cell in cells)]
    if not telling:
        return Signs()
    fitting = {convention: sum(convention in readings for _, readings in telling) for convention in CONVENTIONS}
    best = [convention for convention in CONVENTIONS if fitting[convention] == max(fitting.values())]
    common = [(cells, readings) for cells, readings in telling if all(convention in readings for convention in best)]
    choices: dict[tuple[tuple[str, ...], ...], tuple[str, str]] = {}
    for convention in best:
        choices.setdefault(tuple(readings[convention] for _, readings in common), convention)
    first, *others = choices.values()
    if not others:
        return Signs(*first)
    grouped = next((choice for choice in choices.values() if choice[1]), first)
    plain = next(choice for choice in choices.values() if choice != grouped)
    doubtful = [cell for cells, _ in common for cell in cells if _plain(cell, *grouped) != _plain(cell, *plain)]
    whole = [int(cell) for cells, _ in common for cell in cells if cell.isdigit()]
    mixed = bool(whole) and max(whole) < 1000
    return Signs(*(grouped if mixed or (grouped[1] == "," and delimiter != ";") else plain), doubtful[0])


def _readings(cells: Sequence[str]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the numbers of a column by each convention that makes all of its cells numbers."""
    readings: dict[tuple[str, str], tuple[str, ...]] = {}
    for convention in CONVENTIONS:
        pattern = _pattern(*convention)
        if cells and all(map(pattern.fullmatch, cells)):
            readings[convention] = tuple(_without(cell, *convention) for cell in cells)
    return readings


def _plain(cell: str, decimal: str, thousands: str) -> str | None:
    """Return the number of a cell with a point and without thousands; None where it holds none."""
    return _without(cell, decimal, thousands) if _pattern(decimal, thousands).fullmatch(cell) else None


def _without(cell: str, decimal: str, thousands: str) -> str:
    grouped = cell.translate(_SPACES) if thousands == " " else cell.replace(thousands, "") if thousands else cell
    return grouped.replace(decimal, ".")


@cache
def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    point = re.escape(decimal)
    if not thousands:
        return re.compile(rf"[+-]?(?:0|[1-9][0-9]*)(?:{point}[0-9]+)?")
    group = f"[{SPACE_SIGNS}]" if thousands == " " else re.escape(thousands)
    # In India groups above the last one have two digits.
    western, indian = (
        rf"[1-9][0-9]{{0,2}}(?:{group}[0-9]{{3}})+",
        rf"[1-9][0-9]?(?:{group}[0-9]{{2}})*{group}[0-9]{{3}}",
    )
    return re.compile(rf"[+-]?(?:{western}|{indian}|0|[1-9][0-9]*)(?:{point}[0-9]+)?")
