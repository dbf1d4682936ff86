"""Folder with one file per canonical table: the form in which users supply data and a run keeps them."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from shadowprice.datasets.registry import Dataset
from shadowprice.datasets.split import Split
from shadowprice.errors import Conflict, InvalidInput, NotFound
from shadowprice.mapping.files.delimited import Delimited
from shadowprice.mapping.files.dialect import Dialect
from shadowprice.mapping.files.parquet import read_frames
from shadowprice.tables import SESSION_TABLES, SessionTables, Tables, validate_sessions, validate_tables
from shadowprice.tables.database import BATCH, Source, columns_of, sorted_rows, write_batches
from shadowprice.tables.problems import Problems
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
    split = Split.between(validation_from, test_from, label_delay_days=label_delay_days, purge=purge)
    return Dataset(
        name="tables", tables=tables, split=split, currency=currency, notes={"source": f"the folder {Path(data).name}"}
    )


def read_tables(path: str | os.PathLike[str]) -> Tables:
    """Read and check ``<table>.parquet`` or ``<table>.csv`` of every table; parquet wins where both are there.

    Raises:
        NotFound: the folder does not exist.
        InvalidTable: a table is missing, a file cannot be read, or the content breaks the schema.
    """
    return validate_tables(_parts(Path(path), CAMPAIGN_TABLES))


def open_tables(path: Path) -> Tables:
    """Open the tables that :func:`write_tables` wrote, which were checked before; they are read when they are needed.

    Raises:
        NotFound: a table is missing.
    """
    files = {name: path / f"{name}.parquet" for name in CAMPAIGN_TABLES}
    for name, file in files.items():
        if name not in OPTIONAL and not file.is_file():
            raise NotFound(f"{file}: there is no such table; run `shadowprice job prepare` again")
    return Tables({name: file for name, file in files.items() if file.is_file()})


def read_sessions(path: str | os.PathLike[str]) -> SessionTables:
    """Read and check ``session`` and ``behaviour``; files and errors as for :func:`read_tables`."""
    parts = _parts(Path(path), SESSION_TABLES)
    return validate_sessions({name: pd.concat(table, ignore_index=True) for name, table in parts.items()})


def _parts(folder: Path, tables: Sequence[str]) -> dict[str, Iterator[pd.DataFrame]]:
    """Return the parts of each table, which are read when they are asked for."""
    if not folder.is_dir():
        raise NotFound(f"{folder}: there is no such folder; it should hold one parquet or CSV file per table")
    parts: dict[str, Iterator[pd.DataFrame]] = {}
    problems = Problems()
    for name in tables:
        sources = [folder / f"{name}.parquet", folder / f"{name}.csv"]
        source = next((file for file in sources if file.exists()), None)
        if source is not None:
            parts[name] = _read(name, source)
        elif name not in OPTIONAL:
            problems.add(name, None, f"the table is missing: add {name}.parquet or {name}.csv")
    problems.refuse()
    return parts


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
        sources = tables.sources if isinstance(tables, Tables) else tables.as_dict()
        for name, source in sources.items():
            _write(name, source, fresh / f"{name}.parquet")
        _swap(fresh, folder, scratch / "old")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


def _write(table: str, source: Source, path: Path) -> None:
    columns = columns_of(source)
    key = list(KEYS[table])
    if table in EVENTS:
        key += [column for column in columns if column not in key]
    with sorted_rows(table, source, key) as rows:
        write_batches(path, rows.cast(arrow_schema(table, columns)))


def _read(table: str, source: Path) -> Iterator[pd.DataFrame]:
    problems = Problems()
    try:
        yield from read_frames(source, BATCH) if source.suffix == ".parquet" else _csv_parts(table, source, problems)
    except (pa.ArrowException, OSError, ValueError) as error:
        problems.add(table, None, f"{source.name} cannot be read: {error}")
    problems.refuse()


def _csv_parts(table: str, source: Path, problems: Problems) -> Iterator[pd.DataFrame]:
    """Return the parts of a CSV file with commas, and add the rows that have other cells than the header.

    Everything is read as text: what a cell means is decided by the schema, which can name the row.
    """
    text = Delimited(source, Dialect(delimiter=",", quote='"', encoding="", header=1))
    names = list(text.names)
    for batch in text.batches(range(len(names)), [""]):
        frame = batch.to_pandas()
        frame.columns = pd.Index(names)
        yield frame
    for reason, fault in text.faults.items():
        problems.add(table, None, reason, fault.rows, fault.count)
    if not text.rows:
        yield pd.DataFrame({place: pd.Series([], dtype=object) for place in range(len(names))}).set_axis(names, axis=1)


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
