"""Round the optimum of the linear programme to whole levels.

Against the prices, an answer loses Σ_i regret_i + λ·(remaining amount), so a good one moves accounts of small
regret until the rows are nearly used up. A local search does that; of a few accounts all combinations are tried
that could still be better. Both are deterministic, and end as soon as the bound leaves little to gain.
"""

from __future__ import annotations

import numpy as np

from shadowprice.allocation.several_budgets.active_set import ActiveSet, Levels
from shadowprice.allocation.several_budgets.bounds import Bounds
from shadowprice.allocation.several_budgets.enumeration import combinations
from shadowprice.allocation.several_budgets.exchange import Search
from shadowprice.allocation.several_budgets.vertex import Vertex

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
