"""Folder with one file per canonical table: the form in which users supply data and a run keeps them."""

from __future__ import annotations

import csv
import os
import shutil
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from shadowprice.datasets.registry import Dataset
from shadowprice.datasets.split import Split
from shadowprice.errors import Conflict, InvalidInput, InvalidTable, NotFound, TableProblem
from shadowprice.tables import SESSION_TABLES, SessionTables, Tables, validate_sessions, validate_tables
from shadowprice.tables.schema import CAMPAIGN_TABLES, EVENTS, KEYS, OPTIONAL, arrow_schema


def load(
    data: str | None,
    *,
    seed: int = 0,  # noqa: ARG001 - every data set takes one; nothing is drawn here
    validation_from: datetime | str | None = None,
    test_from: datetime | str | None = None,
    label_delay_days: float = 0.0,
    purge: bool = False,
    currency: str = "USD",
) -> Dataset:
    """The data set in the folder ``data``; split by time where both instants are given, by account otherwise."""
    if data is None:
        raise InvalidInput(
            "must be a folder with one parquet or CSV file per table; see docs/reference/tables.md", field="data"
        )
    tables = read_tables(data)
    if validation_from is None and test_from is None:
        split = Split(by="account")
    else:
        split = Split(
            by="time",
            validation_from=_instant(validation_from, "validation_from"),
            test_from=_instant(test_from, "test_from"),
            label_delay_days=label_delay_days,
            purge=purge,
        )
    return Dataset(
        name="tables", tables=tables, split=split, currency=currency, notes={"source": f"the folder {Path(data).name}"}
    )


def read_tables(path: str | os.PathLike[str]) -> Tables:
    """Read and check ``<table>.parquet`` or ``<table>.csv`` of every table; parquet wins where both are there.

    Raises:
        NotFound: the folder does not exist.
        InvalidTable: a table is missing, a file cannot be read, or the content breaks the schema.
    """
    return validate_tables(_frames(Path(path), CAMPAIGN_TABLES))


def open_tables(path: Path) -> Tables:
    """Open the tables that :func:`write_tables` wrote, which were checked before; they are read when they are needed.

    Raises:
        NotFound: a table is missing.
    """
    files = {name: path / f"{name}.parquet" for name in CAMPAIGN_TABLES}
    for name, file in files.items():
        if name not in OPTIONAL and not file.is_file():
            raise NotFound(f"{file}: there is no such table; run the prepare step again")
    return Tables({name: file for name, file in files.items() if file.is_file()})


def read_sessions(path: str | os.PathLike[str]) -> SessionTables:
    """Read and check ``session`` and ``behaviour``; files and errors as for :func:`read_tables`."""
    return validate_sessions(_frames(Path(path), SESSION_TABLES))


def _frames(folder: Path, tables: Sequence[str]) -> dict[str, pd.DataFrame]:
    if not folder.is_dir():
        raise NotFound(f"{folder}: there is no such folder; it should hold one parquet or CSV file per table")
    frames: dict[str, pd.DataFrame] = {}
    problems = []
    for name in tables:
        sources = [folder / f"{name}.parquet", folder / f"{name}.csv"]
        source = next((file for file in sources if file.is_file()), None)
        if source is None and name in OPTIONAL:
            continue
        if source is None:
            problems.append(TableProblem(name, None, f"the table is missing: add {name}.parquet or {name}.csv"))
            continue
        try:
            frames[name] = _read(source)
        except (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeDecodeError, csv.Error, OSError) as error:
            problems.append(TableProblem(name, None, f"{source.name} cannot be read: {error}"))
    if problems:
        listed = "\n".join(f"  {problem}" for problem in problems)
        raise InvalidTable(f"the tables in {folder} cannot be used:\n{listed}", problems=problems)
    return frames


def write_tables(tables: Tables | SessionTables, path: str | os.PathLike[str]) -> Path:
    """Write one parquet file per table, all or nothing, rows sorted by key: the same tables give the same rows.

    The folder appears complete or not at all: it is written beside its place and renamed into it. A folder
    of tables that is already there is replaced; one that holds anything else is refused.

    Raises:
        Conflict: ``path`` exists and is not a folder of tables.
    """
    folder = Path(path)
    _check_replaceable(folder, SESSION_TABLES if isinstance(tables, SessionTables) else CAMPAIGN_TABLES)
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        fresh = scratch / "fresh"
        fresh.mkdir()
        for name, frame in tables.as_dict().items():
            pyarrow.parquet.write_table(_arrow(name, frame), fresh / f"{name}.parquet")
        _swap(fresh, folder, scratch / "old")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


def _read(source: Path) -> pd.DataFrame:
    if source.suffix == ".parquet":
        frame: pd.DataFrame = pyarrow.parquet.read_table(source).to_pandas(ignore_metadata=True)
        return frame.drop(columns=frame.columns[frame.columns.str.startswith("__index_level_")])
    with source.open(encoding="utf-8-sig", newline="") as lines:
        header = next(csv.reader(lines), [])
    # Everything is read as text: what a cell means is decided by the schema, which can name the row.
    options = pyarrow.csv.ConvertOptions(
        column_types={name: pa.string() for name in header}, null_values=[""], strings_can_be_null=True
    )
    text: pd.DataFrame = pyarrow.csv.read_csv(source, convert_options=options).to_pandas()
    return text


def _arrow(name: str, frame: pd.DataFrame) -> pa.Table:
    key = list(KEYS[name])
    if name in EVENTS:
        key += [column for column in frame.columns if column not in key]
    ordered = frame.sort_values(key)
    return pa.Table.from_pandas(ordered, schema=arrow_schema(name, frame.columns), preserve_index=False)


def _swap(fresh: Path, folder: Path, aside: Path) -> None:
    if not folder.exists():
        os.rename(fresh, folder)
        return
    os.rename(folder, aside)
    try:
        os.rename(fresh, folder)
    except OSError:
        os.rename(aside, folder)
        raise


def _check_replaceable(folder: Path, tables: Sequence[str]) -> None:
    if not folder.exists():
        return
    ours = {f"{name}.parquet" for name in tables}
    if not folder.is_dir() or any(entry.name not in ours for entry in folder.iterdir()):
        raise Conflict(f"{folder} exists and is not a folder of tables; choose another place or empty it")


def _instant(value: datetime | str | None, name: str) -> datetime | None:
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise InvalidInput(f"is not a time: {value!r}", field=name) from None
