"""Any number of limits — caps, floors, equalities, over overlapping groups, of different costs — exactly."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.population.population import InMemory, Population
from shadowprice.allocation.problem.problem import Problem
from shadowprice.allocation.problem.solution import Allocation
from shadowprice.allocation.several_budgets.certificate import certified, contradiction
from shadowprice.allocation.several_budgets.partition import locate
from shadowprice.allocation.several_budgets.rows import FEW_GROUPS, Rows, rows_of
from shadowprice.allocation.solvers.prepared import Opened


def solve_partition(problem: Problem | Opened, *, near: NDArray[np.float64] | None = None) -> Allocation:
    """Exact optimum for any number of resources of any form and sense, and a whole answer near it.

    ``near`` are prices (K,) expected to be close, such as the last hour's; they save the first sample's search.

    Raises:
        InvalidProblem: a malformed resource, or members that overlap in too many ways.
    """
    if isinstance(problem, Problem):
        rows, population = _in_memory(problem)
        resources = tuple(problem.resources)
    else:
        rows, population = _of_shards(problem)
        resources = tuple(problem.example.resources)
    located = locate(population, rows, near)
    answer = certified if located.vertex.ray is None else contradiction
    return answer(located, resources)


def _in_memory(problem: Problem) -> tuple[Rows, Population]:
    def check_numbers() -> None:
        problem.check_value()
        for resource in problem.resources:
            problem.check(resource)

    rows, tile = rows_of(problem, numbers=False)
    if len(rows.costs) > 1:
        check_numbers()
    # With one kind of cost the pass itself sees numbers that no solver may use.
    return rows, InMemory(tile, refuse=check_numbers if len(rows.costs) == 1 else None)


def _of_shards(given: Opened) -> tuple[Rows, Population]:
    resources = given.example.resources
    groups = [resource for resource in resources if resource.members is not None]
    # Counting the members of shards is a round of its own.
    table = given.combinations[0] if len(groups) > FEW_GROUPS else None
    means = any(resource.form == "per_account" for resource in groups)
    counted = given.counted if means else np.full(len(resources), given.accounts)
    rows, _ = rows_of(given.example, counted, table)
    return rows, given.populate(Grouped(counted, table))


@dataclass(frozen=True, eq=False)
class Grouped:
    """Lays out accounts of several limits; ``counted`` and ``table`` as in :func:`rows_of`."""

    counted: NDArray[np.int64]
    table: NDArray[np.bool_] | None

    def __call__(self, problem: Problem) -> InMemory:
        """The accounts as the kernel takes them."""
        return InMemory(rows_of(problem, self.counted, self.table)[1])
