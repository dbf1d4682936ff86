"""Cursor of a stream: the last row of each kind that the sink has taken, in a file."""

import json
from collections.abc import Mapping
from pathlib import Path

from shadowprice.documents import read_json
from shadowprice.errors import InvalidInput
from shadowprice.files import write_whole
from shadowprice.pacing.decision_log.segments import SCHEMAS, RowKind

MEND = "name another file to begin with the first row, or correct it"


def read_cursor(path: Path) -> dict[RowKind, int]:
    """Return the rows that were sent of each kind; 0 without a file.

    Raises:
        InvalidInput: the file is no cursor.
    """
    if not path.exists():
        return dict.fromkeys(SCHEMAS, 0)
    try:
        rows = read_json(path)
        return {kind: _count(rows[kind]) for kind in SCHEMAS}
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"is not the cursor of a stream ({error!r}); {MEND}", field=str(path)) from error


def write_cursor(path: Path, rows: Mapping[RowKind, int]) -> None:
    """Keep the rows on disk before this returns."""
    write_whole(path, json.dumps(dict(rows)), durable=True)


def check_cursor(path: Path, rows: Mapping[RowKind, int], ends: Mapping[RowKind, int]) -> None:
    """Raise :class:`InvalidInput` for a log that ends before the cursor: it is another log."""
    for kind, row in rows.items():
        if row > ends[kind]:
            raise InvalidInput(
                f"is at row {row} of {kind}, and the log ends at row {ends[kind]}: it is of another log; {MEND}",
                field=str(path),
            )


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no number of rows")
    return value
