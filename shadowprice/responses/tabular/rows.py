"""Features of a frame as arrays, for models without a graph: standardized numbers and category indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.documents import Plain
from shadowprice.graphs.categories import texts
from shadowprice.graphs.scaling import Scaling, fit_scaling

UNKNOWN = 0
"""Index of a category that was missing, too rare, or never seen."""
MOST_VALUES = 1000


@dataclass(frozen=True, eq=False)
class TabularInputs(Plain):
    """Map from the features of a frame to arrays, fitted on the training rows.

    numbers     standardization of the numeric columns
    categories  column → its known values, commonest first; value k has index k + 1
    """

    numbers: Scaling
    categories: Mapping[str, tuple[str, ...]]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Indices of each categorical column, the unknown one included."""
        return tuple(len(values) + 1 for values in self.categories.values())

    @property
    def indicators(self) -> int:
        """Columns of :meth:`dense`."""
        return self.numbers.width + sum(len(values) for values in self.categories.values())

    def numeric(self, frame: pd.DataFrame) -> NDArray[np.float32]:
        """(n, P) standardized numbers; a column that the frame lacks is unknown."""
        names = tuple(name for name in self.numbers.names if name in frame)
        raw = frame[list(names)].to_numpy(dtype=np.float32).reshape(len(frame), len(names))
        return self.numbers.select(names, raw)

    def category(self, frame: pd.DataFrame) -> NDArray[np.int64]:
        """(n, C) indices of the values."""
        codes = np.full((len(frame), len(self.categories)), UNKNOWN, dtype=np.int64)
        for position, (column, values) in enumerate(self.categories.items()):
            if column in frame:
                known = pd.Index(values).get_indexer(pd.Index(texts(frame[column])))
                codes[:, position] = known + 1
        return codes

    def dense(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """(n, indicators): the numbers, then one indicator per known value; an unknown value has none."""
        parts = [self.numeric(frame).astype(np.float64)]
        for column, size in zip(self.category(frame).T, self.sizes, strict=True):
            parts.append(np.eye(size)[column][:, 1:])
        return np.concatenate(parts, axis=1)


def fit_tabular(frame: pd.DataFrame, prefixes: Sequence[str] = ("x_", "c_")) -> TabularInputs:
    """Fit on the features of ``frame`` whose names start with one of ``prefixes``; c_* are categories."""
    chosen = [c for c in frame.columns if c.startswith(tuple(prefixes))]
    numbers = tuple(c for c in chosen if not c.startswith("c_") and frame[c].notna().any())
    raw = frame[list(numbers)].to_numpy(dtype=np.float32).reshape(len(frame), len(numbers))
    return TabularInputs(
        fit_scaling(numbers, raw),
        {column: _commonest(texts(frame[column]).dropna()) for column in chosen if column.startswith("c_")},
    )


def _commonest(column: pd.Series[Any]) -> tuple[str, ...]:
    # Values of equal count are in order of their names, so that the rows' order does not matter.
    counted = column.value_counts().sort_index().sort_values(ascending=False, kind="stable")
    return tuple(str(value) for value in counted.index[:MOST_VALUES])
