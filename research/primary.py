"""The one comparison that a page of results is about, and the number of seeds that it needs."""

import math
from dataclasses import dataclass
from functools import cached_property

from shadowprice.errors import InvalidInput

LEAST_SEEDS = 10
LEVEL = 0.05
"""Two-sided error rate of every verdict."""


@dataclass(frozen=True)
class Primary:
    """A comparison named before it is measured, with the difference that it must be able to find.

    column  metric that is compared
    row     method whose value comes first in the difference
    other   method that it is compared with
    effect  smallest difference worth finding, in units of the column
    spread  standard deviation over seeds of the paired difference, as seen on development seeds
    power   probability of finding a difference of that size

    Example:
        >>> Primary("AUC", "ours", "theirs", effect=0.01, spread=0.01).seeds
        13
    """

    column: str
    row: str
    other: str
    effect: float
    spread: float
    power: float = 0.9

    def __post_init__(self) -> None:
        for name in ("effect", "spread"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise InvalidInput("must be a positive number", field=f"primary.{name}")
        if not LEVEL < self.power < 1:
            raise InvalidInput(f"must lie between {LEVEL} and 1", field="primary.power")

    @property
    def comparison(self) -> tuple[str, str, str]:
        return self.column, self.row, self.other

    @cached_property
    def seeds(self) -> int:
        """Seeds that a two-sided paired t-test needs for this power, and ten at least."""
        # Beyond this ratio ten seeds are far too many, and the noncentral distribution is no longer computed.
        ratio = min(self.effect / self.spread, 3.0)
        # Each seed of a table is a process of its own, which would load statsmodels for a second.
        from statsmodels.stats.power import TTestPower

        needed = float(TTestPower().solve_power(ratio, alpha=LEVEL, power=self.power))
        return max(LEAST_SEEDS, math.ceil(needed))
