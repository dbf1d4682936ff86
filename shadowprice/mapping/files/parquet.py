"""Parquet files as Arrow in bounded memory, and one type for a column of several files."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from shadowprice.documents import open_regular
from shadowprice.mapping.files.blocks import FREE_BYTES, MOST_EXPANSION

BATCH_ROWS = 1 << 16
BATCH_BYTES = 1 << 26
"""Bytes of a batch, as far as the file tells the size of its rows."""
ROW_BYTES = 64
"""Bytes that a row counts at least: rows of nothing take time, if no memory."""
EXACT = 2**53
"""Whole numbers up to this one are exact in a column of floats."""
MOST_COLUMNS = 100_000
"""Columns, and parts of rows, of a file at most. Arrow itself refuses deep nesting."""
WIDEST = 64
"""Bytes of a value of fixed size at most."""


def read_schema(path: Path) -> pa.Schema:
    """Return names and types of the columns of a Parquet file.

    Raises:
        OSError, ValueError: it cannot be read, or is no Parquet file.
    """
    with _opened(path) as file:
        schema = file.schema_arrow
    if not schema.names:
        raise ValueError("has no column")
    return schema


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of a column: bytes without a type, as some programs write them, are text."""
    own = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.string() if _is_text(own) else own


def common_type(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type of a column that has these types in several files; None where they do not fit."""
    known = list(dict.fromkeys(kind for kind in map(plain_type, types) if not pa.types.is_null(kind)))
    if len(known) <= 1:
        return known[0] if known else pa.string()
    if all(pa.types.is_integer(kind) for kind in known):
        return pa.int64()
    if all(pa.types.is_decimal(kind) for kind in known):
        return pa.decimal128(38, max(kind.scale for kind in known))
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in known):
        return pa.float64()
    if all(pa.types.is_timestamp(kind) for kind in known) and len({kind.tz for kind in known}) == 1:
        return pa.timestamp("us", known[0].tz)
    return None


def read_batches(
    path: Path, columns: Collection[int], types: Iterable[pa.DataType], rows: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Return the cells of some columns; the names of the columns are their positions.

    Args:
        path: of the file.
        columns: positions in its schema, ascending.
        types: of those columns in the batches.
        rows: of a batch at most.

    Raises:
        OSError, ValueError: the file cannot be read, or holds far more than its size lets expect.
    """
    size = path.stat().st_size
    most = max(FREE_BYTES, MOST_EXPANSION * size)
    kinds = list(types)
    schema = read_schema(path)
    names = [schema.names[place] for place in columns]
    for name, own in zip(names, (schema.types[place] for place in columns), strict=True):
        if pa.types.is_nested(own) or (pa.types.is_fixed_size_binary(own) and own.byte_width > WIDEST):
            raise ValueError(
                f"the column {name!r} has values of several parts, {str(own)[:60]}; write a column for each"
            )
    # Read as dictionaries, texts that repeat take no memory of their own.
    with _opened(path, [name for name, own in zip(schema.names, schema.types, strict=True) if _is_text(own)]) as file:
        metadata = file.metadata
        groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
        stated = sum(group.total_byte_size for group in groups)
        total = _checked(max(stated, ROW_BYTES * metadata.num_rows), most, size)
        rows = max(1, min(rows, BATCH_BYTES * max(metadata.num_rows, 1) // max(stated, 1)))
        total = 0
        for batch in file.iter_batches(rows, columns=names):
            held = max(sum(map(_bytes, batch.columns)), ROW_BYTES * batch.num_rows)
            total = _checked(total + held, most, size)
            step = max(1, batch.num_rows * BATCH_BYTES // max(held, 1))
            for start in range(0, batch.num_rows, step):
                own = batch.slice(start, step).select(names).columns
                arrays = [_as(array, kind) for array, kind in zip(own, kinds, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, [str(place) for place in columns])


def read_frame(path: Path) -> pd.DataFrame:
    """Return the columns of a file as one frame; raises as :func:`read_batches` does."""
    return pd.concat(read_frames(path), ignore_index=True)


def read_frames(path: Path, rows: int = BATCH_ROWS) -> Iterator[pd.DataFrame]:
    """Return the columns of a file as frames, one at least; without the index that pandas wrote beside them."""
    schema = read_schema(path)
    places = [place for place, name in enumerate(schema.names) if not name.startswith("__index_level_")]
    names = [schema.names[place] for place in places]
    types = [plain_type(schema.types[place]) for place in places]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"has the column {twice!r} more than once")
    empty = pa.schema(list(zip(names, types, strict=True))).empty_table()
    none = True
    for batch in read_batches(path, places, types, rows):
        none = False
        yield pa.Table.from_batches([batch]).rename_columns(names).to_pandas()
    if none:
        yield empty.to_pandas()


@contextmanager
def _opened(path: Path, texts: Sequence[str] = ()) -> Iterator[pyarrow.parquet.ParquetFile]:
    with open_regular(path) as opened:
        try:
            file = pyarrow.parquet.ParquetFile(
                opened, read_dictionary=list(texts), thrift_container_size_limit=MOST_COLUMNS
            )
        except (OSError, pa.ArrowException) as error:
            raise ValueError(f"is no Parquet file: {' '.join(str(error).split())}") from error
        with file:
            yield file


def _checked(total: int, most: int, size: int) -> int:
    if total > most:
        raise ValueError(f"holds more than {total >> 30} GiB in {size} bytes, which no table of offers does")
    return total


def _bytes(array: pa.Array) -> int:
    """Return the bytes of an array without its dictionary."""
    if not pa.types.is_dictionary(array.type) or not _is_text(array.type.value_type):
        return int(array.nbytes)
    lengths = pc.binary_length(array.dictionary)
    return int(pc.sum(lengths.take(array.indices)).as_py() or 0) + int(array.indices.nbytes)


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    if pa.types.is_floating(kind) and pa.types.is_integer(plain.type):
        bounds = pc.min_max(plain).as_py()
        if any(abs(bound) > EXACT for bound in bounds.values() if bound is not None):
            raise ValueError("has whole numbers beyond 2^53 in a column that has decimals in another file")
    # Times are read to the microsecond, in one file too.
    return plain if plain.type == kind else plain.cast(kind, safe=not pa.types.is_timestamp(kind))


def _is_text(kind: pa.DataType) -> bool:
    tests = "is_string", "is_large_string", "is_string_view", "is_binary", "is_large_binary", "is_binary_view"
    return any(getattr(pa.types, test)(kind) for test in tests)
