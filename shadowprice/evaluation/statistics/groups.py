"""Identifiers as consecutive whole numbers."""

from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.checks import require
from shadowprice.errors import InvalidInput


def codes(ids: ArrayLike, *, field: str) -> tuple[NDArray[np.intp], int]:
    """Codes 0 … G−1 of identifiers (N,), in sorted order, and their number G.

    Identifiers are strings or whole numbers; a missing one is refused with its row, because rows
    without an identifier would silently become one group. O(N log N).
    """
    array = np.asarray(ids)
    require(array.ndim == 1, field, f"must be one identifier per row, got shape {array.shape}")
    if array.dtype == object:
        bad = [row for row, entry in enumerate(array) if not isinstance(entry, (str, bytes, Integral))]
        if bad:
            raise InvalidInput("must hold strings or whole numbers, none missing", field=field, rows=bad[:5])
        array = array.astype(str)
    elif array.dtype.kind not in "iubUST":
        raise InvalidInput(f"must hold strings or whole numbers, got {array.dtype}", field=field)
    names, of = np.unique(array, return_inverse=True)
    return of.astype(np.intp, copy=False), int(names.size)


def crossed(*columns: ArrayLike, field: str) -> tuple[NDArray[np.intp], int]:
    """Codes of the cells that several identifier columns (N,) form together, and their number."""
    of, groups = codes(columns[0], field=field)
    for column in columns[1:]:
        other, _ = codes(column, field=field)
        require(other.size == of.size, field, f"columns differ in length: {of.size} and {other.size}")
        of, groups = codes(of * (int(other.max(initial=0)) + 1) + other, field=field)
    return of, groups
