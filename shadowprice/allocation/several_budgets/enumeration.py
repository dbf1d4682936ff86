"""Whole levels of a few accounts by trying every combination that could be better, account by account.

A partial combination is dropped when its regrets alone lose more than the best answer known, or when no completion
stays within some limit. While fewer than ``WIDTH`` remain at every stage the result is proven; beyond that only the
most promising are kept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel.arguments import Matrix
from shadowprice.allocation.several_budgets.active_set import Levels
from shadowprice.allocation.several_budgets.bounds import Bounds

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
