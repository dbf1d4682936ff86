"""Accounts that a list is made of, from a file of the user."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from shadowprice.campaign import Side
from shadowprice.campaign.identifiers import IDENTIFIER_RULE, MOST_CHARACTERS, is_identifier
from shadowprice.errors import InvalidInput

ACCOUNT = ("account_id", "account")
"""Names of the column with the accounts; the first that the file has."""
SIDE = "side"
NAMED = 3
"""Examples in a message."""


@dataclass(frozen=True, eq=False)
class Listed:
    """Accounts of a list, each once, in the order of the file.

    account_id  side → its accounts; a side without accounts is missing
    repeated    rows of accounts that an earlier row has
    """

    account_id: Mapping[Side, pa.StringArray]
    repeated: int = 0

    def __len__(self) -> int:
        return sum(map(len, self.account_id.values()))


def read_listed(path: Path, sides: Collection[Side]) -> Listed:
    """Read a CSV file, by its extension, or else a parquet file. O(rows).

    Args:
        path: file with a column ``account_id`` or ``account``, and ``side`` where the campaign has both.
        sides: of the campaign.

    Raises:
        InvalidInput: the file cannot be read, lacks a column, has no row, an account that is no identifier, or a side
            that the campaign does not have.
    """
    table = _read(path)
    account = next(name for name in ACCOUNT if name in table.schema.names)
    if not len(table):
        raise InvalidInput("has no account; give one row for each", field=str(path))
    names = _identifiers(table[account], f"{path}.{account}")
    if SIDE not in table.schema.names:
        if len(sides) > 1:
            raise InvalidInput(f"has no column {SIDE!r}; the campaign has the sides {sorted(sides)}", field=str(path))
        of_side = dict.fromkeys(sides, names)
    else:
        given = table[SIDE].cast(pa.string()).combine_chunks()
        known = pc.is_in(given, value_set=pa.array(sorted(sides), pa.string()))
        wrong = np.flatnonzero(~np.asarray(known))
        InvalidInput.refuse_rows(
            ~np.asarray(known),
            f"must be one of {sorted(sides)}, not {given[wrong[0]].as_py()!r}" if wrong.size else "",
            field=f"{path}.{SIDE}",
        )
        of_side = {side: names.filter(pc.equal(given, side)) for side in sides}
    once = {side: _once(own) for side, own in of_side.items() if len(own)}
    return Listed(once, len(names) - sum(map(len, once.values())))


def _read(path: Path) -> pa.Table:
    wanted = [*ACCOUNT, SIDE]
    try:
        if path.suffix == ".csv":
            # Identifiers keep their leading zeros.
            text = pa.csv.ConvertOptions(column_types=dict.fromkeys(wanted, pa.string()), strings_can_be_null=True)
            with pa.csv.open_csv(path) as opened:
                has = opened.schema.names
            text.include_columns = [name for name in wanted if name in has]
            table = pa.csv.read_csv(path, convert_options=text)
        else:
            has = pq.read_schema(path).names
            table = pq.read_table(path, columns=[name for name in wanted if name in has])
    except (OSError, pa.ArrowInvalid) as error:
        raise InvalidInput(f"cannot be read: {error}", field=str(path)) from error
    if not set(ACCOUNT) & set(has):
        raise InvalidInput(f"has no column {ACCOUNT[0]!r}; it has {has}", field=str(path))
    return table


def _identifiers(column: pa.ChunkedArray, field: str) -> pa.StringArray:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InvalidInput(f"must be texts or whole numbers, not {kind}; write identifiers as text", field=field)
    names = column.cast(pa.string()).combine_chunks()
    length = pc.fill_null(pc.utf8_length(names), 0)
    printable = pc.fill_null(pc.utf8_is_printable(names), False)
    doubtful = ~np.asarray(pc.and_(printable, pc.and_(pc.greater(length, 0), pc.less_equal(length, MOST_CHARACTERS))))
    # The rule of Python and that of the library differ in a few characters.
    rows = np.flatnonzero(doubtful)
    doubtful[rows] = [not is_identifier(names[row].as_py()) for row in rows.tolist()]
    InvalidInput.refuse_rows(doubtful, IDENTIFIER_RULE, field=field)
    return names


def _once(names: pa.StringArray) -> pa.StringArray:
    coded = names.dictionary_encode()
    if len(coded.dictionary) == len(names):
        return names
    # The dictionary is in the order of the first rows.
    return coded.dictionary
