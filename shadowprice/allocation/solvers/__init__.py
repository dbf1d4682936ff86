"""Solvers by name. A new one is a file here and a line in ``SOLVERS``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shadowprice.allocation.problem import Problem
from shadowprice.allocation.solution import Allocation
from shadowprice.allocation.solvers.box import solve_box
from shadowprice.allocation.solvers.breakpoints import solve_breakpoints
from shadowprice.allocation.solvers.interval import solve_interval
from shadowprice.errors import InvalidProblem, NotFound

SOLVERS: dict[str, Callable[..., Allocation]] = {
    "box": solve_box,
    "breakpoints": solve_breakpoints,
    "interval": solve_interval,
}

AUTO = "auto"


def solve(problem: Problem, *, solver: str = AUTO, **options: Any) -> Allocation:
    """Solve an allocation problem exactly and certify the answer.

    Args:
        problem: values, limits and what is allowed.
        solver: a name in ``SOLVERS``; ``auto`` takes ``interval`` for one budget and ``box`` for anything else.
        options: the solver's own, such as ``near``, a price that is expected to be close.

    Raises:
        NotFound: no solver of that name.
        InvalidProblem: the problem is malformed or has a form the solver does not take, or the solver
            has no such option.
    """
    name = suitable(problem) if solver == AUTO else solver
    if name not in SOLVERS:
        raise NotFound(f"solver {name!r} is unknown; choose one of {[AUTO, *sorted(SOLVERS)]}")
    chosen = SOLVERS[name]
    unknown = set(options) - set(chosen.__kwdefaults__ or ())
    if unknown:
        raise InvalidProblem(f"solver {name!r} has no option {sorted(unknown)}", field=sorted(unknown)[0])
    return chosen(problem, **options)


def suitable(problem: Problem) -> str:
    """The solver that ``auto`` stands for."""
    one = len(problem.resources) == 1 and problem.resources[0].sense == "at_most"
    return "interval" if one else "box"
