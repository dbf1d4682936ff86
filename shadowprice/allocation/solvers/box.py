"""Any number of limits — caps, floors, equalities, over overlapping groups, of different costs — exactly."""

from __future__ import annotations

from shadowprice.allocation.boxes import locate
from shadowprice.allocation.certificate import certified, contradiction
from shadowprice.allocation.population import InMemory
from shadowprice.allocation.problem import Problem
from shadowprice.allocation.rows import rows_of
from shadowprice.allocation.solution import Allocation


def solve_box(problem: Problem) -> Allocation:
    """Exact optimum for any number of resources of any form and sense, and a whole answer near it.

    Raises:
        InvalidProblem: a malformed resource, or members that overlap in too many ways.
    """
    rows, tile = rows_of(problem)
    located = locate(InMemory(tile), rows)
    answer = certified if located.vertex.ray is None else contradiction
    return answer(located, tuple(problem.resources))
