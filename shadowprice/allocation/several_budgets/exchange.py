"""Local search over whole levels: moves of one account and of two at once, and throws out of local optima."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel.arguments import Matrix
from shadowprice.allocation.several_budgets.active_set import Levels
from shadowprice.allocation.several_budgets.bounds import GOOD, Bounds

POOL = 100
"""Levels of small regret that accounts may move to, besides their best; moves are tried in pairs."""

THROWS = 8
"""Number of restarts from a local optimum."""

POOR = 1e-3
"""Relative gap above which the search restarts ``MANY`` times as often."""

MANY = 4

THROWN = 3
"""Accounts thrown off each time."""

LEAST = 1e-12
"""Gains below this are rounding."""


class Search:
    """The moves that are tried, and the search with them."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds, active = bounds, bounds.active
        top = bounds.score.argmax(axis=0)
        regret = bounds.score.max(axis=0) - bounds.score
        regret[top, np.arange(active.accounts)] = np.inf
        nearest = np.argsort(regret, axis=None, kind="stable")[: min(POOL, int(np.isfinite(regret).sum()))]
        other, who = np.unravel_index(nearest, regret.shape)
        back = np.unique(who)
        self.to, self.who = np.concatenate([other, top[back]]), np.concatenate([who, back])
        self.cost = active.columns(self.who, self.to)
        self.value = active.value[self.to, self.who]
        self.same = self.who[:, None] == self.who[None, :]

    def shake(self, best: Levels) -> Levels:
        """Throw a few accounts off, improve, and keep what is better; again and again."""
        random = np.random.default_rng(self.bounds.active.accounts)
        far = self.bounds.most - self.bounds.worth(best) > POOR / GOOD * self.bounds.close
        for _ in range(THROWS * (MANY if far else 1)):
            if not self.who.size or self.bounds.enough(best):
                break
            trial = best.copy()
            thrown = random.integers(0, self.who.size, THROWN)
            trial[self.who[thrown]] = self.to[thrown]
            best = self.bounds.better(best, self.improve(trial))
        return best

    def improve(self, start: Levels) -> Levels:
        """Make the best move of one account, or else of two, for as long as one helps."""
        level = start.copy()
        while self.who.size and not self.bounds.enough(level):
            move = self._best_move(level)
            if move is None:
                break
            level[self.who[list(move)]] = self.to[list(move)]
        return self.bounds.better(start, level)

    def _best_move(self, level: Levels) -> tuple[int, int] | None:
        active, bounds = self.bounds.active, self.bounds
        now = level[self.who]
        left, saved = bounds.remaining(level), active.columns(self.who, now) - self.cost
        gain = self.value - active.value[now, self.who]
        needed = LEAST - bounds.violation(level)
        single = gain - sum(bounds.penalty(left[k] + saved[k], k) for k in range(left.size))
        best = int(single.argmax())
        if single[best] > needed:
            return best, best
        both = self._pairs(left, saved, gain)
        first, second = (int(at) for at in np.unravel_index(int(both.argmax()), both.shape))
        return (first, second) if both[first, second] > needed else None

    def _pairs(self, left: NDArray[np.float64], saved: Matrix, gain: NDArray[np.float64]) -> Matrix:
        """(moves, moves): gain of two moves at once, less the penalty of what they violate."""
        both: Matrix = gain[:, None] + gain[None, :]
        for k in range(left.size):
            both -= self.bounds.penalty((left[k] + saved[k])[:, None] + saved[k][None, :], k)
        both[self.same] = -np.inf
        return both
