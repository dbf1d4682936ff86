"""Round the optimum of the linear program to whole levels.

Against the prices, an answer loses Σ_i regret_i + λ·(remaining amount), so a good one moves accounts of small
regret until the rows are nearly used up. A local search does that; of a few accounts all combinations are tried
that could still be better. Both are deterministic, and end as soon as the bound leaves little to gain.
"""

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel.arguments import Matrix
from shadowprice.allocation.several_budgets.active_set import ActiveSet, Levels
from shadowprice.allocation.several_budgets.bounds import GOOD, Bounds
from shadowprice.allocation.several_budgets.descent import Vertex

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
    """Local search, and the moves that it tries."""

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
        """Change a few accounts at random, improve, and keep the better answer, repeatedly."""
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
        pairs = self._pairs(left, saved, gain)
        first, second = (int(at) for at in np.unravel_index(int(pairs.argmax()), pairs.shape))
        return (first, second) if pairs[first, second] > needed else None

    def _pairs(self, left: NDArray[np.float64], saved: Matrix, gain: NDArray[np.float64]) -> Matrix:
        """(moves, moves): gain of two moves at once, less the penalty of what they violate."""
        pairs: Matrix = gain[:, None] + gain[None, :]
        for k in range(left.size):
            pairs -= self.bounds.penalty((left[k] + saved[k])[:, None] + saved[k][None, :], k)
        pairs[self.same] = -np.inf
        return pairs


WIDTH = 4096
"""Partial combinations that are kept."""

NUDGE = 1.0 / 1024.0
"""Weight of what a partial combination would break if the others took their best levels, next to what it loses: the
loss is the better guide by far (on the published instances any weight above a few hundredths ends worse)."""


def combinations(bounds: Bounds, known: Levels) -> tuple[Levels, bool]:
    """The best choice of levels, or ``known`` where none is better; and whether that is proven."""
    active = bounds.active
    regret = bounds.score.max(axis=0) - bounds.score
    lost = bounds.most - bounds.worth(known) if bounds.violation(known) == 0 else np.inf
    cost = np.stack(
        [active.columns(np.full(regret.shape[0], i), np.arange(regret.shape[0])) for i in range(active.accounts)]
    )
    choices = (regret < lost) & active.allowed
    order = np.argsort(choices.sum(axis=0), kind="stable")
    least, most = _completions(cost, choices, order)
    tops = cost[np.arange(active.accounts), :, bounds.score.argmax(axis=0)]
    rest = np.vstack([np.cumsum(tops[order][::-1], axis=0)[::-1], np.zeros((1, tops.shape[1]))])

    taken, loss, proven = np.zeros((1, tops.shape[1])), np.zeros(1), True
    parents: list[NDArray[np.intp]] = []
    chosen: list[NDArray[np.intp]] = []
    for stage, account in enumerate(order.tolist()):
        options = np.flatnonzero(choices[:, account])
        sums = (taken[:, None] + cost[account][:, options].T[None]).reshape(-1, taken.shape[1])
        losses = (loss[:, None] + regret[options, account][None]).ravel()
        open_ = losses < lost
        # The remaining amount of a row costs its price, which is not negative for a cap.
        open_ &= ~np.any(bounds.cap & (sums + least[stage + 1] > bounds.capacity + bounds.slack), axis=1)
        open_ &= ~np.any(bounds.floor & (sums + most[stage + 1] < bounds.capacity - bounds.slack), axis=1)
        kept = np.flatnonzero(open_)
        if kept.size > WIDTH:
            left = bounds.capacity - sums[kept] - rest[stage + 1]
            harm = sum(NUDGE * bounds.penalty(left[:, k], k) for k in range(left.shape[1]))
            kept = kept[np.argpartition(losses[kept] + harm, WIDTH)[:WIDTH]]
            proven = False
        if not kept.size:
            return known, proven
        parents.append(kept // options.size)
        chosen.append(options[kept % options.size])
        taken, loss = sums[kept], losses[kept]
    total = loss + (bounds.capacity - taken) @ bounds.prices
    best, level = int(total.argmin()), known.copy()
    for account, parent, choice in zip(order[::-1].tolist(), parents[::-1], chosen[::-1], strict=True):
        level[account] = choice[best]
        best = int(parent[best])
    return level, proven


def _completions(cost: Matrix, choices: NDArray[np.bool_], order: NDArray[np.intp]) -> tuple[Matrix, Matrix]:
    """(n + 1, K) twice: the least and the most that the accounts from each stage on can take."""
    permitted = choices.T[:, None, :]
    ends = []
    for sign in (1.0, -1.0):
        extreme = sign * np.where(permitted, sign * cost, np.inf).min(axis=2)[order]
        ends.append(np.vstack([np.cumsum(extreme[::-1], axis=0)[::-1], np.zeros((1, cost.shape[1]))]))
    return ends[0], ends[1]


FEW = 64
"""Accounts of which combinations are enumerated."""


def whole_levels(active: ActiveSet, vertex: Vertex, bounds: Bounds) -> Levels:
    """(n,): a level for each account of the active set, within the limits where that was possible.

    With one kind of cost, or a level that takes least from every row, the answer is within every cap for sure.
    """
    search = Search(bounds)
    best = search.improve(_cheapest_tied(active, vertex))
    if bounds.violation(best) > 0:
        # Where one level takes least from every row, these do no harm to any.
        best = bounds.better(best, search.improve(_least(active)))
    if active.accounts <= FEW and not bounds.enough(best):
        other, proven = combinations(bounds, best)
        best = bounds.better(best, other)
        if proven:
            return best
    return search.shake(best)


def _cheapest_tied(active: ActiveSet, vertex: Vertex) -> Levels:
    """The best levels at the prices; a split account takes the one of its levels that is charged least."""
    level = vertex.level.copy()
    charge = active.charge(vertex.prices * active.unit / active.worth)[vertex.tied, vertex.account]
    for at in np.argsort(-charge, kind="stable"):
        level[vertex.account[at]] = vertex.tied[at]
    return level


def _least(active: ActiveSet) -> Levels:
    total = np.where(active.allowed, active.charge(np.ones(active.unit.size)), np.inf)
    return np.asarray(total.argmin(axis=0), dtype=np.intp)
