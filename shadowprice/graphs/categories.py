"""Values of categories as texts."""

from __future__ import annotations

from typing import Any

import pandas as pd
from pandas.api.types import is_float_dtype


def texts(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return the values of a category, or the names of accounts, as texts; missing where unknown.

    A whole number is the same text in every column: pandas keeps it as a decimal where another value is missing.

    Example:
        >>> import pandas as pd
        >>> texts(pd.Series([1, 2])).tolist(), texts(pd.Series([1, None, 2.5])).tolist()
        (['1', '2'], ['1', nan, '2.5'])
    """
    if isinstance(column.dtype, pd.StringDtype):
        return column
    if is_float_dtype(column):
        return column.map(_text, na_action="ignore").astype(object)
    return column.astype(str).where(column.notna())


def _text(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)
