"""One budget at the speed of memory: an interval for the price, one pass, exact work on the unsettled few.

The price is the slope of a hull edge in float64, and the tie share and the certificate come from the decision rule at
that price. See :mod:`shadowprice.allocation.one_budget.search`.
"""

import numpy as np

from shadowprice.allocation.one_budget.pricing import solve_population
from shadowprice.allocation.one_budget.search import Goal
from shadowprice.allocation.population.population import InMemory
from shadowprice.allocation.problem.net_cost import row_of, tile_of
from shadowprice.allocation.problem.problem import Problem
from shadowprice.allocation.problem.solution import Allocation
from shadowprice.allocation.solvers.prepared import Opened


def solve_interval(problem: Problem | Opened, *, near: float | None = None) -> Allocation:
    """Exact optimum for one cap of any form.

    ``near`` is a price expected to be close, such as the last hour's; it saves the sample.

    O(J·N): one read of the input (two when the sample's interval misses), and O(√N) accounts climbed exactly.
    Memory: the level of each account and a few per cent of the input; float64 input is solved in float64, and
    matrices of different types are converted.

    Raises:
        InvalidProblem: a malformed resource.
    """
    accounts = Opened.of(problem)
    resource = accounts.example.resources[0]
    accounts.example.check(resource, numbers=False)
    # Counting the members of shards is a round of its own.
    counted = int(accounts.counted[0]) if resource.form == "per_account" else accounts.accounts
    row = row_of(accounts.example, resource, counted)
    # With members, pattern 1 is counted and pattern 0 is not.
    member = np.ones(1) if row.members is None else np.array([0.0, 1.0])
    goal = Goal(row.cost, member, row.capacity, row.limit)
    population = accounts.populate(lay_out)
    return solve_population(population, goal, resource, counted, near)


def lay_out(problem: Problem) -> InMemory:
    """The accounts of a problem with one resource, as the kernel takes them."""
    resource = problem.resources[0]
    problem.check(resource, numbers=False)
    row = row_of(problem, resource)
    pattern = None if row.members is None else row.members.astype(np.uint16)
    tile = tile_of(problem.value, row.planes, pattern=pattern, allowed=problem.allowed)
    # The pass itself sees what no solver may use, and then the numbers are checked one by one.
    return InMemory(tile, refuse=lambda: problem.check(resource))
