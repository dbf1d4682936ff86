"""The canonical tables of a data set: in memory or on disk, and as a database."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from shadowprice.tables.coercion import canonical, coerce
from shadowprice.tables.schema import CAMPAIGN_TABLES, TEXT, TIME, arrow_schema, kind_of
from shadowprice.tables.scratch import Scratch

ROW = "row"
"""Column of every relation: the place of the row in its table, counted from 0."""
MEMORY = "2GiB"
"""Memory of a query; beyond it, the query writes to a temporary folder."""

BATCH = 1 << 19
"""Rows that are taken from a result at once."""

Source = pd.DataFrame | Path


class Tables:
    """Checked tables by name; ``docs/reference/tables.md`` describes their columns.

    A table is a frame or a Parquet file. Reading an attribute of this class brings a whole table into memory: large
    ones are read through :meth:`connect`.

    Args:
        sources: table name → frame, or Parquet file with canonical types.
        scratch: folder of such files, if it is to be deleted with this object.

    ``notes`` holds facts for a reader: rows of the user's files that are in no table.

    >>> with tables.connect() as db:
    ...     db.sql("SELECT side, count(*) FROM exposure GROUP BY side").fetchall()
    """

    def __init__(self, sources: Mapping[str, Source], scratch: Scratch | None = None) -> None:
        self._scratch = scratch
        self.notes: dict[str, str] = {}
        self.sources = {name: sources[name] for name in CAMPAIGN_TABLES if name in sources}

    @property
    def account(self) -> pd.DataFrame:
        """Profiles of accounts."""
        return self._frame("account")

    @property
    def edge(self) -> pd.DataFrame:
        """Events between customers and merchants."""
        return self._frame("edge")

    @property
    def offer(self) -> pd.DataFrame:
        """Incentives of each side."""
        return self._frame("offer")

    @property
    def exposure(self) -> pd.DataFrame:
        """Requests and the offers that they got."""
        return self._frame("exposure")

    @property
    def outcome(self) -> pd.DataFrame:
        """Outcomes of the requests."""
        return self._frame("outcome")

    @property
    def campaign(self) -> pd.DataFrame:
        """The campaign, in one row."""
        return self._frame("campaign")

    @property
    def action(self) -> pd.DataFrame | None:
        """Actions of accounts with funds, None where there is no such table."""
        return self._frame("action") if "action" in self.sources else None

    def as_dict(self) -> dict[str, pd.DataFrame]:
        """Table name → frame, in canonical order; without the optional ones that are not there."""
        return {name: self._frame(name) for name in self.sources}

    def rows(self) -> dict[str, int]:
        """Table name → number of rows."""
        return {
            name: pa.parquet.read_metadata(source).num_rows if isinstance(source, Path) else len(source)
            for name, source in self.sources.items()
        }

    def replaced(self, **frames: Source) -> Tables:
        """Return the tables with some of them replaced."""
        return Tables(self.sources | frames, self._scratch)

    def columns(self, table: str) -> tuple[str, ...]:
        """Columns of a table."""
        return columns_of(self.sources[table])

    def parts(self, table: str) -> Iterator[pd.DataFrame]:
        """Read a table in parts, in order."""
        source = self.sources[table]
        if isinstance(source, Path):
            yield from parquet_parts(source)
        else:
            yield source

    @contextmanager
    def connect(self, *, threads: int | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a database with the tables; see :func:`open_database`."""
        with open_database(self.sources, threads=threads) as db:
            yield db

    def _frame(self, name: str) -> pd.DataFrame:
        source = self.sources[name]
        return read_parquet(name, source) if isinstance(source, Path) else source


@contextmanager
def open_database(sources: Mapping[str, Source], *, threads: int | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database with a relation per table, whose column ``row`` is the place of the row; times are in UTC, of
    microseconds.

    Args:
        threads: 1 where sums must not depend on how the work was divided; None for all processors.
    """
    with empty_database() as db:
        if threads is not None:
            db.execute(f"SET threads = {threads}")
        for name, source in sources.items():
            kinds = {column: kind_of(name, column) for column in columns_of(source)}
            times = [column for column, kind in kinds.items() if kind == TIME]
            casts = ", ".join(f"CAST({column} AS TIMESTAMPTZ) AS {column}" for column in times)
            replaced = f" REPLACE ({casts})" if casts else ""
            db.execute(f"CREATE VIEW {name} AS SELECT *{replaced} FROM {_relation(db, name, source)}")
        yield db


@contextmanager
def sorted_rows(table: str, source: Source, key: Sequence[str]) -> Iterator[pa.RecordBatchReader]:
    """Read a table in the order of a key, unknown cells last; what does not fit into memory is sorted on disk."""
    with empty_database() as db:
        columns, order = (", ".join(f'"{name}"' for name in names) for names in (columns_of(source), key))
        query = f"SELECT {columns} FROM {_relation(db, table, source)} ORDER BY {order}"
        yield db.sql(query).to_arrow_reader(BATCH)


@contextmanager
def empty_database() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database without tables, in memory; what does not fit goes to a temporary folder. Times are in UTC."""
    with tempfile.TemporaryDirectory(prefix="shadowprice-") as scratch, duckdb.connect(":memory:") as db:
        db.execute(f"SET memory_limit = '{MEMORY}'; SET temp_directory = '{scratch}'; SET TimeZone = 'UTC'")
        yield db


def columns_of(source: Source) -> tuple[str, ...]:
    """Columns of a table."""
    return tuple(pa.parquet.read_schema(source).names if isinstance(source, Path) else source.columns)


def _relation(db: duckdb.DuckDBPyConnection, table: str, source: Source) -> str:
    """Return what stands after FROM to read a table with the places of its rows."""
    if isinstance(source, Path):
        file = str(source).replace("'", "''")
        return f"(SELECT * RENAME (file_row_number AS {ROW}) FROM read_parquet('{file}', file_row_number = true))"
    db.register(f"{table}_frame", _with_rows(table, source))
    return f"{table}_frame"


def instant(at: datetime) -> str:
    """Return an instant as SQL."""
    return f"TIMESTAMPTZ '{pd.Timestamp(at).tz_convert('UTC').isoformat()}'"


def parquet_parts(path: Path) -> Iterator[pd.DataFrame]:
    """Read a Parquet file in parts of at most ``BATCH`` rows; one without rows is one part."""
    with pa.parquet.ParquetFile(path) as file:
        if not file.metadata.num_rows:
            yield file.read().to_pandas(ignore_metadata=True)
        for batch in file.iter_batches(BATCH):
            yield batch.to_pandas(ignore_metadata=True)


def write_batches(path: Path, batches: pa.RecordBatchReader) -> None:
    """Write what a query returns to a Parquet file, part by part."""
    with pa.parquet.ParquetWriter(path, batches.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def read_parquet(table: str, path: Path) -> pd.DataFrame:
    """Read a table that was written with canonical types."""
    frame = pa.parquet.read_table(path).to_pandas(ignore_metadata=True)
    coerced = {name: coerce(frame[name], kind_of(table, name) or TEXT)[0] for name in frame.columns}
    return canonical(table, pd.DataFrame(coerced, index=frame.index))


def _with_rows(table: str, frame: pd.DataFrame) -> pa.Table:
    arrow = pa.Table.from_pandas(frame, schema=arrow_schema(table, frame.columns), preserve_index=False)
    return arrow.append_column(ROW, pa.array(np.arange(len(frame), dtype=np.int64)))
