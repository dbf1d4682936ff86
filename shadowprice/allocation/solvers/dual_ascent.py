"""Dual decomposition (S1): accounts answer the prices one by one, prices follow what they spend."""

from __future__ import annotations

import numpy as np

from shadowprice.allocation.problem.dense import Dense
from shadowprice.allocation.problem.problem import Problem
from shadowprice.allocation.problem.solution import Allocation
from shadowprice.errors import InvalidProblem


def solve_dual_ascent(problem: Problem, *, steps: int = 500, step: float = 0.3, power: float = 0.5) -> Allocation:
    """Approximate optimum for any number of limits by the projected subgradient method.

    λ ← max(0, λ − η_t·s/|s|), s the dual's subgradient, in units of the largest value and of each row's largest
    entry, with the schedule η_t = ``step`` / t^``power``. The bound is the lowest dual that was met. The prices where
    it was met, and the mean of the last half of the path, are raised until the caps are kept; the better answer is
    returned. O(K·J·N) a step; the error falls like 1/√steps.

    Raises:
        InvalidProblem: an option out of range, or a malformed resource.
    """
    for name, good in (("steps", steps >= 1), ("step", 0.0 < step < np.inf), ("power", 0.0 <= power <= 1.0)):
        if not good:
            raise InvalidProblem("out of range: steps ≥ 1, step > 0, 0 ≤ power ≤ 1", field=name)
    dense = Dense.of(problem)
    unit = dense.unit / dense.worth
    prices = best = np.zeros(len(problem.resources))
    mean, lowest = np.zeros(prices.size), np.inf
    for t in range(1, steps + 1):
        bound, slope = dense.bound(prices)
        if bound < lowest:
            best, lowest = prices, bound
        slope = slope / dense.unit
        size = float(np.linalg.norm(slope))
        if size == 0.0:
            break
        prices = np.clip(prices - step / t**power * slope / size / unit, dense.lower, dense.upper)
        if 2 * t > steps:
            mean += prices / (steps - steps // 2)
    return dense.best_of([best, mean], bound=lowest)
