"""The solve of an allocation problem: one budget by an interval of its price, anything else by a partition."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from shadowprice.allocation.executors import Executor
from shadowprice.allocation.population.mapped import LevelFile
from shadowprice.allocation.problem.problem import Problem
from shadowprice.allocation.problem.solution import Allocation
from shadowprice.allocation.solvers.interval import solve_interval
from shadowprice.allocation.solvers.partition import solve_partition
from shadowprice.allocation.solvers.prepared import Opened, open_shards
from shadowprice.allocation.sources import Sharded
from shadowprice.errors import InvalidProblem


def solve(
    problem: Problem | Sharded,
    executor: Executor | None = None,
    *,
    near: ArrayLike | None = None,
    level_path: str | Path | None = None,
) -> Allocation:
    """Solve an allocation problem exactly and certify the answer.

    Args:
        problem: values, limits and what is allowed; in memory, or a ``StoredProblem`` (files), which is read a tile at
            a time.
        executor: holds and scores the accounts: None for this process, or a ``RayExecutor``.
        near: prices (K,) that are expected to be close, such as the last hour's; they save the sample.
        level_path: where to write the levels, an int32 ``.npy`` file, instead of keeping them in memory; ``level`` is
            then a map of it.

    Prices, levels and certificate do not depend on the executor, nor on how the accounts are cut into shards (but for
    the last bits of sums).

    Raises:
        InvalidProblem: the problem is malformed.
        InvalidInput: a shard's file that is missing, truncated or unlike its description in the folder; names it.
        Unavailable: actors die again and again, or a cluster has no buffer for them.
    """
    if isinstance(problem, Problem) and executor is None:
        if level_path is None:
            return _method(problem, near)(problem)
        with LevelFile(level_path) as file:
            return file.keep(_method(problem, near)(problem))
    if level_path is None:
        with open_shards(problem, executor) as accounts:
            return _method(accounts.example, near)(accounts)
    with LevelFile(level_path) as file, open_shards(problem, executor, file.buffer) as accounts:
        return file.keep(_method(accounts.example, near)(accounts))


def _method(example: Problem, near: ArrayLike | None) -> Callable[[Problem | Opened], Allocation]:
    """Return the method for the form of the limits."""
    count = len(example.resources)
    prices = None if near is None else np.asarray(near, dtype=np.float64).ravel()
    if prices is not None and (prices.size != count or not np.isfinite(prices).all()):
        raise InvalidProblem(f"needs one finite price for each of {count} resources", field="near")
    if count == 1 and example.resources[0].sense == "at_most":
        return lambda given: solve_interval(given, near=None if prices is None else float(prices[0]))
    return lambda given: solve_partition(given, near=prices)
