"""Solvers by name. A new one is a file here and a line in ``SOLVERS``."""

from __future__ import annotations

from collections.abc import Callable

from shadowprice.allocation.problem import Problem
from shadowprice.allocation.solution import Allocation
from shadowprice.allocation.solvers.breakpoints import solve_breakpoints
from shadowprice.allocation.solvers.interval import solve_interval
from shadowprice.errors import NotFound

SOLVERS: dict[str, Callable[[Problem], Allocation]] = {
    "breakpoints": solve_breakpoints,
    "interval": solve_interval,
}


def solve(problem: Problem, *, solver: str = "interval") -> Allocation:
    """Solve an allocation problem exactly and certify the answer.

    Raises:
        NotFound: no solver of that name.
        InvalidProblem: the problem is malformed or has a form the solver does not take.
    """
    if solver not in SOLVERS:
        raise NotFound(f"solver {solver!r} is unknown; choose one of {sorted(SOLVERS)}")
    return SOLVERS[solver](problem)
