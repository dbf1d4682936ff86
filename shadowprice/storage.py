"""Store a dataclass as JSON and read it back, checked by its annotations.

Fields may be numbers, texts, times, arrays, and dataclasses, tuples and mappings of those. NaN becomes null and is
read as NaN.
"""

import json
import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from shadowprice.documents import parse_json
from shadowprice.errors import InvalidInput

T = TypeVar("T")


def to_json(record: Any) -> str:
    """JSON text of a dataclass; :func:`from_json` is the inverse."""
    return json.dumps(_plain(record), indent=1, allow_nan=False)


def from_json(kind: type[T], text: str | bytes) -> T:
    """The dataclass ``kind`` from what :func:`to_json` gave.

    Raises:
        InvalidInput: not JSON, or fields that are missing, unknown or of another type.
    """
    try:
        value: T = _build(kind, parse_json(text), kind.__name__)
    except ValueError as error:
        raise InvalidInput(f"is not JSON: {error}", field=kind.__name__) from None
    return value


def _plain(entry: Any) -> Any:
    if is_dataclass(entry):
        return {field.name: _plain(getattr(entry, field.name)) for field in fields(entry)}
    if isinstance(entry, Mapping):
        return {str(key): _plain(value) for key, value in entry.items()}
    if isinstance(entry, np.ndarray):
        return _plain(entry.tolist())
    if isinstance(entry, (list, tuple)):
        return [_plain(value) for value in entry]
    if isinstance(entry, datetime):
        return entry.isoformat()
    if isinstance(entry, np.generic):
        entry = entry.item()
    if isinstance(entry, float) and not math.isfinite(entry):
        return None if math.isnan(entry) else ("inf" if entry > 0 else "-inf")
    return entry


def _build(hint: Any, entry: Any, field: str) -> Any:
    """``entry`` as the annotated type; ``field`` is its path, for messages."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _one_of(inner, entry, field)
    if origin is Literal:
        if entry not in inner:
            raise InvalidInput(f"must be one of {inner}, got {entry!r}", field=field)
        return entry
    if origin is np.ndarray:
        kind = get_args(inner[1])[0]
        cells = _expect(entry, list, field)
        return np.array([np.nan if cell is None else cell for cell in cells], dtype=kind)
    if origin is tuple:
        return tuple(_build(inner[0], cell, f"{field}[{at}]") for at, cell in enumerate(_expect(entry, list, field)))
    if origin is not None:
        return {key: _build(inner[1], cell, f"{field}.{key}") for key, cell in _expect(entry, dict, field).items()}
    if is_dataclass(hint):
        return _dataclass(hint, _expect(entry, dict, field), field)
    if hint is datetime:
        return datetime.fromisoformat(_expect(entry, str, field))
    if hint is float:
        return float("nan") if entry is None else float(_expect(entry, (int, float, str), field))
    return _expect(entry, hint, field)


def _one_of(choices: tuple[Any, ...], entry: Any, field: str) -> Any:
    if entry is None:
        return None if type(None) in choices else float("nan")
    for choice in choices:
        if _fits(choice, entry):
            return _build(choice, entry, field)
    raise InvalidInput(f"must be one of {choices}, got {entry!r}", field=field)


def _fits(choice: Any, entry: Any) -> bool:
    if isinstance(entry, dict):
        return is_dataclass(choice) or get_origin(choice) is Mapping
    if isinstance(entry, list):
        return get_origin(choice) in (np.ndarray, tuple)
    return choice is type(entry) or (choice is float and (type(entry) is int or entry in ("inf", "-inf")))


def _dataclass(kind: Any, entry: dict[str, Any], field: str) -> Any:
    hints = get_type_hints(kind)
    optional = {
        field_of.name
        for field_of in fields(kind)
        if field_of.default is not MISSING or field_of.default_factory is not MISSING
    }
    wrong = (set(entry) ^ {field_of.name for field_of in fields(kind)}) - (optional - set(entry))
    if wrong:
        raise InvalidInput(f"fields differ from the schema: {', '.join(sorted(wrong))}", field=field)
    return kind(**{name: _build(hints[name], value, f"{field}.{name}") for name, value in entry.items()})


def _expect(entry: Any, kind: Any, field: str) -> Any:
    if not isinstance(entry, kind):
        raise InvalidInput(f"must be {kind}, got {type(entry).__name__}", field=field)
    return entry
