"""Parquet files that mean harm: makers of small ones that hold much, or are no files at all."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet


def repeated(path: Path) -> None:
    """Thirty thousand texts of a million characters in some kilobytes."""
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(30_000, np.int32)), pa.array(["x" * 1_000_000]))
    pa.parquet.write_table(pa.table({"no": texts, "who": texts}), path, compression="zstd")


def long_pages(path: Path) -> None:
    """Texts of a million characters, compressed a thousandfold."""
    table = pa.table({"no": ["x" * 1_000_000] * 60, "who": ["y"] * 60})
    with pa.parquet.ParquetWriter(path, table.schema, compression="zstd", use_dictionary=False) as writer:
        for _ in range(30):
            writer.write_table(table)


def many_rows(path: Path) -> None:
    """Two hundred million numbers in two megabytes."""
    table = pa.table({"no": np.zeros(20_000_000, np.int64), "who": np.zeros(20_000_000, np.int8)})
    with pa.parquet.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(10):
            writer.write_table(table)


def nested(path: Path) -> None:
    """Twenty million numbers in one cell."""
    column = pa.array([[1.0] * 20_000_000, *[[1.0]] * 9])
    pa.parquet.write_table(pa.table({"account_id": ["a"] * 10, "x_a": column}), path)


def no_columns(path: Path) -> None:
    pa.parquet.write_table(pa.table({}), path)


def wide_text(path: Path) -> None:
    """Thirty thousand texts of a million characters, of the type of texts that some programs write."""
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(3000, np.int32)), pa.array(["x" * 1_000_000]))
    table = pa.table({"account_id": texts}).cast(
        pa.schema({"account_id": pa.dictionary(pa.int32(), pa.large_string())})
    )
    pa.parquet.write_table(table, path, compression="zstd")


def wide_values(path: Path) -> None:
    """Numbers of a megabyte each."""
    column = pa.array([b"x" * 1_000_000] * 2, pa.binary(1_000_000))
    pa.parquet.write_table(pa.table({"account_id": column}), path, compression="zstd")


def _number(value: int) -> bytes:
    found = b""
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])


def _schema(path: Path, elements: list[bytes]) -> None:
    """A file whose metadata have these elements of a schema, in Thrift's compact protocol, and no row."""
    footer = b"\x15\x02\x19\xfc" + _number(len(elements)) + b"".join(elements) + b"\x16\x00\x19\x0c\x00"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def deep(path: Path) -> None:
    group, leaf = b"\x35\x02\x18\x01a\x15\x02\x00", b"\x15\x02\x25\x02\x18\x01x\x00"
    _schema(path, [b"\x48\x01r\x15\x02\x00", *[group] * 50_000, leaf])


def many_columns(path: Path) -> None:
    leaf = b"\x15\x02\x25\x02\x18\x01x\x00"
    _schema(path, [b"\x48\x01r\x15" + _number(2 * 900_000) + b"\x00", *[leaf] * 900_000])


def pipe(path: Path) -> None:
    os.mkfifo(path)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


def half(path: Path) -> None:
    pa.parquet.write_table(pa.table({"account_id": ["a"] * 1000}), path)
    os.truncate(path, path.stat().st_size // 2)


HARM = [
    *(repeated, long_pages, many_rows, nested, no_columns, wide_text, wide_values, deep, many_columns),
    *(pipe, zeros, folder, half),
]
