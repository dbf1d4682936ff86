"""``python -m serving.generate``: write the messages of decisions as columns, from the fields of a decision."""

import sys
from collections.abc import Iterator
from pathlib import Path

from shadowprice.command.options import main_of
from shadowprice.pacing.decision_log.records import REQUIRED, Column, Decision, columns

ROOT = Path(__file__).parents[1]
WRITTEN = "Written by ``python -m serving.generate``; do not edit."
CHECKED = {str: "Identifier", int: "MinorUnits", float: "Finite"}
"""Types of ``serving.ledger.api.fields`` that the ledger checks values by."""
CHECKED_BY_NAME = {
    "side": "Side",
    "level": "Level",
    "propensity": "Propensity",
    "propensities": "Propensities",
    "reason": "RecordedReason",
    "partner_id": "Partner",
    "context": "Context",
    "groups": "Context",
    "basis": "Basis",
    "features_at": "Seconds",
}
"""Fields of a decision whose values are checked for more than the limits of their type."""
ADDED = {
    "response_unpaid": "Finite",
    "unpaid_allowed": "bool",
    "model_version": "Identifier",
    "price_version": "Version",
    "further_levels": "Levels",
    "further_responses": "Responses",
}
"""Columns that the predictor adds to the fields of a decision, with the types that the ledger checks them by."""
ITEMS = f'''"""Decisions to authorize, as columns. {WRITTEN}"""

from serving.ledger.api.fields import (
    Basis,
    Column,
    Columns,
    Context,
    Finite,
    Identifier,
    Level,
    Levels,
    MinorUnits,
    Partner,
    Propensities,
    Propensity,
    Responses,
    Seconds,
    Version,
)
from serving.protocol import RecordedReason
from shadowprice.campaign import Side


class Items(Columns):
    """n decisions to authorize, as columns.

    incentive        unit cost of that level, minor units
    response         expected response, and expected_cost the money it is expected to cost
    response_unpaid  expected response if the money is refused; 0 where absent
    unpaid_allowed   whether each request may be given the level of no incentive if the money is refused; true where
                     absent
    propensities     probability of each level of the side; a nearly exhausted budget adds up those that do not fit
    partner_id       partner of each request; empty where it has none
    context          context values of each request as a JSON object; empty where it has none
    groups           names of the budgets with a condition that count each request, joined by commas
    basis            curve, charges and rules behind each decision; empty: there is no receipt of it
    model_version, price_version   those that each was decided with; those of the message where absent
    further_levels   of a delivery, levels to give in turn where the segment of the level is full
    further_responses  expected response of each of these
    features_at      when the features were computed, seconds since 1970 (UTC); null where there were none
    """

'''
COLUMNS = f'''"""Decisions as columns, between predictor and ledger. {WRITTEN}"""

from dataclasses import dataclass

from shadowprice.campaign import Side


@dataclass(frozen=True)
class Proposals:
    """Proposed decisions of n requests; lists of length n.

    response_unpaid               expected response without money
    model_version, price_version  those that each was decided with; None: those of the message
    unpaid_allowed                whether each may be given the level of no incentive; None: all may
    further_levels                of a delivery, levels to give in turn where the segment of the level is full
    further_responses             expected response of each of these
    """

'''
AUTHORIZED = '''

@dataclass(frozen=True)
class Authorized:
    """Decisions that the ledger holds for n requests; lists of length n. ``repeat``: decided before."""

'''


def sources(record: type = Decision) -> dict[str, str]:
    """Return the text of each generated module, by its path, for the fields of a record class."""
    sent = [column for column in columns(record) if column.field.sent]
    sent.sort(key=lambda column: column.earlier is not REQUIRED)
    items = map(_item, sent)
    items_added = (f"    {name}: Column[{kind}] | None = None" for name, kind in ADDED.items())
    returned = (
        f"    {column_of.name}: list[{_plain(column_of)}]" for column_of in columns(record) if column_of.field.returned
    )
    return {
        "serving/ledger/api/items.py": ITEMS + _lines([*items, *items_added]),
        "serving/predictor/ledger/columns.py": COLUMNS
        + _lines(_proposed(sent))
        + AUTHORIZED
        + _lines([*returned, "    repeat: list[bool]"]),
    }


def _lines(lines: list[str] | Iterator[str]) -> str:
    return "\n".join(lines) + "\n"


def _item(column: Column) -> str:
    checked = CHECKED_BY_NAME.get(column.name) or CHECKED[column.type]
    value = f"Column[{checked} | None]" if column.optional else f"Column[{checked}]"
    absent = column.optional or column.earlier is not REQUIRED
    return f"    {column.name}: {value}{' | None = None' if absent else ''}"


def _proposed(sent: list[Column]) -> Iterator[str]:
    for column in sent:
        if column.earlier is REQUIRED:
            yield f"    {column.name}: list[{_plain(column)}]"
    yield "    response_unpaid: list[float]"
    for column in sent:
        if column.earlier is not REQUIRED:
            yield f"    {column.name}: list[{_plain(column)}] | None = None"
    yield "    model_version: list[str] | None = None"
    yield "    price_version: list[int] | None = None"
    yield "    unpaid_allowed: list[bool] | None = None"
    yield "    further_levels: list[list[int]] | None = None"
    yield "    further_responses: list[list[float]] | None = None"


def _plain(column: Column) -> str:
    """Return the type of a field's value in a message: times are seconds."""
    kind = "list[float]" if column.type is tuple else "float" if column.field.time else column.type.__name__
    return ("Side" if column.name == "side" else kind) + (" | None" if column.optional else "")


def write() -> None:
    """Write the messages."""
    for path, text in sources().items():
        (ROOT / path).write_text(text)


main = main_of(write, "python -m serving.generate")

if __name__ == "__main__":
    sys.exit(main())
