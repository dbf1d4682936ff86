"""Small files that others wrote, such as JSON records, read in bounded time and memory whatever they turn out to be."""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import Any, BinaryIO

MOST_BYTES = 1 << 26
"""Bytes of a document at most, unless its reader knows better."""


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading.

    Nothing is read from a pipe, a device or a folder, and opening them does not wait.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is not a regular file.
    """
    try:
        # Without O_NONBLOCK the opening of a pipe waits for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ELOOP):
            raise ValueError("is not a regular file") from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("is not a regular file")
    return open(descriptor, "rb")


def read_document(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: the file cannot be opened or read.
        ValueError: it is not a regular file, or has more than ``most`` bytes.
    """
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"has more than {most} bytes")
    return content


def parse_json(text: str | bytes) -> Any:
    """Return the value that JSON describes.

    Raises:
        ValueError: it is not JSON, or is nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def read_json(path: str | os.PathLike[str], most: int = MOST_BYTES) -> Any:
    """Return the value that a JSON file holds; raises as :func:`read_document` and :func:`parse_json` do.

    >>> read_json("model/model.json")["model_version"]
    """
    return parse_json(read_document(path, most))
