"""Bounds of rounding: the value of a choice of whole levels, and its violation of the limits."""

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel.arguments import Matrix
from shadowprice.allocation.several_budgets.active_set import ActiveSet, Levels
from shadowprice.allocation.several_budgets.rows import Rows

PENALTY = 64.0
"""Penalty of the search per unit beyond a limit, in units of its price, or of value where that is more."""

GOOD = 1e-6
"""The search ends where the answer is this close to the bound, as a share of it."""


class Bounds:
    """Value and limits of an active set's choices, in the active set's units.

    active    the accounts
    capacity  (K,), what the other accounts leave of each row
    slack     (K,), rounding each row is allowed
    cap, floor  bool (K,), whether too much or too little breaks a row; both for an equality
    prices    (K,), at the optimum of the linear program
    score     (J, n), value less charge; −∞ where not allowed
    most      the bound on the active set's value
    """

    def __init__(
        self,
        active: ActiveSet,
        rows: Rows,
        prices: NDArray[np.float64],
        left: NDArray[np.float64],
        slack: NDArray[np.float64],
        bound: float,
    ) -> None:
        self.active = active
        self.prices = prices * active.unit / active.worth
        self.capacity, self.slack = left / active.unit, slack / active.unit
        self.cap, self.floor = rows.upper > 0, rows.lower < 0
        self.weight = PENALTY * np.maximum(np.abs(self.prices), 1.0)
        self.score: Matrix = active.score(prices)
        self.most = float(self.score.max(axis=0).sum() + self.prices @ self.capacity)
        self.close = GOOD * abs(bound) / active.worth

    def remaining(self, level: Levels) -> NDArray[np.float64]:
        """(K,): remaining amount of each row after a choice."""
        return self.capacity - self.active.taken(level, np.ones(self.active.accounts))

    def worth(self, level: Levels) -> float:
        """Value of a choice."""
        return float(self.active.value[level, np.arange(self.active.accounts)].sum())

    def penalty(self, left: NDArray[np.float64], row: int) -> NDArray[np.float64]:
        """Penalty of a remaining amount ``left`` (any shape) of a row."""
        wrong: NDArray[np.float64] = -left if self.cap[row] else +left
        if self.cap[row] and self.floor[row]:
            np.abs(wrong, out=wrong)
        wrong -= self.slack[row]
        np.maximum(wrong, 0.0, out=wrong)
        wrong *= self.weight[row]
        return np.asarray(wrong)

    def violation(self, level: Levels) -> float:
        """The penalties of a choice; 0 within the limits."""
        left = self.remaining(level)
        return float(sum(self.penalty(left[row : row + 1], row)[0] for row in range(left.size)))

    def better(self, one: Levels, other: Levels) -> Levels:
        """The choice that breaks less; of two within the limits, the one that is worth more."""
        ranks = [(-self.violation(level), self.worth(level)) for level in (one, other)]
        return other if ranks[1] > ranks[0] else one

    def enough(self, level: Levels) -> bool:
        """Return whether a choice is within the limits and so close to the bound that the search may end."""
        return self.most - self.worth(level) <= self.close and self.violation(level) == 0.0
