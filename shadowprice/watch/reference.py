"""Reference that the checks compare served requests with."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shadowprice.checks import require


@dataclass(frozen=True, kw_only=True, eq=False)
class Reference:
    """Expectations of one model, and the settings of the checks.

    levels     side → number of incentive levels
    tolerance  error of predictions and of rates that is no alarm, in log odds
    rate       probability of a false alarm of one check, all groups and all days together
    predicted  side → (J, N), predictions for the accounts of training; empty: stability is not checked
    activity   side → (N,), weights of those accounts; empty: all count alike
    unordered  sides whose levels have no order: their curves have no shape to check
    labels     (side, level) → rows of training and their mean response; empty: label drift is not checked
    """

    levels: Mapping[str, int]
    tolerance: float = 0.2
    rate: float = 0.05
    predicted: Mapping[str, NDArray[np.floating]] = field(default_factory=dict)
    activity: Mapping[str, NDArray[np.floating]] = field(default_factory=dict)
    unordered: Collection[str] = ()
    labels: Mapping[tuple[str, int], tuple[int, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(np.isfinite(self.tolerance) and self.tolerance >= 0, "tolerance", "must be a number, not negative")
        require(0 < self.rate < 1, "rate", "must lie between 0 and 1")

    @property
    def groups(self) -> int:
        """Number of pairs of side and level."""
        return sum(self.levels.values())
