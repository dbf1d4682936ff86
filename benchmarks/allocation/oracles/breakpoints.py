"""One budget, exactly: sort the critical prices of all accounts and walk down to the budget.

As the price of money λ falls from infinity, an account's best level climbs the upper hull of its
(cost, value) points, one edge at a time, at the edge's slope Δvalue/Δcost. Buying edges in order
of slope until the budget is met is the greedy optimum of the linear relaxation of the
multiple-choice knapsack (Sinha and Zoltners 1979); the slope of the last edge is λ*.
"""

import numpy as np

from benchmarks.allocation.oracles.dense import Dense
from shadowprice.allocation.kernel import NetCost, Tile
from shadowprice.allocation.kernel.plain import climb
from shadowprice.allocation.problem.problem import Problem
from shadowprice.allocation.problem.solution import ROUNDING, Allocation, pick


def solve_breakpoints(problem: Problem) -> Allocation:
    """Exact optimum for one cap of any form.

    O(J²·N) to climb the hulls and O(JN·log JN) to sort; memory a few times the input.

    Raises:
        InvalidProblem: a malformed resource.
    """
    dense = Dense.of(problem)
    cost, capacity = dense.net[0], float(dense.capacity[0])
    one = NetCost(np.zeros(problem.shape[0]), (np.ones(problem.shape[0]),))
    edges = climb(Tile(dense.value, (cost,), None, dense.allowed), one, np.ones(1), 0.0, np.inf)
    least = pick(cost, edges.first)
    start, scale = float(least.sum()), max(abs(capacity), float(np.abs(least).sum()))
    if start > capacity + ROUNDING * scale:
        return dense.infeasible()
    order = np.argsort(-edges.slope, kind="stable")
    filled = start + np.cumsum(edges.step[order])
    over = np.flatnonzero(filled > capacity + ROUNDING * max(scale, float(np.abs(filled).max(initial=0.0))))
    return dense.at(np.array([edges.slope[order[over[0]]] if over.size else 0.0]))
