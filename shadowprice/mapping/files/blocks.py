"""Text files in blocks of UTF-8: regular files, also compressed, of any encoding that Python reads."""

import codecs
import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from shadowprice.documents import open_regular

BLOCK = 1 << 22
"""Bytes of a file that are read at once."""
MOST_EXPANSION = 200
"""Bytes of content for each byte of a file at most, beyond :data:`FREE_BYTES`."""
FREE_BYTES = 1 << 30
"""Bytes of content that a file may have however small it is."""
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_OTHERS = {
    b"PK\x03\x04": "a ZIP archive or an Excel workbook; unpack it, or save its sheet as CSV in UTF-8",
    b"\xd0\xcf\x11\xe0": "an Excel workbook; save its sheet as CSV in UTF-8",
    b"PAR1": "a Parquet file; name it .parquet",
    b"SQLite format 3": "a SQLite database; name it with attach and type: sqlite",
    b"%PDF": "a PDF file; export the table as CSV",
    b"BZh": "compressed with bzip2; unpack it, or compress it with gzip",
    b"\xfd7zXZ": "compressed with xz; unpack it, or compress it with gzip",
    b"7z\xbc\xaf": "a 7z archive; unpack it",
}
Bytes = gzip.GzipFile | BinaryIO
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_NOT_OF_TEXT = frozenset(("idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "utf-7", "mbcs"))


def codec_of(encoding: str) -> str:
    """Return Python's name of an encoding.

    Raises:
        ValueError: there is no such encoding of text.
    """
    try:
        codec = codecs.lookup(encoding)
    except (LookupError, ValueError) as error:
        raise ValueError(f"must be an encoding such as utf-8 or windows-1252; got {encoding[:60]!r}") from error
    if codec.name in _NOT_OF_TEXT or not getattr(codec, "_is_text_encoding", True):
        raise ValueError(f"must be an encoding of text files such as utf-8 or windows-1252; got {encoding!r}")
    return codec.name


def marked_encoding(head: bytes) -> str:
    """Return the encoding that the byte order mark at the beginning of a file names; empty without a mark."""
    return next((name for mark, name in _MARKS.items() if head.startswith(mark)), "")


def text_blocks(path: Path, encoding: str = "") -> Iterator[bytes]:
    """Return the text of a file in UTF-8, in blocks that end anywhere between two characters, without a mark.

    Args:
        path: of a regular file, or one that gzip or Zstandard compressed.
        encoding: of the file; empty: that of the byte order mark, or else UTF-8.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no such file, or a byte is not of the encoding; the message names the line.
    """
    with open_regular(path) as file, _unpacked(file) as content:
        head = content.read(16)
        for mark, kind in _OTHERS.items():
            if head.startswith(mark):
                raise ValueError(f"is {kind}")
        codec = codec_of(encoding or marked_encoding(head) or "utf-8")
        yield from _decoded(content, head, codec, os.fstat(file.fileno()).st_size)


def _unpacked(file: BinaryIO) -> Bytes:
    head = file.read(4)
    file.seek(0)
    if head.startswith(_GZIP):
        return gzip.GzipFile(fileobj=file)
    if head.startswith(_ZSTD):
        return pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")  # type: ignore[no-any-return]
    return file


def _decoded(content: Bytes, head: bytes, codec: str, size: int) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(codec)()
    lines, total = 1, 0
    block, last = head, not head
    while True:
        try:
            text = decoder.decode(block, final=last).encode()
        except UnicodeError as error:
            raise ValueError(_misfit(error, lines, codec)) from error
        if not total:
            text = text.removeprefix(codecs.BOM_UTF8)
        total += len(text)
        if total > max(FREE_BYTES, MOST_EXPANSION * size):
            raise ValueError(f"holds more than {total >> 30} GiB in {size} bytes, which no table of offers does")
        if text:
            yield text
        if last:
            return
        lines += text.count(b"\n")
        try:
            block = bytes(content.read(BLOCK))
        except (EOFError, zlib.error, gzip.BadGzipFile, pa.ArrowException) as error:
            raise ValueError(f"is damaged: {error}") from error
        last = not block


def _misfit(error: UnicodeError, lines: int, codec: str) -> str:
    if not isinstance(error, UnicodeDecodeError):
        return f"is not {codec}: {error}; name the file's encoding, such as windows-1252"
    line = lines + error.object[: error.start].count(b"\n")
    shown = error.object[error.start : error.start + 1].hex()
    return f"line {line} is not {codec}: byte 0x{shown}; name the file's encoding, such as windows-1252"
