"""One budget by bisection on the price: spend falls as the price rises (S0's flaw of a non-smooth dual, avoided)."""

from __future__ import annotations

import numpy as np

from shadowprice.allocation.problem.dense import Dense
from shadowprice.allocation.problem.problem import Problem
from shadowprice.allocation.problem.solution import Allocation

STEPS = 200


def solve_bisection(problem: Problem, *, tolerance: float = 1e-12) -> Allocation:
    """Halve an interval that holds the price until it is ``tolerance`` of the price wide.

    The price returned is the upper end, where the budget is kept. Levels that tie within the decision rule's
    tolerance share the rest, so that with the default tolerance the answer is the optimum; with a wide one it is
    ``approximate`` and its gap measures the loss. O(J·N) for each of some fifty halvings.

    Raises:
        InvalidProblem: not exactly one budget, a cap.
    """
    problem.only_budget("bisection")
    dense = Dense.of(problem)
    cheapest = dense.cheapest()
    if dense.taken(cheapest)[0] > dense.capacity[0] + dense.slack(cheapest)[0]:
        return dense.infeasible()

    def exceeds(price: float) -> bool:
        cheap, _ = dense.ends(np.array([price]))
        return bool(dense.taken(cheap)[0] > dense.capacity[0] + dense.slack(cheap)[0])

    if not exceeds(0.0):
        return dense.at(np.zeros(1))
    low, high = 0.0, dense.worth / float(dense.unit[0])
    while exceeds(high):
        low, high = high, high * 8.0
    for _ in range(STEPS):
        if high - low <= tolerance * high:
            break
        # Prices differ by orders of magnitude: halve those first.
        middle = (low * high) ** 0.5 if 0.0 < 4.0 * low < high else 0.5 * (low + high)
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    return dense.at(np.array([high]))
