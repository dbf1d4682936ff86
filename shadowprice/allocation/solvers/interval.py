"""One budget at the speed of memory: an interval for the price, one pass, exact work on the unsettled few.

Exact in the same sense as ``breakpoints``: the price is the slope of a hull edge in float64, and the tie share
and the certificate come from the decision rule at that price. See :mod:`shadowprice.allocation.search`.
"""

from __future__ import annotations

import numpy as np

from shadowprice.allocation.net_cost import row_of, tile_of
from shadowprice.allocation.population import InMemory
from shadowprice.allocation.pricing import solve_population
from shadowprice.allocation.problem import Problem
from shadowprice.allocation.search import Goal
from shadowprice.allocation.solution import Allocation


def solve_interval(problem: Problem, *, near: float | None = None) -> Allocation:
    """Exact optimum for one resource of any form.

    ``near`` is a price expected to be close, such as the last hour's; it saves the sample.

    O(J·N): one read of the input (two when the sample's interval misses), and O(√N) accounts climbed exactly.
    Memory: the level of each account and a few per cent of the input; float64 input is solved in float64, and
    matrices of different types are converted.

    Raises:
        InvalidProblem: not exactly one resource, or one that is malformed.
    """
    resource = problem.only_budget("interval")
    problem.check(resource)
    row = row_of(problem, resource)
    pattern = None if row.members is None else row.members.astype(np.uint16)
    # With members, pattern 1 is counted and pattern 0 is not.
    member = np.ones(1) if row.members is None else np.array([0.0, 1.0])
    counted = problem.shape[1] if row.members is None else int(np.count_nonzero(row.members))
    tile = tile_of(problem.value, row.planes, pattern=pattern, allowed=problem.allowed)
    goal = Goal(row.cost, member, row.capacity, row.limit)
    return solve_population(InMemory(tile), goal, resource.form, counted, resource.carry, resource.limit, near)
