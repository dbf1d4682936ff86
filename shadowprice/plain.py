"""Dataclasses of arrays as plain JSON types, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from types import UnionType
from typing import Any, Self, Union, get_args, get_origin, get_type_hints

import numpy as np


class Plain:
    """Base of dataclasses whose fields are numbers, texts, times, arrays, mappings, tuples and further dataclasses."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types by field; :meth:`from_dict` is the inverse."""
        found: dict[str, Any] = _plain(self)
        return found

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild what :meth:`to_dict` gave; a field that ``data`` lacks takes its default."""
        found: Self = _typed(cls, data)
        return found


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(each) for each in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if isinstance(value, datetime):
        return value.isoformat()
    # JSON has neither infinity nor NaN.
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def _typed(kind: Any, data: Any) -> Any:
    """``data`` as the annotated type."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return None if data is None else _typed(next(each for each in args if each is not type(None)), data)
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
        return {key: _typed(args[1] if args else Any, each) for key, each in data.items()}
    if isinstance(data, list | tuple):
        return tuple(_typed(args[0] if args else Any, each) for each in data)
    return data
