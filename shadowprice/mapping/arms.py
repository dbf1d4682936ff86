"""Arms of a trial that a mapping would merge into one level."""

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

from shadowprice.errors import InvalidTable, TableProblem
from shadowprice.mapping.description import FACE_VALUE, Mapping

OFFER_ID = "offer_id"


def refuse_merged(mapping: Mapping) -> None:
    """Refuse ``values`` that give two of the user's own arms the same level.

    Their rows would be averaged without a warning. An ``expression`` merges arms that are meant to be one.

    Raises:
        InvalidTable: two own values have the same amount or offer.
    """
    problems = list(_merged(mapping))
    if problems:
        lines = "\n".join(f"  {problem}" for problem in problems)
        raise InvalidTable(f"the mapping makes one level of several arms:\n{lines}", problems=problems)


def _merged(mapping: Mapping) -> Iterator[TableProblem]:
    for part in mapping.tables.get("exposure", ()):
        # Offers that are told by their identifiers may have one amount.
        name = OFFER_ID if OFFER_ID in part.columns else FACE_VALUE
        column = part.columns.get(name)
        values = column.values if column else {}
        same: dict[str | Decimal, list[str]] = {}
        for own, level in values.items():
            same.setdefault(_amount(level), []).append(own)
        for arms in same.values():
            if len(arms) > 1:
                names = ", ".join(repr(arm) for arm in arms)
                reason = (
                    f"{names} all become {values[arms[0]]}, so they would be one level: give each arm its own "
                    f"value, map {OFFER_ID} too, or merge arms that are meant to be one with an expression"
                )
                yield TableProblem("the mapping", f"tables.exposure.columns.{name}.values", reason)


def _amount(text: str) -> str | Decimal:
    try:
        return Decimal(text.strip()).normalize()
    except InvalidOperation:
        return text.strip()
