"""Sources of files that no mapping describes yet: their encoding, quotes and delimiter."""

from pathlib import Path

from shadowprice.errors import InvalidInput, NotFound
from shadowprice.mapping.description import Source
from shadowprice.mapping.files.blocks import marked_encoding, text_blocks
from shadowprice.mapping.files.dialect import SAMPLE, Dialect, find_dialect
from shadowprice.mapping.rows import PARQUET

WIDE = ("utf-16-le", "utf-16-be")
WESTERN = "windows-1252"


def propose_source(name: str, file: Path) -> tuple[Source, str]:
    """Return a file with the dialect that it has, and what only the user can confirm about it.

    Raises:
        NotFound: there is no such file.
        InvalidInput: it is no text file, or its encoding cannot be told.
    """
    if file.suffix.lower() in PARQUET:
        return Source(name=name, file=str(file)), ""
    try:
        encoding = _encoding(file)
        dialect = _dialect(file, encoding)
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {file}") from error
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot be read: {error}", field=str(file)) from error
    doubts = []
    if encoding in (WESTERN, *WIDE):
        doubts.append(f"the file is not UTF-8, and its encoding is taken for {encoding}")
    if dialect.header > 1:
        doubts.append(f"the names of the columns are taken from line {dialect.header}")
    if dialect.quote != '"':
        doubts.append(
            "cells are taken to stand in other quotes" if dialect.quote else "cells are taken to have no quotes"
        )
    source = Source(
        name=name,
        file=str(file),
        delimiter=dialect.delimiter,
        quote=dialect.quote,
        encoding=encoding,
        header=dialect.header if dialect.header > 1 else 0,
    )
    return source, "; ".join(doubts)


def _encoding(file: Path) -> str:
    """Return the encoding of a file, empty where it is UTF-8; that of a byte order mark is certain.

    Raises:
        ValueError: its bytes are of none that can be told.
    """
    head = _head(file, "latin-1").decode().encode("latin-1")
    marked = marked_encoding(head)
    if marked:
        return "" if marked == "utf-8" else marked
    zeros = [head[place::2].count(0) for place in (1, 0)]
    if max(zeros) > len(head) // 4:
        return WIDE[zeros.index(max(zeros))]
    for encoding in ("utf-8", WESTERN):
        try:
            for _ in text_blocks(file, encoding):
                pass
        except ValueError as error:
            reason = error
            continue
        return "" if encoding == "utf-8" else encoding
    raise reason


def _dialect(file: Path, encoding: str) -> Dialect:
    """Return the dialect with double quotes, unless only another one fits every record of the sample."""
    dialects = [find_dialect(file, quote=quote, encoding=encoding) for quote in ('"', "'", "")]
    double, single, none = dialects
    if single.fits and single.width > 1 and _in_single_quotes(file, encoding, single):
        return single
    if not (double.fits and double.width > 1) and none.fits and none.width > 1:
        return none
    return double


def _in_single_quotes(file: Path, encoding: str, dialect: Dialect) -> bool:
    """Return whether cells of the first lines stand in single quotes, and none in double ones."""
    head = _head(file, encoding).decode(errors="ignore")
    cells = [cell for line in head.splitlines()[:200] for cell in line.split(dialect.delimiter)]
    single = sum(len(cell) > 1 and cell[0] == cell[-1] == "'" for cell in cells)
    return single > 1 and not any(cell.startswith('"') for cell in cells)


def _head(file: Path, encoding: str) -> bytes:
    """Return the first blocks of a text in UTF-8."""
    head = b""
    for block in text_blocks(file, encoding):
        head += block
        if len(head) >= SAMPLE:
            break
    return head
