"""Delimited files as Arrow: each record of a file is a row, blank, above the header, or refused with its line."""

import codecs
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from shadowprice.mapping.files.blocks import text_blocks
from shadowprice.mapping.files.dialect import Dialect, names_of
from shadowprice.mapping.files.structure import Records, split_records

MOST_RECORD = 1 << 20
"""Bytes of a record at most; a quote that is never closed makes a longer one."""
SHOWN = 5
"""Rows of a fault that are kept."""
NUL = "has a NUL character; name the file's encoding, such as utf-16"
OTHER_QUOTE = "double it in a cell in quotes, or give the source another quote"
STRAY = f"has a quote within a cell; {OTHER_QUOTE}"
MARK = "begins with a byte order mark, as where files were joined; remove the mark"


@dataclass
class Fault:
    """First rows that are refused for a reason, the lines they begin in, and their number."""

    rows: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    count: int = 0


class Delimited:
    """Rows of one delimited file.

    After :meth:`batches`, ``above`` + 1 (the header) + ``rows`` + ``refused`` + ``blank`` is the number of records of
    the file. No parser leaves any of them out: each block is counted before it is parsed and after it.

    Args:
        path: of the file; its header is read at once.
        dialect: of the file.

    Raises:
        OSError, ValueError: the file cannot be read, is not text, or has no such header.
    """

    def __init__(self, path: Path, dialect: Dialect) -> None:
        self.above = self.rows = self.refused = self.blank = 0
        self.faults: dict[str, Fault] = {}
        self._dialect = dialect
        self._pieces = self._read(path)
        self._jumps: list[NDArray[np.int64]] = []
        header, self._first = self._find_header()
        if "\0" in header:
            raise ValueError(NUL)
        self.names = names_of(header, dialect)

    def batches(self, columns: Collection[int], null: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Return the cells of some columns as text; the names of the columns are their positions.

        Where rows are refused, :attr:`faults` has them at the end, and no batch follows the first of them.

        Args:
            columns: positions in the header.
            null: texts of an unknown cell.

        Raises:
            OSError, ValueError: the file cannot be read, or is not text.
        """
        yield from self._parsed(self._first, columns, null)
        for piece in self._pieces:
            yield from self._parsed(piece, columns, null)

    def line_of(self, row: int) -> int:
        """Return the line in which a row begins, counted from 1."""
        jumps = np.concatenate(self._jumps)
        return row + int(jumps[np.searchsorted(jumps[:, 0], row, side="right") - 1, 1])

    def _read(self, path: Path) -> Iterator[Records]:
        delimiter, quote = self._dialect.delimiter, self._dialect.quote
        line, rest = 1, b""
        for block in text_blocks(path, self._dialect.encoding):
            records, rest = split_records(rest + block, delimiter, quote, line=line, last=False)
            line = records.following
            yield records
            if len(rest) > MOST_RECORD:
                raise ValueError(
                    f"line {line} begins a record of more than {MOST_RECORD} bytes; is a quote not closed?"
                )
        records, rest = split_records(rest, delimiter, quote, line=line)
        yield records
        if rest:
            raise ValueError(f"line {records.following} has a quote that is never closed; {OTHER_QUOTE}")

    def _find_header(self) -> tuple[str, Records]:
        """Return the text of the header, and the records after it in the same piece."""
        wanted = self._dialect.header
        for piece in self._pieces:
            place = int(np.searchsorted(piece.lines, wanted))
            self.above += min(place, len(piece))
            if place < len(piece):
                if piece.lines[place] != wanted:
                    raise ValueError(f"line {wanted}, the header, is within a record")
                return piece.text(place), piece.after(place)
        raise ValueError(f"has no line {wanted} with a header" if self.above else "is empty")

    def _parsed(self, piece: Records, columns: Collection[int], null: Sequence[str]) -> Iterator[pa.RecordBatch]:
        filled = self._count(piece)
        if not filled or self.faults:
            return
        dialect = self._dialect
        names = [str(place) for place in range(len(self.names))]
        kept = [str(place) for place in sorted(columns)] or names[:1]
        table = pyarrow.csv.read_csv(
            pa.BufferReader(piece.content),
            read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=2 * MOST_RECORD),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char=dialect.quote or False,
                double_quote=True,
                escape_char=False,
                newlines_in_values=bool(dialect.quote) and dialect.quote.encode() in piece.content,
                ignore_empty_lines=True,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=kept,
                null_values=list(null),
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
        if table.num_rows != filled:
            raise ValueError(f"line {piece.lines[0]} and those after it: {filled} rows were parsed as {table.num_rows}")
        yield from table.to_batches()

    def _count(self, piece: Records) -> int:
        """Count the records of a piece and note its faults; return the number of those that are not blank."""
        filled = ~piece.blank
        number = np.cumsum(filled) - 1 + self.rows + self.refused
        offset = (piece.lines - number)[filled]
        if len(offset):
            changes = np.flatnonzero(np.diff(offset, prepend=offset[0] - 1))
            self._jumps.append(np.stack([number[filled][changes], offset[changes]], axis=1))
        wrong = np.zeros(len(piece), bool)
        for reason, places in self._faulty(piece, filled):
            wrong[places] = True
            fault = self.faults.setdefault(reason, Fault())
            fault.count += len(places)
            kept = places[: SHOWN - len(fault.rows)]
            fault.rows += number[kept].tolist()
            fault.lines += piece.lines[kept].tolist()
        self.blank += int((~filled).sum())
        self.refused += int(wrong.sum())
        self.rows += int((filled & ~wrong).sum())
        return int(filled.sum())

    def _faulty(self, piece: Records, filled: NDArray[np.bool_]) -> Iterator[tuple[str, NDArray[np.int64]]]:
        width = len(self.names)
        ragged = filled & (piece.cells != width)
        for cells in np.unique(piece.cells[ragged]).tolist():
            counted = f"has {cells} cell{'s' * (cells > 1)} where the header has {width}"
            yield counted, np.flatnonzero(ragged & (piece.cells == cells))
        if len(piece.strays):
            yield STRAY, piece.strays
        # Arrow leaves a mark before the first cell of a piece out.
        marks = [mark.start() for mark in re.finditer(codecs.BOM_UTF8, piece.content)]
        if marks and (begins := np.isin(np.append(0, piece.ends[:-1]), marks)).any():
            yield MARK, np.flatnonzero(begins)
        if b"\0" in piece.content:
            places = np.flatnonzero(np.frombuffer(piece.content, np.uint8) == 0)
            yield NUL, np.unique(np.searchsorted(piece.ends, places, side="right"))
