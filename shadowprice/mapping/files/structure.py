"""Records of delimited text (RFC 4180), split without parsing their cells.

A record ends at a line end outside quotes: LF, CR or CR LF. A quote opens a cell at its first character and closes it
at its last one; within, it stands twice. A quote anywhere else is a fault, which parsers mend in different ways.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_LF, _CR = 10, 13


@dataclass(frozen=True)
class Records:
    """Whole records of a piece of text.

    content  the records
    ends     position after each record, its line end included
    cells    number of cells of each
    lines    line in which each begins, counted from 1
    blank    whether a record has no character
    strays   places of records with a quote that neither opens nor closes a cell
    following  line after the last record
    """

    content: bytes
    ends: NDArray[np.int64]
    cells: NDArray[np.int64]
    lines: NDArray[np.int64]
    blank: NDArray[np.bool_]
    strays: NDArray[np.int64]
    following: int

    def __len__(self) -> int:
        return len(self.ends)

    def after(self, place: int) -> Records:
        """Return the records after one of them."""
        start, rest = int(self.ends[place]), slice(place + 1, None)
        strays = self.strays[self.strays > place] - place - 1
        own = self.cells[rest], self.lines[rest], self.blank[rest]
        return Records(self.content[start:], self.ends[rest] - start, *own, strays, self.following)

    def text(self, place: int) -> str:
        """Return the text of a record without its line end."""
        start = int(self.ends[place - 1]) if place else 0
        return self.content[start : int(self.ends[place])].decode().rstrip("\r\n")


def split_records(
    text: bytes, delimiter: str, quote: str, *, line: int = 1, last: bool = True
) -> tuple[Records, bytes]:
    """Return the whole records of a text and what stands after them.

    Args:
        text: UTF-8 that begins with a record.
        delimiter: one ASCII character.
        quote: one ASCII character, or empty where cells have no quotes.
        line: number of the first line.
        last: whether no text follows; the rest is then a record without a line end, or one whose quote is not closed.

    Complexity: O(bytes), vectorized.
    """
    if not text:
        nothing = np.empty(0, np.int64)
        return Records(text, nothing, nothing, nothing, nothing.astype(bool), nothing, line), text
    signs = np.frombuffer(text, np.uint8)
    line_ends, cell_ends = signs == _LF, signs == ord(delimiter)
    returns = signs == _CR
    if returns.any():
        followed = np.append(line_ends[1:], not last)
        line_ends |= returns & ~followed
    record_ends = line_ends
    strays: NDArray[np.int64] = np.empty(0, np.int64)
    if quote and quote.encode() in text:
        quotes = signs == ord(quote)
        within: NDArray[np.bool_] = np.logical_xor.accumulate(quotes)
        strays = _strays(quotes, within, cell_ends | line_ends | returns)
        record_ends, cell_ends = line_ends & ~within, cell_ends & ~within
        closed = not within[-1]
    else:
        closed = True
    ends = np.flatnonzero(record_ends) + 1
    whole = len(text) if last and closed else int(ends[-1]) if len(ends) else 0
    if whole > (ends[-1] if len(ends) else 0):
        ends = np.append(ends, whole)
    starts = np.append(0, ends[:-1])[: len(ends)]
    length = ends - starts
    crlf = (signs[starts] == _CR) & (signs[np.minimum(starts + 1, len(signs) - 1)] == _LF)
    blank = line_ends[ends - 1] & ((length == 1) | ((length == 2) & crlf))
    records = Records(
        content=text[:whole],
        ends=ends,
        cells=np.diff(np.searchsorted(np.flatnonzero(cell_ends), ends), prepend=0) + 1,
        lines=line + np.searchsorted(np.flatnonzero(line_ends), starts),
        blank=blank,
        strays=np.unique(np.searchsorted(ends, strays[strays < whole], side="right")),
        following=line + int(np.count_nonzero(line_ends[:whole])),
    )
    return records, text[whole:]


def _strays(quotes: NDArray[np.bool_], within: NDArray[np.bool_], apart: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the positions of quotes that neither open a cell at its beginning nor close one at its end."""
    beside = quotes | apart
    opening, closing = np.flatnonzero(quotes & within), np.flatnonzero(quotes & ~within)
    before = np.append(True, beside[:-1])
    after = np.append(beside[1:], True)
    return np.sort(np.concatenate([opening[~before[opening]], closing[~after[closing]]]))
