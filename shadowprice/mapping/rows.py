"""Rows of the files of a source as Arrow, numbered over all of them."""

import unicodedata
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from shadowprice.errors import TableProblem
from shadowprice.mapping.description import Source
from shadowprice.mapping.files.delimited import Delimited
from shadowprice.mapping.files.dialect import find_dialect
from shadowprice.mapping.files.parquet import common_type, read_batches, read_schema
from shadowprice.mapping.opened import ROW, Opened, Piece

PARQUET = (".parquet", ".pq")
"""Ends of the names of Parquet files; others are delimited."""


class Rows:
    """Rows of the files of a source; read :meth:`batches` to the end, then the fields below.

    The files have the same columns in any order. Those that are not wanted may be missing.

    Args:
        source: of the files.
        files: by the names that messages give them.
        wanted: names of the columns that are read; None: all of them.

    Raises:
        OSError, ValueError: the first file cannot be read, or columns of the files have types that do not fit.

    error     that ended the reading early; a reader of Arrow would wrap it
    label     name of the file that is or was read last
    problems  rows that are refused
    rows      number of rows
    """

    def __init__(self, source: Source, files: Mapping[str, Path], wanted: Collection[str] | None) -> None:
        self.error: Exception | None = None
        self.label = next(iter(files))
        self.problems: list[TableProblem] = []
        self.rows = 0
        self._source = source
        self._files = files
        self._pieces: list[Piece] = []
        self._text: Delimited | None = None
        self._schemas: dict[str, pa.Schema] = {}
        if all(file.suffix.lower() in PARQUET for file in files.values()):
            for name, file in files.items():
                self.label = name
                self._schemas[name] = read_schema(file)
            names = _names(next(iter(self._schemas.values())))
        else:
            self._text = self._delimited(self.label)
            names = self._text.names
        self.opened = Opened(source=source, names=names, pieces=self._pieces)
        places = self.opened.places_of(wanted)
        self._columns = [names[place] for place in places]
        fields = [pa.field(self.opened.alias(place), self._type(names[place])) for place in places]
        self.schema = pa.schema([*fields, pa.field(ROW, pa.int64())])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the rows of all files."""
        try:
            for name in self._files:
                self.label = name
                for arrays in self._of_parquet(name) if self._schemas else self._of_text(name):
                    rows = len(arrays[0])
                    number = pa.array(np.arange(self.rows, self.rows + rows))
                    self.rows += rows
                    yield pa.RecordBatch.from_arrays([*arrays[: len(self._columns)], number], schema=self.schema)
        except (OSError, ValueError, pa.ArrowException) as error:
            self.error = error

    def _of_text(self, name: str) -> Iterator[list[pa.Array]]:
        first, self._text = self._text, None
        text = first or self._delimited(name)
        self._pieces.append(Piece(name, self.rows, text.line_of))
        places = self._places_in(text.names)
        for batch in text.batches(places, self._source.null):
            yield [batch.column(str(place)) for place in places] or batch.columns
        for reason, fault in text.faults.items():
            at = tuple(fault.rows), fault.count, tuple(fault.lines)
            self.problems.append(TableProblem(name, None, reason, *at))

    def _of_parquet(self, name: str) -> Iterator[list[pa.Array]]:
        self._pieces.append(Piece(name, self.rows))
        schema = self._schemas[name]
        places = self._places_in(_names(schema))
        types = self.schema.types[:-1] if places else [schema.types[0]]
        yield from (batch.columns for batch in read_batches(self._files[name], places or [0], types))

    def _delimited(self, name: str) -> Delimited:
        source, file = self._source, self._files[name]
        dialect = find_dialect(
            file, delimiter=source.delimiter, quote=source.quote, encoding=source.encoding, header=source.header
        )
        return Delimited(file, dialect)

    def _places_in(self, names: tuple[str, ...]) -> list[int]:
        """Return the positions in a file of the columns that are read."""
        for column in self._columns:
            if names.count(column) != 1:
                times = "stands twice" if column in names else "is missing"
                raise ValueError(f"the column {column!r} {times}; the files of a source have the same columns")
        return [names.index(column) for column in self._columns]

    def _type(self, column: str) -> pa.DataType:
        if not self._schemas:
            return pa.string()
        named = {name: dict(zip(_names(schema), schema.types, strict=True)) for name, schema in self._schemas.items()}
        types = {name: kinds[column] for name, kinds in named.items() if column in kinds}
        common = common_type(list(types.values()))
        if common is None:
            listed = ", ".join(f"{kind} in {name}" for name, kind in types.items())
            raise ValueError(f"the column {column!r} is {listed}; write the files alike")
        return common


def _names(schema: pa.Schema) -> tuple[str, ...]:
    """Return the names of the columns of a Parquet file, in the form of those of other files.

    Columns of lists and structures have none: a mapping cannot name them.
    """
    return tuple(
        "" if pa.types.is_nested(column.type) else unicodedata.normalize("NFC", column.name.strip())
        for column in schema
    )
