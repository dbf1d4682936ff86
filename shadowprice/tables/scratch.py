"""Tables that come in parts, kept in temporary files."""

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from shadowprice.tables.schema import arrow_schema


class Scratch:
    """A folder for temporary files, made at its first use and deleted with this object."""

    @cached_property
    def folder(self) -> Path:
        """The folder."""
        path = Path(tempfile.mkdtemp(prefix="shadowprice-"))
        weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        return path

    def keep(self, table: str, parts: Iterator[pd.DataFrame]) -> pd.DataFrame | Path:
        """Return a table of one part as it is, and one of several as a Parquet file.

        Args:
            table: its name, which determines the types of its columns.
            parts: frames with the same columns.
        """
        first = next(parts, None)
        if first is None:
            raise ValueError(f"table {table!r} has no part; one without rows is a frame without rows")
        second = next(parts, None)
        if second is None:
            return first
        path = self.folder / f"{table}.parquet"
        with pa.parquet.ParquetWriter(path, arrow_schema(table, first.columns)) as writer:
            for part in chain((first, second), parts):
                writer.write_table(pa.Table.from_pandas(part, schema=writer.schema, preserve_index=False))
        return path
