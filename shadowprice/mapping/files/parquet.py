"""Parquet files as Arrow in bounded memory, and one type for a column of several files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from shadowprice.documents import open_regular
from shadowprice.mapping.files.blocks import FREE_BYTES, MOST_EXPANSION

BATCH_ROWS = 1 << 16
BATCH_BYTES = 1 << 26
"""Bytes of a batch, as far as the file tells the size of its rows."""
EXACT = 2**53
"""Whole numbers up to this one are exact in a column of floats."""


def read_schema(path: Path) -> pa.Schema:
    """Return names and types of the columns of a Parquet file.

    Raises:
        OSError, ValueError: it cannot be read, or is no Parquet file.
    """
    with open_regular(path) as file:
        return pyarrow.parquet.read_schema(file)


def common_type(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type of a column that has these types in several files; None where they do not fit."""
    plain = [each.value_type if pa.types.is_dictionary(each) else each for each in types]
    known = list(dict.fromkeys(each for each in plain if not pa.types.is_null(each)))
    if len(known) <= 1:
        return known[0] if known else pa.string()
    if all(pa.types.is_integer(each) for each in known):
        return pa.int64()
    if all(pa.types.is_integer(each) or pa.types.is_floating(each) for each in known):
        return pa.float64()
    if all(pa.types.is_string(each) or pa.types.is_large_string(each) for each in known):
        return pa.string()
    if all(pa.types.is_timestamp(each) for each in known) and len({each.tz for each in known}) == 1:
        return pa.timestamp("us", known[0].tz)
    return None


def read_batches(path: Path, columns: Collection[int], types: Iterable[pa.DataType]) -> Iterator[pa.RecordBatch]:
    """Return the cells of some columns; the names of the columns are their positions.

    Args:
        path: of the file.
        columns: positions in its schema, ascending.
        types: of those columns in the batches.

    Raises:
        OSError, ValueError: the file cannot be read, or holds far more than its size lets expect.
    """
    with open_regular(path) as opened:
        size = opened.seek(0, 2)
        most = max(FREE_BYTES, MOST_EXPANSION * size)
        texts = [each.name for each in read_schema(path) if pa.types.is_string(each.type)]
        # Read as dictionaries, texts that repeat take no memory of their own.
        with pyarrow.parquet.ParquetFile(opened, read_dictionary=texts) as file:
            schema = file.schema_arrow
            names = [schema.names[place] for place in columns]
            metadata = file.metadata
            groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
            told = sum(each.total_byte_size for each in groups)
            total = _checked(told, most, size)
            rows = max(1, min(BATCH_ROWS, BATCH_BYTES * max(metadata.num_rows, 1) // max(told, 1)))
            total = 0
            for batch in file.iter_batches(rows, columns=names):
                total = _checked(total + sum(map(_bytes, batch.columns)), most, size)
                arrays = [_as(array, kind) for array, kind in zip(batch.select(names).columns, types, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, [str(place) for place in columns])


def _checked(total: int, most: int, size: int) -> int:
    if total > most:
        raise ValueError(f"holds more than {total >> 30} GiB in {size} bytes, which no table of offers does")
    return total


def _bytes(array: pa.Array) -> int:
    """Return the bytes of an array without its dictionary."""
    if not pa.types.is_dictionary(array.type):
        return int(array.nbytes)
    lengths = pc.binary_length(array.dictionary) if _is_text(array.type.value_type) else None
    if lengths is None:
        return int(array.nbytes)
    return int(pc.sum(lengths.take(array.indices)).as_py() or 0) + int(array.indices.nbytes)


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    if pa.types.is_floating(kind) and pa.types.is_integer(plain.type):
        bounds = pc.min_max(plain).as_py()
        if any(abs(each) > EXACT for each in bounds.values() if each is not None):
            raise ValueError("has whole numbers beyond 2^53 in a column that has decimals in another file")
    return plain if plain.type == kind else plain.cast(kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))
