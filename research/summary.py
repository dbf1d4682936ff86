"""A table over its seeds: means with intervals, differences paired by seed, verdicts adjusted by Holm's method."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.multitest import multipletests

from research.primary import LEVEL
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.intervals import Estimate

Comparison = tuple[str, str, str]
"""Column, row, other row."""

NOT_DIFFERENT, NOT_TESTED = "not significantly different", "not tested"


@dataclass(frozen=True)
class Cited:
    """Cells (row, column) and comparisons that somebody asked a summary for."""

    cells: set[tuple[str, str]] = field(default_factory=set)
    comparisons: set[Comparison] = field(default_factory=set)


@dataclass(frozen=True)
class Summary:
    """Rows × columns × seeds.

    values           one :data:`~research.table.Rows` per seed
    fewer_is_better  columns in which less is better
    primary          the comparison that was named before it was measured; its p-value stands as it is
    compare          all others; their p-values are adjusted together by Holm's method
    cited            the cells and comparisons that this object was asked for
    """

    values: Sequence[Mapping[str, Mapping[str, float]]]
    fewer_is_better: Sequence[str] = ()
    primary: Comparison | None = None
    compare: tuple[Comparison, ...] = ()
    cited: Cited = field(default_factory=Cited, init=False, repr=False, compare=False)

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
        return len(self.values)

    def has(self, row: str, column: str) -> bool:
        return column in self.values[0].get(row, {})

    def at_seeds(self, row: str, column: str) -> list[float]:
        if not self.has(row, column):
            raise InvalidInput(f"there is no cell ({row!r}, {column!r}) in the table", field="row")
        self.cited.cells.add((row, column))
        return self._at(row, column)

    def _at(self, row: str, column: str) -> list[float]:
        return [float(rows[row][column]) for rows in self.values]

    def cell(self, row: str, column: str) -> Estimate:
        """Mean over seeds with a 95 % t interval; the bounds are NaN at one seed or where a value is NaN."""
        values = self.at_seeds(row, column)
        if len(values) < 2 or not np.isfinite(values).all():
            return Estimate(float(np.mean(values)), math.nan, math.nan)
        return over_seeds(np.array(values))

    def difference(self, column: str, row: str, other: str) -> Estimate:
        """Mean of ``row − other`` over seeds with its 95 % t interval, paired by seed."""
        a, b = self.at_seeds(row, column), self.at_seeds(other, column)
        if len(a) < 2 or not np.isfinite([*a, *b]).all():
            return Estimate(float(np.mean(np.subtract(a, b))), math.nan, math.nan)
        return over_seeds(np.subtract(a, b))

    def share(self, column: str, row: str, flat: str, best: str) -> float:
        """Share of the attainable gain, that of ``best`` over ``flat``, which the mean of a row reaches."""
        least, most = self.cell(flat, column).value, self.cell(best, column).value
        return (self.cell(row, column).value - least) / (most - least)

    def p_value(self, column: str, row: str, other: str) -> float:
        """P-value of a difference: two-sided paired t-test, adjusted by Holm's method unless it is the primary one.

        NaN at one seed.

        Raises:
            InvalidInput: the table does not name this comparison.
        """
        pair = (column, row, other)
        self.cited.comparisons.add(pair)
        if pair == self.primary:
            return self._alone(pair)
        if pair not in self._adjusted:
            raise InvalidInput(f"{row} against {other} on {column} is not named; add it", field="compare")
        return self._adjusted[pair]

    def verdict(self, column: str, row: str, other: str) -> str:
        """Return ``better``, ``worse``, ``equal``, ``not significantly different``, or ``not tested`` at one seed."""
        p = self.p_value(column, row, other)
        if math.isnan(p):
            return NOT_TESTED
        found = self.difference(column, row, other)
        if found.low == found.high == 0:
            return "equal"
        if p >= LEVEL:
            return NOT_DIFFERENT
        return "worse" if (found.value > 0) == (column in self.fewer_is_better) else "better"

    def finding(self, column: str, row: str, other: str) -> str:
        """Return the verdict of one comparison in words, for readings: the page's tables have its figures."""
        verdict, other = self.verdict(column, row, other), beside(row, other)
        return {
            "better": f"{row} is better than {other}",
            "worse": f"{row} is worse than {other}",
            "equal": f"{row} equals {other}",
            NOT_DIFFERENT: f"{row} and {other} are {NOT_DIFFERENT}",
            NOT_TESTED: f"{row} and {other} were measured at one seed",
        }[verdict]

    def sentence(self, column: str, row: str, other: str) -> str:
        """Return one comparison in words and figures."""
        found = show(self.difference(column, row, other), sign=True)
        return f"{self.finding(column, row, other)} on {column} ({found})"

    def tally(self, comparisons: Sequence[Comparison]) -> str:
        """Return the verdicts of several comparisons by number; the JSON of a page has each, the page their rows.

        Example: ``"better in 2 and not significantly different in 1 of 3 comparisons"``.
        """
        unseen = replace(self)
        counts = Counter(unseen.verdict(*comparison) for comparison in comparisons)
        self.cited.cells.update((row, column) for column, *pair in comparisons for row in pair)
        parts = [f"{verdict} in {number}" for verdict, number in counts.most_common()]
        return f"{', '.join(parts[:-1])}{' and ' if parts[1:] else ''}{parts[-1]} of {len(comparisons)} comparisons"

    @cached_property
    def _adjusted(self) -> dict[Comparison, float]:
        """P-values of the other comparisons, adjusted together; those that cannot be tested stay NaN."""
        alone = {pair: self._alone(pair) for pair in self.compare}
        tested = [pair for pair, p in alone.items() if not math.isnan(p)]
        if tested:
            adjusted = multipletests([alone[pair] for pair in tested], method="holm")[1]
            alone.update(zip(tested, map(float, adjusted), strict=True))
        return alone

    def _alone(self, pair: Comparison) -> float:
        column, row, other = pair
        difference = np.subtract(self._at(row, column), self._at(other, column))
        if difference.size < 2 or not np.isfinite(difference).all():
            return math.nan
        if np.ptp(difference) == 0:
            return 1.0 if difference[0] == 0 else 0.0
        return float(stats.ttest_1samp(difference, 0.0).pvalue)


def beside(row: str, other: str) -> str:
    """Return the name of the other row of a comparison, without the group (``"group: name"``) that both have."""
    group, found, name = other.rpartition(": ")
    return name if row.startswith(f"{group}{found}") else other


def show(found: Estimate, sign: bool = False) -> str:
    """Return four significant digits and half of the interval, left out where it is not known or of no width.

    Example: ``"0.5732 ±0.0058"``. All intervals of a table are Student's and lie evenly around their mean.
    """
    # What rounding leaves of a zero.
    mean, low, high = (0.0 if abs(each) < 1e-12 else each for each in (found.value, found.low, found.high))
    value = _digits(mean, 4, "+" if sign else "")
    half = (high - low) / 2
    return f"{value} ±{_digits(half, 2)}" if math.isfinite(half) and half else value


def _digits(value: float, digits: int, sign: str = "") -> str:
    """Return significant digits, without an exponent where the number is large."""
    return f"{value:{sign}.0f}" if abs(value) >= 10**digits else f"{value:{sign}.{digits}g}"


def over_seeds(values: NDArray[np.float64]) -> Estimate:
    """Mean of a figure over S ≥ 2 seeds with its 95 % t interval; of differences by seed, the paired interval."""
    value = float(values.mean())
    half = float(stats.t.ppf(0.975, values.size - 1) * stats.sem(values))
    return Estimate(value, value - half, value + half)
