"""Files of any dialect give the cells that were written, or are refused with their place.

``SHADOWPRICE_DIALECTS`` sets the number of random files.
"""

import gzip
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pytest
from dialects import Dialect, Row, files, moment

from shadowprice.errors import InvalidInput
from shadowprice.mapping import read_mapping
from shadowprice.mapping.description import Mapping
from shadowprice.mapping.proposal.parts import Proposal
from shadowprice.mapping.proposal.propose import propose
from shadowprice.mapping.proposal.text import lines
from shadowprice.mapping.queries import table_parts, wanted_columns
from shadowprice.mapping.sources import open_sources
from shadowprice.tables.coercion import coerce, split_refused
from shadowprice.tables.database import empty_database
from shadowprice.tables.schema import REAL, TEXT, TIME, WHOLE

FILES = int(os.environ.get("SHADOWPRICE_DIALECTS", "160"))
OWN = {
    "request_id": ("order", TEXT),
    "account_id": ("customer", TEXT),
    "decided_at": ("sent", TIME),
    "face_value": ("coupon value", WHOLE),
    "redeemed": ("redeemed", WHOLE),
    "c_note": ("note", TEXT),
    "x_basket": ("basket", REAL),
}
"""Canonical column → the file's own one, and its type."""
seen: Counter[str] = Counter()


@pytest.fixture(scope="module", autouse=True)
def most_files_are_read() -> Iterator[None]:
    """A generator whose files were all refused would prove nothing."""
    yield
    whole = seen["mishap"] + seen["read"] + seen["refused"]
    if whole >= 100:
        assert seen["read"] > 0.6 * whole
        assert all(seen[name] > 0.4 * seen["read"] for name in OWN), seen


@pytest.mark.timeout(1800)
def test_a_file_gives_its_cells_or_is_refused(tmp_path: Path) -> None:
    # The same files each time, unless another number is asked for.
    draw = Random(None if "SHADOWPRICE_DIALECTS" in os.environ else 0)
    for table, dialect, content in files(FILES, draw):
        try:
            check_file(table, dialect, content, tmp_path)
        except Exception as error:
            error.add_note(f"{dialect}\n{table}\n{content!r}")
            raise


def check_file(table: list[Row], dialect: Dialect, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes(content)
    try:
        proposal, mapping, found = read_back(tmp_path, dialect)
    except InvalidInput as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        seen["mishap" if dialect.mishap or dialect.below.strip() else "refused"] += 1
        # Where init finds no column for a table, it says so, and the mapping lacks it.
        assert "log.csv" in refusal or refusal.startswith("tables.exposure.columns: needs")
        assert "line" in refusal or "no column of times" in refusal or dialect.mishap in ("", "name twice")
        return
    if dialect.mishap in ("open quote", "quote within") and "no quotes" in proposal.parts[0].profile.doubt:
        return
    assert dialect.mishap in ("", "name twice")
    assert dialect.below.strip() == ""
    seen["read"] += 1
    check(proposal, mapping, found, table, dialect, content)


def read_back(folder: Path, dialect: Dialect) -> tuple[Proposal, Mapping, pd.DataFrame]:
    """Return what init proposes of a file, the mapping that it writes, and the rows that the mapping reads."""
    proposal = propose(folder, {"trials": folder / "log.csv"})
    text = "\n".join(lines(proposal, currency="EUR", timezone=dialect.zone, campaign="spring"))
    used = {each.own for part in proposal.parts for each in part.columns.values()}
    more = [f"      {name}: {own}" for name, (own, _) in OWN.items() if name[:2] in ("c_", "x_") and own not in used]
    head, columns, rest = text.partition("    columns:\n")
    (folder / "mapping.yaml").write_text(head + columns + "\n".join([*more, rest]) + "\n", encoding="utf-8")
    mapping = read_mapping(folder / "mapping.yaml")
    (exposure,) = mapping.tables["exposure"]
    # Planning the SQL of columns that nothing looks at would take a third of the time.
    columns = {name: column for name, column in exposure.columns.items() if name in OWN or name == "side"}
    read = replace(mapping, tables={"exposure": [replace(exposure, columns=columns)], "outcome": []})
    with empty_database() as db:
        opened = open_sources(db, folder, [exposure.source], wanted_columns(db, read))
        table_parts(db, read, opened, {})
        rows = db.sql("SELECT * FROM mapped_exposure_0").to_arrow_table()
    return proposal, mapping, rows.to_pandas(types_mapper={pa.string(): pd.StringDtype("pyarrow")}.get)


def check(
    proposal: Proposal, mapping: Mapping, found: pd.DataFrame, table: list[Row], dialect: Dialect, content: bytes
) -> None:
    (part,) = proposal.parts
    profile = part.profile
    (exposure,) = mapping.tables["exposure"]
    assert len(found) == len(table)
    guessed = dialect.encoding in ("iso-8859-1", "iso-8859-15", "cp1251") and not plain(content, dialect)
    assert not guessed or "encoding" in profile.doubt
    for name, (own, kind) in OWN.items():
        column = exposure.columns.get(name)
        if column is None or column.column != own:
            continue
        written, refused = split_refused(found[name])
        cells, misfits = coerce(written, kind)
        if refused or any(wrong.any() for wrong, _ in misfits):
            seen[f"{name} refused"] += 1
            assert name not in ("request_id", "account_id", "c_note") or dialect.encoding != "utf-8"
            continue
        seen[name] += 1
        if kind == TIME:
            if dialect.format in profile.cells(own).others:
                continue
            wanted = [instant(row, dialect) for row in table]
            assert None not in wanted, "an hour that there is twice, or never, is refused"
            assert cells.tolist() == [pd.Timestamp(at) for at in wanted if at]
        elif kind in (WHOLE, REAL):
            if profile.signs.doubt and name != "redeemed":
                continue
            assert cells.tolist() == [number(row, name) for row in table]
        elif not guessed:
            null = mapping.tables["exposure"][0].source.null
            wanted_texts = [
                {"request_id": row.order, "account_id": row.customer, "c_note": row.note}[name] for row in table
            ]
            assert [each if each is not None else "" for each in cells] == [
                "" if t in null else t for t in wanted_texts
            ]


def number(row: Row, name: str) -> float:
    return {"face_value": row.cents, "redeemed": int(row.used), "x_basket": float(row.basket)}[name]


def plain(content: bytes, dialect: Dialect) -> bool:
    """Return whether a file has only characters that all encodings of one byte share."""
    return (gzip.decompress(content) if dialect.packed else content).isascii()


def instant(row: Row, dialect: Dialect) -> datetime | None:
    """Return the instant that a cell names; None where clocks showed that time twice or never."""
    parsed = datetime.strptime(moment(row.at, dialect), dialect.format)
    if dialect.format.endswith("Z"):
        return parsed.replace(tzinfo=UTC)
    if parsed.tzinfo is not None:
        return parsed
    local = [parsed.replace(tzinfo=ZoneInfo(dialect.zone), fold=fold) for fold in (0, 1)]
    return local[0] if local[0].utcoffset() == local[1].utcoffset() else None
