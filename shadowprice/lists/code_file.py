"""File of codes, as CSV."""

import hashlib
from pathlib import Path

import pyarrow as pa

from shadowprice.campaign.identifiers import IDENTIFIER_RULE, is_identifier
from shadowprice.errors import InvalidInput
from shadowprice.mapping.description import Source
from shadowprice.mapping.faults import unusable
from shadowprice.mapping.rows import Rows

MATCHED = ("offer", "level")
"""Columns of a file of codes that may say what a code is for."""


def code_key(code: str) -> str:
    """Return the form by which codes are compared: without spaces around it, and without case.

    >>> code_key(" Spring-7 ") == code_key("SPRING-7")
    True
    """
    return code.strip().casefold()


def read_codes(file: Path) -> tuple[str, str, list[str], list[str]]:
    """Return a digest of a file of codes, the column that they are matched by, the codes, and what each is for."""
    try:
        rows = Rows(Source(name="codes", file=file.name), {file.name: file}, None)
        table = pa.Table.from_batches(list(rows.batches()), rows.schema)
        if rows.error is not None:
            raise rows.error
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InvalidInput(f"cannot be read as CSV: {error}", field=str(file)) from error
    if rows.problems:
        raise unusable(rows.problems)
    if "code" not in table.column_names:
        raise InvalidInput(f"has no column code; it has {', '.join(rows.opened.names)}", field=str(file))
    given = [name for name in MATCHED if name in table.column_names]
    if len(given) > 1:
        raise InvalidInput("has both offer and level; keep one of them", field=str(file))
    codes, offers = (
        [str(value or "").strip() for value in table[name].to_pylist()] if name else [""] * table.num_rows
        for name in ("code", given[0] if given else "")
    )
    for name, values in (("code", codes), *((name, offers) for name in given)):
        wrong = next((line for line, value in enumerate(values, 2) if not is_identifier(value)), None)
        if wrong is not None:
            raise InvalidInput(f"line {wrong}: {name} {IDENTIFIER_RULE}", field=str(file))
    return hashlib.sha256(file.read_bytes()).hexdigest(), given[0] if given else "", codes, offers
