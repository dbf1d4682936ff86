"""Coerce the columns of a file to their canonical types, and report the cells that do not fit.

Every function takes a column with a row number index. It returns the column in its canonical type, with null where a
cell did not fit, and those cells with the reason. Vectorized, O(rows).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from shadowprice.tables.schema import FLAG, REAL, TEXT, TIME, WHOLE, named_columns

Misfits = list[tuple[NDArray[np.bool_], str]]
Coerced = tuple["pd.Series[Any]", Misfits]

REFUSED = "\ufdd0"
"""Stands before and after the reason at the beginning of a cell that was refused before; no text has this character."""
LARGEST_WHOLE = 2**53
"""Beyond this a number that passed through a float is no longer exact."""

NO_ZONE = "has no time zone; write times in UTC, such as 2026-03-02T09:30:00Z"
NOT_A_TIME = "is not a time; write times in UTC, such as 2026-03-02T09:30:00Z"

_ZONE = r"[T ]\d{2}.*(?:Z|[+-]\d{2}(?::?\d{2})?)$"
_YEARS = (1677, 2262)
"""Years that 64-bit nanoseconds reach only in part."""

_FLAGS = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}


def coerce(column: pd.Series[Any], kind: str) -> Coerced:
    """``column`` as the canonical ``kind``, and the misfits."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    return _COERCERS[kind](column)


def split_refused(column: pd.Series[Any]) -> tuple[pd.Series[Any], dict[str, pd.Series[Any]]]:
    """Return a column with the cells that were refused before as they were written, and reason → those cells."""
    if not isinstance(column.dtype, pd.StringDtype):
        return column, {}
    marked = column.str.startswith(REFUSED).fillna(False).to_numpy(dtype=bool)
    if not marked.any():
        return column, {}
    parts = column[marked].str.split(REFUSED, n=2, regex=False)
    reasons, own = parts.str[1], parts.str[2]
    written = column.copy()
    written[marked] = own.astype(column.dtype)
    return written, {str(reason): own[reasons == reason] for reason in reasons.unique()}


def canonical(table: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a coerced frame with all named columns of its table, then its feature columns by name."""
    columns: dict[str, pd.Series[Any]] = {}
    for name, column in named_columns(table).items():
        kind = str(column.dtype)
        values = frame[name] if name in frame else _absent(frame.index, kind)
        explored = name == "exploration" and kind == FLAG
        if explored:
            values = values.fillna(False)
        whole = not column.nullable or explored
        # Rows that were refused have no value.
        if kind in (WHOLE, FLAG) and whole and not values.hasnans:
            values = values.astype("int64" if kind == WHOLE else "bool")
        columns[name] = values
    columns |= {name: frame[name] for name in sorted(set(frame.columns) - set(columns))}
    return pd.DataFrame(columns, index=frame.index)


def _absent(index: pd.Index[Any], kind: str) -> pd.Series[Any]:
    # An array, because a lone None would become NaN.
    unknown: dict[str, Any] = {TEXT: np.full(len(index), None), REAL: np.nan}
    column: pd.Series[Any] = pd.Series(unknown.get(kind, pd.NA), index=index, dtype=cast(Any, kind))
    return column


def _text(column: pd.Series[Any]) -> Coerced:
    known = column.notna().to_numpy()
    if isinstance(column.dtype, pd.StringDtype) or pd.api.types.infer_dtype(column) in ("string", "empty"):
        is_text = known
    else:
        is_text = column.map(lambda cell: isinstance(cell, str)).to_numpy(dtype=bool)
    # An empty cell and an absent one are the same thing in a CSV file.
    kept = is_text.copy()
    kept[is_text] = column[is_text] != ""
    values = column.astype(object)
    values[~kept] = None
    return values, [(known & ~is_text, f"must be text, not {_type_name(column)}; convert the column to strings")]


def _time(column: pd.Series[Any]) -> Coerced:
    known = column.notna().to_numpy()
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        years = column.dt.year.to_numpy()
        with np.errstate(invalid="ignore"):
            far = known & ((years <= _YEARS[0]) | (years >= _YEARS[1]))
        return column.mask(far).dt.tz_convert("UTC").astype(TIME), [(far, NOT_A_TIME)]
    if pd.api.types.is_datetime64_dtype(column.dtype) or pd.api.types.is_numeric_dtype(column.dtype):
        reason = NOT_A_TIME if pd.api.types.is_numeric_dtype(column.dtype) else NO_ZONE
        return pd.Series(pd.NaT, index=column.index, dtype=TIME), [(known, reason)]
    text = _as_text(column)
    if (times := _cast(text, pa.timestamp("ns", "UTC"))) is not None:
        return pd.Series(times, index=column.index, dtype=TIME), []
    parsed = pd.to_datetime(text, utc=True, format="ISO8601", errors="coerce").astype(TIME)
    unread = (text.notna() & parsed.isna()).to_numpy(dtype=bool)
    zoned = text.str.contains(_ZONE, na=True).to_numpy(dtype=bool)
    return parsed.mask(~zoned), [(unread, NOT_A_TIME), (~unread & ~zoned, NO_ZONE)]


def _real(column: pd.Series[Any]) -> Coerced:
    number, unread = _number(column)
    return pd.Series(number, index=column.index), [
        (unread, "is not a number; leave the cell empty where the value is unknown")
    ]


def _whole(column: pd.Series[Any]) -> Coerced:
    if pd.api.types.is_integer_dtype(column.dtype) and column.dtype != np.uint64:
        return column.astype(WHOLE), []
    number, unread = _number(column)
    unknown = np.isnan(number)
    huge = ~unknown & (np.abs(number) > LARGEST_WHOLE)
    part = ~unknown & ~huge & (number != np.floor(number))
    absent = unknown | huge | part
    whole = pd.arrays.IntegerArray(np.where(absent, 0, number).astype(np.int64), absent)
    return pd.Series(whole, index=column.index), [
        (unread, "is not a whole number"),
        (part, "must be a whole number; money is in minor units (cents)"),
        (huge, f"must not exceed {LARGEST_WHOLE}"),
    ]


def _flag(column: pd.Series[Any]) -> Coerced:
    if pd.api.types.is_bool_dtype(column.dtype):
        return column.astype(FLAG), []
    text = _as_text(column)
    value = text.str.lower().map(_FLAGS)
    rest = text.notna() & value.isna()
    if rest.any():
        # Other spellings of 0 and 1, such as +1 and 0.00.
        value = value.mask(
            rest, pd.to_numeric(text.where(rest).astype(object), errors="coerce").map({0: False, 1: True})
        )
    value = value.astype(FLAG)
    return value, [((text.notna() & value.isna()).to_numpy(dtype=bool), "must be true or false")]


def _number(column: pd.Series[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    known = column.notna()
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return np.full(len(column), np.nan), known.to_numpy()
    if not pd.api.types.is_numeric_dtype(column.dtype):
        text = _as_text(column)
        known = text.notna()
        numbers = _cast(text, pa.float64())
        column = pd.to_numeric(text.astype(object), errors="coerce") if numbers is None else numbers
    number = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return number, known.to_numpy(dtype=bool) & np.isnan(number)


def _as_text(column: pd.Series[Any]) -> pd.Series[Any]:
    text: pd.Series[Any] = column.astype("string[pyarrow]")
    return text.mask(text == "")


def _cast(text: pd.Series[Any], kind: pa.DataType) -> pd.Series[Any] | None:
    """Arrow's reading of a column in which every cell fits, many times as fast as pandas'; None for any other."""
    try:
        return cast("pd.Series[Any]", pa.array(text).cast(kind).to_pandas()).set_axis(text.index)
    except pa.ArrowInvalid:
        return None


def _type_name(column: pd.Series[Any]) -> str:
    kind = str(column.dtype)
    return pd.api.types.infer_dtype(column, skipna=True) if kind == "object" else kind


_COERCERS: dict[str, Callable[[pd.Series[Any]], Coerced]] = {
    TEXT: _text,
    TIME: _time,
    REAL: _real,
    WHOLE: _whole,
    FLAG: _flag,
}
