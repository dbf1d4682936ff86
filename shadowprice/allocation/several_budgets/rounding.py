"""From the optimum of the linear programme to whole levels.

Against the prices, an answer loses Σ_i regret_i + λ·(what is left over), so a good one moves accounts of small
regret until the rows are nearly used up. A local search does that; of a few accounts all combinations are tried
that could still be better. Both are deterministic, and end as soon as the bound says that little is left to gain.
"""

from __future__ import annotations

import numpy as np

from shadowprice.allocation.several_budgets.active_set import Core, Levels
from shadowprice.allocation.several_budgets.bounds import Stakes
from shadowprice.allocation.several_budgets.enumeration import combinations
from shadowprice.allocation.several_budgets.exchange import Search
from shadowprice.allocation.several_budgets.vertex import Vertex

FEW = 64
"""Accounts of which combinations are enumerated."""


def whole_levels(core: Core, vertex: Vertex, stakes: Stakes) -> Levels:
    """(n,): a level for each account of the core, within the limits where that was possible.

    With one kind of cost, or a level that takes least from every row, the answer is within every cap for sure.
    """
    search = Search(stakes)
    best = search.improve(_cheapest_tied(core, vertex))
    if stakes.violation(best) > 0:
        # Where one level takes least from every row, these do no harm to any.
        best = stakes.better(best, search.improve(_least(core)))
    if core.accounts <= FEW and not stakes.enough(best):
        other, proven = combinations(stakes, best)
        best = stakes.better(best, other)
        if proven:
            return best
    return search.shake(best)


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
