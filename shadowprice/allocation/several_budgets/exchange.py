"""Local search over whole levels: moves of one account and of two at once, and throws out of local optima."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel.arguments import Matrix
from shadowprice.allocation.several_budgets.active_set import Levels
from shadowprice.allocation.several_budgets.bounds import GOOD, Stakes

POOL = 100
"""Levels of small regret that accounts may move to, besides their best; moves are tried in pairs."""

THROWS = 8
"""How often a local optimum is left again."""

POOR = 1e-3
"""Where the answer is not even this close to the bound, it is left ``MANY`` times as often."""

MANY = 4

THROWN = 3
"""Accounts thrown off each time."""

LEAST = 1e-12
"""Gains below this are rounding."""


class Search:
    """The moves that are tried, and the search with them."""

    def __init__(self, stakes: Stakes) -> None:
        self.stakes, core = stakes, stakes.core
        top = stakes.score.argmax(axis=0)
        regret = stakes.score.max(axis=0) - stakes.score
        regret[top, np.arange(core.accounts)] = np.inf
        nearest = np.argsort(regret, axis=None, kind="stable")[: min(POOL, int(np.isfinite(regret).sum()))]
        other, who = np.unravel_index(nearest, regret.shape)
        back = np.unique(who)
        self.to, self.who = np.concatenate([other, top[back]]), np.concatenate([who, back])
        self.cost = core.columns(self.who, self.to)
        self.value = core.value[self.to, self.who]
        self.same = self.who[:, None] == self.who[None, :]

    def shake(self, best: Levels) -> Levels:
        """Throw a few accounts off, improve, and keep what is better; again and again."""
        random = np.random.default_rng(self.stakes.core.accounts)
        far = self.stakes.most - self.stakes.worth(best) > POOR / GOOD * self.stakes.close
        for _ in range(THROWS * (MANY if far else 1)):
            if not self.who.size or self.stakes.enough(best):
                break
            trial = best.copy()
            thrown = random.integers(0, self.who.size, THROWN)
            trial[self.who[thrown]] = self.to[thrown]
            best = self.stakes.better(best, self.improve(trial))
        return best

    def improve(self, start: Levels) -> Levels:
        """Make the best move of one account, or else of two, for as long as one helps."""
        level = start.copy()
        while self.who.size and not self.stakes.enough(level):
            move = self._best_move(level)
            if move is None:
                break
            level[self.who[list(move)]] = self.to[list(move)]
        return self.stakes.better(start, level)

    def _best_move(self, level: Levels) -> tuple[int, int] | None:
        core, stakes = self.stakes.core, self.stakes
        now = level[self.who]
        left, saved = stakes.left(level), core.columns(self.who, now) - self.cost
        gain = self.value - core.value[now, self.who]
        needed = LEAST - stakes.violation(level)
        single = gain - sum(stakes.penalty(left[k] + saved[k], k) for k in range(left.size))
        best = int(single.argmax())
        if single[best] > needed:
            return best, best
        both = self._pairs(left, saved, gain)
        first, second = (int(at) for at in np.unravel_index(int(both.argmax()), both.shape))
        return (first, second) if both[first, second] > needed else None

    def _pairs(self, left: NDArray[np.float64], saved: Matrix, gain: NDArray[np.float64]) -> Matrix:
        """(moves, moves): what two moves at once gain, less what they break."""
        both: Matrix = gain[:, None] + gain[None, :]
        for k in range(left.size):
            both -= self.stakes.penalty((left[k] + saved[k])[:, None] + saved[k][None, :], k)
        both[self.same] = -np.inf
        return both
