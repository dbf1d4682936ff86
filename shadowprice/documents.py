"""Small files that others wrote, read in bounded time and memory whatever they are; dataclasses of arrays as JSON."""

import errno
import json
import math
import os
import stat
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from types import UnionType
from typing import Any, BinaryIO, Self, Union, get_args, get_origin, get_type_hints

import numpy as np

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


class Plain:
    """Base of dataclasses whose fields are numbers, texts, times, arrays, mappings, tuples and further dataclasses."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types by field; :meth:`from_dict` is the inverse."""
        content: dict[str, Any] = _plain(self)
        return content

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild what :meth:`to_dict` gave; a field that ``data`` lacks takes its default."""
        document: Self = _typed(cls, data)
        return document


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(member) for member in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if isinstance(value, datetime):
        return value.isoformat()
    # JSON has neither infinity nor NaN.
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def _typed(kind: Any, data: Any) -> Any:
    """``data`` as the annotated type."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return None if data is None else _typed(next(choice for choice in args if choice is not type(None)), data)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        build: Any = kind
        return build(**{name: _typed(hint, data[name]) for name, hint in hints.items() if name in data})
    if origin is np.ndarray:
        return np.asarray(data, dtype=get_args(args[1])[0])
    if kind is datetime:
        return datetime.fromisoformat(data)
    if kind is float:
        return float(data)
    if isinstance(data, Mapping):
        return {key: _typed(args[1] if args else Any, member) for key, member in data.items()}
    if isinstance(data, list | tuple):
        return tuple(_typed(args[0] if args else Any, member) for member in data)
    return data
