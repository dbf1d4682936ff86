"""What is at stake in rounding: how much a choice of whole levels is worth, and what it breaks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel.arguments import Matrix
from shadowprice.allocation.several_budgets.active_set import Core, Levels
from shadowprice.allocation.several_budgets.rows import Rows

PENALTY = 64.0
"""What a unit beyond a limit costs the search, in units of its price, or of value where that is more."""

GOOD = 1e-6
"""The search ends where the answer is this close to the bound, as a share of it."""


class Stakes:
    """Value and limits of a core's choices, in the core's units.

    core      the accounts
    capacity  (K,), what the other accounts leave of each row
    slack     (K,), rounding each row is allowed
    cap, floor  bool (K,), whether too much or too little breaks a row; both for an equality
    prices    (K,), at the optimum of the linear programme
    score     (J, n), value less charge; −∞ where not allowed
    most      the bound on the core's value
    """

    def __init__(
        self,
        core: Core,
        rows: Rows,
        prices: NDArray[np.float64],
        left: NDArray[np.float64],
        slack: NDArray[np.float64],
        bound: float,
    ) -> None:
        self.core = core
        self.prices = prices * core.unit / core.worth
        self.capacity, self.slack = left / core.unit, slack / core.unit
        self.cap, self.floor = rows.upper > 0, rows.lower < 0
        self.weight = PENALTY * np.maximum(np.abs(self.prices), 1.0)
        self.score: Matrix = np.where(core.allowed, core.value - core.charge(self.prices), -np.inf)
        self.most = float(self.score.max(axis=0).sum() + self.prices @ self.capacity)
        self.close = GOOD * abs(bound) / core.worth

    def left(self, level: Levels) -> NDArray[np.float64]:
        """(K,): what a choice leaves of each row."""
        return self.capacity - self.core.taken(level, np.ones(self.core.accounts))

    def worth(self, level: Levels) -> float:
        """Value of a choice."""
        return float(self.core.value[level, np.arange(self.core.accounts)].sum())

    def penalty(self, left: NDArray[np.float64], row: int) -> NDArray[np.float64]:
        """What it costs to leave ``left`` (any shape) of a row."""
        wrong: NDArray[np.float64] = -left if self.cap[row] else +left
        if self.cap[row] and self.floor[row]:
            np.abs(wrong, out=wrong)
        wrong -= self.slack[row]
        np.maximum(wrong, 0.0, out=wrong)
        wrong *= self.weight[row]
        return np.asarray(wrong)

    def violation(self, level: Levels) -> float:
        """The penalties of a choice; 0 within the limits."""
        left = self.left(level)
        return float(sum(self.penalty(left[row : row + 1], row)[0] for row in range(left.size)))

    def better(self, one: Levels, other: Levels) -> Levels:
        """The choice that breaks less; of two within the limits, the one that is worth more."""
        ranks = [(-self.violation(level), self.worth(level)) for level in (one, other)]
        return other if ranks[1] > ranks[0] else one

    def enough(self, level: Levels) -> bool:
        """Whether a choice is within the limits and so close to the bound that no more need be sought."""
        return self.most - self.worth(level) <= self.close and self.violation(level) == 0.0
