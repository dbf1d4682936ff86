"""Dialect of a delimited file: its delimiter and the line of its header, found by rules where they are not given."""

import csv
import io
import string
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shadowprice.mapping.files.blocks import text_blocks
from shadowprice.mapping.files.structure import Records, split_records

DELIMITERS = (",", ";", "\t", "|", "^", "~", "\x01")
"""Delimiters that are tried."""
SAMPLE = 1 << 18
"""Bytes of text from which a dialect is found."""
MOST_ABOVE = 50
"""Lines that may stand above a header."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """Form of a delimited file; no parser guesses any of it.

    header  line of the names, counted from 1
    fits    whether every record of the sample has as many cells as the header, and no quote within a cell
    width   cells of the header
    share   part of the records of the sample that have as many cells as the header
    """

    delimiter: str
    quote: str
    encoding: str
    header: int
    fits: bool = True
    width: int = 0
    share: float = 0.0


def find_dialect(path: Path, *, delimiter: str = "", quote: str = '"', encoding: str = "", header: int = 0) -> Dialect:
    """Return the dialect of a file; what is given stays.

    By the delimiter most records of the first :data:`SAMPLE` bytes have as many cells as the header; of several it is
    the one with more cells. The header is the first line with as many cells as most. Above it may be blank lines, lines
    of one cell, and lines that begin with ``#``.

    Raises:
        OSError, ValueError: the file cannot be read, or is not text; see :func:`text_blocks`.
    """
    sample = b""
    whole = True
    for block in text_blocks(path, encoding):
        sample += block
        if len(sample) >= SAMPLE:
            whole = False
            break
    if not delimiter and sample[:4].lower() == b"sep=":
        delimiter = sample[4:5].decode(errors="ignore").strip(string.ascii_letters + string.digits + "\r\n\"'\0")
    tried = [delimiter] if delimiter else DELIMITERS
    fits = [_fit(sample, mark, quote, encoding, header, whole) for mark in tried]
    return max(fits, key=lambda each: (each.width > 1, each.share, each.width))


def names_of(text: str, dialect: Dialect) -> tuple[str, ...]:
    """Return the names in the text of a header, without spaces around them and in one Unicode form.

    Raises:
        ValueError: a name is too long.
    """
    lines = io.StringIO(text.lstrip("\ufeff"), newline="")
    if dialect.quote:
        reader = csv.reader(lines, delimiter=dialect.delimiter, quotechar=dialect.quote)
    else:
        reader = csv.reader(lines, delimiter=dialect.delimiter, quoting=csv.QUOTE_NONE)
    try:
        cells = next(reader, [])
    except csv.Error as error:
        raise ValueError(f"has no header that can be read: {error}") from error
    return tuple(unicodedata.normalize("NFC", cell.strip().strip("\ufeff\u200b")) for cell in cells)


def _fit(sample: bytes, delimiter: str, quote: str, encoding: str, header: int, whole: bool) -> Dialect:
    records, rest = split_records(sample, delimiter, quote, last=whole)
    if not len(records):
        return Dialect(delimiter=delimiter, quote=quote, encoding=encoding, header=1, fits=False)
    place = int(np.searchsorted(records.lines, header)) if header else _header(records, delimiter)
    place = min(place, len(records) - 1)
    width = int(records.cells[place])
    filled = ~records.blank
    alike = (records.cells == width) & filled
    fits = bool((alike | ~filled)[place:].all()) and not (records.strays >= place).any() and not (whole and rest)
    return Dialect(
        delimiter=delimiter,
        quote=quote,
        encoding=encoding,
        header=header or int(records.lines[place]),
        fits=fits,
        width=width,
        share=float(alike.sum() / max(filled.sum(), 1)),
    )


def _header(records: Records, delimiter: str) -> int:
    """Return the place of the header: the first record that is no remark above the table."""
    several = records.cells[records.cells > 1]
    width = int(np.bincount(several).argmax()) if len(several) else 1
    for place in range(min(len(records), MOST_ABOVE)):
        if records.blank[place]:
            continue
        text, cells = records.text(place), int(records.cells[place])
        lone = sum(bool(name.strip().strip('"')) for name in text.split(delimiter)) <= 1
        title = width > 1 and (cells == 1 or (lone and width > 2))
        remark = cells != width and text.lstrip('"').startswith("#")
        if not (title or remark or text.lower().startswith("sep=")):
            return place
    return 0
