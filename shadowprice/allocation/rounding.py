"""From the optimum of the linear programme to whole levels: local search on the accounts that lose least by moving.

Against the prices, an answer loses Σ_i regret_i + λ·(what is left over), so a good one moves accounts of small
regret until the rows are nearly used up. Moves of one account and of two at once are tried until none helps; a
few accounts are then thrown off and the search goes on. It is deterministic, and stops as soon as the bound says
that little is left to gain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.core import Core, Levels
from shadowprice.allocation.kernel.arguments import Matrix
from shadowprice.allocation.vertex import Vertex

POOL = 200
"""Moves that are tried in pairs; those of smallest regret."""

THROWS = 8
"""How often a local optimum is left again."""

THROWN = 3
"""Accounts thrown off each time."""

PENALTY = 64.0
"""What a unit beyond a limit costs the search, in units of its price, or of value where that is more."""

GOOD = 1e-6
"""The search ends where the answer is this close to the bound, as a share of it."""


@dataclass(frozen=True, eq=False)
class Leftovers:
    """What the other accounts leave to the core's, and how much is at stake in all.

    left      (K,), of each row
    slack     (K,), rounding each row is allowed
    lower, upper  (K,), bounds of the rows' prices: 0 and ∞ for a cap, −∞ and 0 for a floor
    bound     dual bound of the whole problem
    """

    left: NDArray[np.float64]
    slack: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    bound: float


def whole_levels(core: Core, vertex: Vertex, over: Leftovers) -> Levels:
    """(n,): a level for each account of the core, within the limits where that was possible.

    With one kind of cost, or a level that takes least from every row, the answer is within every cap for sure.
    """
    search = Search(core, vertex, over)
    best = search.run(_cheapest_tied(core, vertex))
    if search.violation(search.left(best)) > 0:
        # Where one level takes least from every row, these do no harm to any.
        best = search.better(best, search.run(_least(core)))
    return best


def _cheapest_tied(core: Core, vertex: Vertex) -> Levels:
    """The best levels at the prices; a split account takes the one of its levels that is charged least."""
    level = vertex.level.copy()
    charge = core.charge(vertex.prices * core.unit / core.worth)[vertex.tied, vertex.account]
    for at in np.argsort(-charge, kind="stable"):
        level[vertex.account[at]] = vertex.tied[at]
    return level


def _least(core: Core) -> Levels:
    total = np.where(core.allowed, core.charge(np.ones(core.unit.size)), np.inf)
    return np.asarray(total.argmin(axis=0), dtype=np.intp)


class Search:
    """A local search over whole levels, in the core's units."""

    def __init__(self, core: Core, vertex: Vertex, over: Leftovers) -> None:
        self.core = core
        prices = vertex.prices * core.unit / core.worth
        self.capacity = over.left / core.unit
        self.slack = over.slack / core.unit
        self.cap, self.floor = (over.upper > 0)[:, None], (over.lower < 0)[:, None]
        self.weight = PENALTY * np.maximum(np.abs(prices), 1.0)
        score = np.where(core.allowed, core.value - core.charge(prices), -np.inf)
        regret = score.max(axis=0) - score
        self.most = float(score.max(axis=0).sum() + prices @ self.capacity)
        self.enough = GOOD * abs(over.bound) / core.worth
        columns = np.arange(core.accounts)
        top = score.argmax(axis=0)
        regret[top, columns] = np.inf
        chosen = np.argsort(regret, axis=None, kind="stable")[: min(POOL, int(np.isfinite(regret).sum()))]
        other, who = np.unravel_index(chosen, regret.shape)
        back = np.unique(who)
        self.to, self.who = np.concatenate([other, top[back]]), np.concatenate([who, back])
        self.cost = core.columns(self.who, self.to)
        self.value = core.value[self.to, self.who]
        self.apart = self.who[:, None] != self.who[None, :]

    def left(self, level: Levels) -> NDArray[np.float64]:
        """(K,): what a choice of levels leaves of each row."""
        return self.capacity - self.core.taken(level, np.ones(self.core.accounts))

    def worth(self, level: Levels) -> float:
        """Value of a choice of levels."""
        return float(self.core.value[level, np.arange(self.core.accounts)].sum())

    def violation(self, left: NDArray[np.float64]) -> float:
        """What is taken too much or too little, weighted; 0 within the limits."""
        return float(self._penalty(left[:, None])[0])

    def _penalty(self, left: Matrix) -> NDArray[np.float64]:
        """The same for columns (K, …), one after another so that nothing of that size is formed twice."""
        total = np.zeros(left.shape[1:])
        for k in range(left.shape[0]):
            wrong = np.zeros(left.shape[1:])
            if self.cap[k]:
                wrong = np.maximum(-left[k], 0.0)
            if self.floor[k]:
                wrong = np.maximum(wrong, left[k])
            total += self.weight[k] * np.where(wrong > self.slack[k], wrong, 0.0)
        return total

    def better(self, one: Levels, other: Levels) -> Levels:
        """The choice that violates less; of two within the limits, the one that is worth more."""
        ranks = [(-self.violation(self.left(level)), self.worth(level)) for level in (one, other)]
        return other if ranks[1] > ranks[0] else one

    def run(self, start: Levels) -> Levels:
        """The best choice found from a start."""
        random = np.random.default_rng(self.core.accounts)
        best = self.better(start, self._climb(start.copy()))
        for _ in range(THROWS):
            if not self.who.size or self._close(best):
                break
            trial = best.copy()
            thrown = random.integers(0, self.who.size, THROWN)
            trial[self.who[thrown]] = self.to[thrown]
            best = self.better(best, self._climb(trial))
        return best

    def _close(self, level: Levels) -> bool:
        return self.most - self.worth(level) <= self.enough and self.violation(self.left(level)) == 0.0

    def _climb(self, level: Levels) -> Levels:
        """Make the best move of one account or of two as long as one helps."""
        while self.who.size and not self._close(level):
            left = self.left(level)
            now = level[self.who]
            saved = self.core.columns(self.who, now) - self.cost
            gain = self.value - self.core.value[now, self.who]
            least = 1e-12 + self.violation(left)
            single = gain - self._penalty(left[:, None] + saved)
            first = second = int(single.argmax())
            if single[first] + least <= 2e-12:
                both = gain[:, None] + gain[None, :]
                both -= self._penalty_of_pairs(left, saved)
                both[~self.apart] = -np.inf
                first, second = (int(at) for at in np.unravel_index(int(both.argmax()), both.shape))
                if both[first, second] + least <= 2e-12:
                    break
            level[self.who[first]] = self.to[first]
            level[self.who[second]] = self.to[second]
        return level

    def _penalty_of_pairs(self, left: NDArray[np.float64], saved: Matrix) -> Matrix:
        total = np.zeros((saved.shape[1], saved.shape[1]))
        for k in range(left.size):
            rest = (left[k] + saved[k])[:, None] + saved[k][None, :]
            wrong = np.maximum(-rest, 0.0) if self.cap[k] else np.maximum(rest, 0.0)
            if self.cap[k] and self.floor[k]:
                wrong = np.abs(rest)
            wrong[wrong <= self.slack[k]] = 0.0
            total += self.weight[k] * wrong
        return total
