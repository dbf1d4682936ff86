"""Solvers by name. A new one is a file here and a line in ``SOLVERS``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from shadowprice.allocation.executors import Executor
from shadowprice.allocation.population.level_file import LevelFile
from shadowprice.allocation.problem.problem import Problem
from shadowprice.allocation.problem.solution import Allocation
from shadowprice.allocation.solvers.bisection import solve_bisection
from shadowprice.allocation.solvers.breakpoints import solve_breakpoints
from shadowprice.allocation.solvers.dual_ascent import solve_dual_ascent
from shadowprice.allocation.solvers.highs import solve_highs_lp, solve_highs_milp
from shadowprice.allocation.solvers.interval import solve_interval
from shadowprice.allocation.solvers.lbfgs import solve_lbfgs
from shadowprice.allocation.solvers.partition import solve_partition
from shadowprice.allocation.solvers.prepared import open_shards
from shadowprice.allocation.sources import Sharded
from shadowprice.errors import InvalidProblem, NotFound

SOLVERS: dict[str, Callable[..., Allocation]] = {
    "bisection": solve_bisection,
    "partition": solve_partition,
    "breakpoints": solve_breakpoints,
    "dual_ascent": solve_dual_ascent,
    "highs_lp": solve_highs_lp,
    "highs_milp": solve_highs_milp,
    "interval": solve_interval,
    "lbfgs": solve_lbfgs,
}

OF_SHARDS = frozenset({"partition", "interval"})
"""Solvers that only sample and score, and so take accounts wherever they are."""

AUTO = "auto"


def solve(
    problem: Problem | Sharded,
    executor: Executor | None = None,
    *,
    solver: str = AUTO,
    level_path: str | Path | None = None,
    **options: Any,
) -> Allocation:
    """Solve an allocation problem exactly and certify the answer.

    Args:
        problem: values, limits and what is allowed; in memory, or described by a ``StoredProblem`` (files) or a
            ``CurveProblem`` (embeddings and a response head), which are read a tile at a time.
        executor: who holds and scores the accounts: None for this process, or a ``RayExecutor``.
        solver: a name in ``SOLVERS``; ``auto`` takes ``interval`` for one budget and ``partition`` for anything else.
        level_path: where to write the levels, an int32 ``.npy`` file, instead of keeping them in memory; ``level`` is
            then a map of it.
        options: the solver's own, such as ``near``, a price that is expected to be close.

    Prices, levels and certificate do not depend on the executor, nor on how the accounts are cut into shards (but for
    the last bits of sums).

    Raises:
        NotFound: no solver of that name.
        InvalidProblem: the problem is malformed or has a form the solver does not take, or the solver
            has no such option, or it takes problems in memory and in this process only.
        InvalidInput: a shard's file that is missing, truncated or unlike its description in the folder; names it.
        Unavailable: actors die again and again, or a cluster has no buffer for them.
    """
    if isinstance(problem, Problem) and executor is None:
        chosen = _chosen(solver, problem, options)
        if level_path is None:
            return chosen(problem, **options)
        with LevelFile(level_path) as file:
            return file.keep(chosen(problem, **options))
    if level_path is None:
        with open_shards(problem, executor) as accounts:
            return _chosen(solver, accounts.example, options, shards=True)(accounts, **options)
    with LevelFile(level_path) as file, open_shards(problem, executor, file.buffer) as accounts:
        return file.keep(_chosen(solver, accounts.example, options, shards=True)(accounts, **options))


def _chosen(
    solver: str, problem: Problem, options: dict[str, Any], *, shards: bool = False
) -> Callable[..., Allocation]:
    name = suitable(problem) if solver == AUTO else solver
    if name not in SOLVERS:
        raise NotFound(f"solver {name!r} is unknown; choose one of {[AUTO, *sorted(SOLVERS)]}")
    if shards and name not in OF_SHARDS:
        raise InvalidProblem(
            f"solver {name!r} takes problems in memory, without an executor; {sorted(OF_SHARDS)} take any",
            field="solver",
        )
    chosen = SOLVERS[name]
    unknown = set(options) - set(chosen.__kwdefaults__ or ())
    if unknown:
        raise InvalidProblem(f"solver {name!r} has no option {sorted(unknown)}", field=sorted(unknown)[0])
    return chosen


def suitable(problem: Problem) -> str:
    """The solver that ``auto`` stands for."""
    one = len(problem.resources) == 1 and problem.resources[0].sense == "at_most"
    return "interval" if one else "partition"
