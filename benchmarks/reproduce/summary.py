"""A table over its seeds: means with intervals, differences paired by seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.intervals import Estimate
from shadowprice.evaluation.pairs import paired_over_seeds


@dataclass(frozen=True)
class Summary:
    """Rows × columns × seeds.

    values           one :data:`~benchmarks.reproduce.table.Rows` per seed
    fewer_is_better  columns in which less is better
    """

    values: Sequence[Mapping[str, Mapping[str, float]]]
    fewer_is_better: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.values:
            raise InvalidInput("there is no seed to sum up", field="values")
        for number, rows in enumerate(self.values):
            if {k: set(v) for k, v in rows.items()} != {k: set(v) for k, v in self.values[0].items()}:
                raise InvalidInput(f"seed {number} has other rows or columns than seed 0", field="values")

    @property
    def rows(self) -> list[str]:
        """Names of the rows, in the experiment's order."""
        return list(self.values[0])

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in order of first appearance."""
        return list(dict.fromkeys(column for row in self.values[0].values() for column in row))

    @property
    def seeds(self) -> int:
        """Number of seeds."""
        return len(self.values)

    def has(self, row: str, column: str) -> bool:
        """Whether the cell was measured."""
        return column in self.values[0].get(row, {})

    def at_seeds(self, row: str, column: str) -> list[float]:
        """The cell's value at each seed."""
        if not self.has(row, column):
            raise InvalidInput(f"there is no cell ({row!r}, {column!r}) in the table", field="row")
        return [float(rows[row][column]) for rows in self.values]

    def cell(self, row: str, column: str) -> Estimate:
        """Mean over seeds with a 95 % t interval; the bounds are NaN at one seed or where a value is NaN."""
        values = self.at_seeds(row, column)
        if len(values) < 2 or not np.isfinite(values).all():
            return Estimate(float(np.mean(values)), math.nan, math.nan)
        return paired_over_seeds(values, np.zeros(len(values)))

    def difference(self, column: str, row: str, other: str) -> Estimate:
        """Mean of ``row − other`` over seeds with its 95 % t interval, paired by seed."""
        a, b = self.at_seeds(row, column), self.at_seeds(other, column)
        if len(a) < 2 or not np.isfinite([*a, *b]).all():
            return Estimate(float(np.mean(np.subtract(a, b))), math.nan, math.nan)
        return paired_over_seeds(a, b)

    def verdict(self, column: str, row: str, other: str) -> str:
        """``better``, ``worse``, or ``not told apart`` when the interval of the difference holds 0."""
        found = self.difference(column, row, other)
        if found.low == found.high == 0:
            return "equal"
        if not (found.low > 0 or found.high < 0):
            return "not told apart"
        return "worse" if (found.low > 0) == (column in self.fewer_is_better) else "better"

    def sentence(self, column: str, row: str, other: str) -> str:
        """One comparison in words, for readings."""
        found = self.difference(column, row, other)
        verdict = {
            "better": f"{row} is better than {other}",
            "worse": f"{row} is worse than {other}",
            "equal": f"{row} equals {other}",
            "not told apart": f"{row} and {other} are not told apart",
        }[self.verdict(column, row, other)]
        return f"{verdict} on {column} ({show(found, sign=True)})"


def show(found: Estimate, sign: bool = False) -> str:
    """Four significant digits with the interval, which is left out where it is not known or of no width."""
    plus = "+" if sign else ""
    # What rounding leaves of a zero.
    found = Estimate(*(0.0 if abs(each) < 1e-12 else each for each in (found.value, found.low, found.high)))
    value = f"{found.value:{plus}.4g}"
    if not (math.isfinite(found.low) and math.isfinite(found.high)) or found.low == found.high:
        return value
    return f"{value} [{found.low:{plus}.4g}, {found.high:{plus}.4g}]"
