"""Any number of limits — caps, floors, equalities, over overlapping groups, of different costs — exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.allocation.boxes import locate
from shadowprice.allocation.certificate import certified, contradiction
from shadowprice.allocation.population import InMemory
from shadowprice.allocation.problem import Problem
from shadowprice.allocation.rows import rows_of
from shadowprice.allocation.solution import Allocation
from shadowprice.errors import InvalidProblem


def solve_box(problem: Problem, *, near: ArrayLike | None = None) -> Allocation:
    """Exact optimum for any number of resources of any form and sense, and a whole answer near it.

    ``near`` are prices (K,) expected to be close, such as the last hour's; they save the first sample's search.

    Raises:
        InvalidProblem: a malformed resource, or members that overlap in too many ways.
    """
    rows, tile = rows_of(problem)
    located = locate(InMemory(tile), rows, None if near is None else _near(near, rows.count))
    answer = certified if located.vertex.ray is None else contradiction
    return answer(located, tuple(problem.resources))


def _near(near: ArrayLike, rows: int) -> NDArray[np.float64]:
    prices = np.asarray(near, dtype=np.float64)
    if prices.shape != (rows,) or not np.isfinite(prices).all():
        raise InvalidProblem(f"needs one finite price for each of {rows} resources", field="near")
    return prices
