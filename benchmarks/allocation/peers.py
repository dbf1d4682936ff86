"""One solver on one instance in a process of its own: ``python -m benchmarks.allocation.peers NAME KIND ACCOUNTS``.

With a process each, peak memory is the solver's and a slow peer can be ended. The copies of HiGHS inside highspy and
OR-tools do not share a process. Prints one line of JSON.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.allocation.oracles.dense import Dense
from benchmarks.allocation.oracles.highs import solve_highs_lp
from benchmarks.allocation.oracles.lbfgs import solve_lbfgs
from benchmarks.timing import steady, stream_read
from shadowprice.allocation import Allocation, Problem, Resource, on_response, solve
from shadowprice.allocation.kernel import compiled

Found = dict[str, Any]
LEVELS = np.arange(1, 11) * 20


def problem(kind: str, accounts: int, seed: int = 0) -> Problem:
    """Random rising curves at ten levels, float32.

    ``one``: a budget of 20 per account for incentives paid on response. ``eight``: budgets of eight groups that
    overlap, each account in about a third of them, and the same money in all.
    """
    random = np.random.default_rng(seed)
    value = random.random((LEVELS.size, accounts), dtype=np.float32)
    # In pieces: sorting a whole matrix of 4 GB would need another.
    for start in range(0, accounts, 1 << 20):
        value[:, start : start + (1 << 20)].sort(axis=0)
    if kind == "one":
        return Problem(value, [Resource.total("budget", on_response(LEVELS), 20.0 * accounts)])
    members = random.random((8, accounts)) < 0.35
    limits = random.uniform(12.0, 24.0, 8) * members.sum(axis=1)
    groups = enumerate(zip(limits, members, strict=True))
    return Problem(
        value, [Resource.total(f"group {k}", on_response(LEVELS), float(top), mask) for k, (top, mask) in groups]
    )


def engine(given: Problem) -> Found:
    """The interval method, or boxes for several budgets; the best of as many runs as fit into a few seconds."""
    # A new problem each time: nothing that was looked at before may be remembered.
    seconds, processor, solved = steady(lambda: solve(Problem(given.value, given.resources)))
    return {
        "seconds": seconds,
        "processor": processor,
        "objective": solved.primal,
        "gap": solved.gap,
        "violation": solved.violation,
        "rounded_gap": solved.rounded_gap,
        "rounded_violation": solved.rounded_violation,
        "passes": solved.passes,
        "threads": compiled.THREADS,
    }


def certified(oracle: Callable[..., Allocation], given: Problem, **options: Any) -> Found:
    """A method of ``benchmarks.allocation.oracles``."""
    started, used = time.perf_counter(), time.process_time()
    solved = oracle(given, **options)
    return {
        "seconds": time.perf_counter() - started,
        "processor": time.process_time() - used,
        "objective": solved.primal,
        "gap": solved.gap,
        "violation": solved.violation,
    }


def or_tools(solver: str, given: Problem) -> Found:
    """A solver of OR-tools; only solving is timed, not the writing of the model."""
    from ortools.linear_solver import pywraplp

    model = pywraplp.Solver.CreateSolver(solver)
    if solver == "PDLP":
        accuracy = "eps_optimal_relative: 1e-4 eps_optimal_absolute: 1e-4"
        model.SetSolverSpecificParametersAsString(
            f"termination_criteria {{ simple_optimality_criteria {{ {accuracy} }} }}"
        )
    levels, accounts = given.shape
    dense = Dense.of(given)
    rows = [model.Constraint(-model.infinity(), top) for top in dense.capacity.tolist()]
    objective = model.Objective()
    objective.SetMaximization()
    variables = []
    for i in range(accounts):
        one = model.Constraint(1.0, 1.0)
        for j in range(levels):
            x = model.NumVar(0.0, 1.0, "")
            one.SetCoefficient(x, 1.0)
            objective.SetCoefficient(x, float(given.value[j, i]))
            for row, net in zip(rows, dense.net, strict=True):
                if net[j, i]:
                    row.SetCoefficient(x, float(net[j, i]))
            variables.append(x)
    started, used = time.perf_counter(), time.process_time()
    model.Solve()
    seconds, processor = time.perf_counter() - started, time.process_time() - used
    share = np.array([x.solution_value() for x in variables]).reshape(accounts, levels).T
    excess = (share * dense.net).sum(axis=(1, 2)) / dense.capacity - 1
    return {
        "seconds": seconds,
        "processor": processor,
        "objective": float((share * given.value).sum()),
        "violation": float(excess.max()),
    }


PEERS: dict[str, Callable[[Problem], Found]] = {
    "engine": engine,
    "lbfgs": partial(certified, solve_lbfgs),
    "HiGHS ipm": partial(certified, solve_highs_lp, method="ipm"),
    "HiGHS simplex": partial(certified, solve_highs_lp, method="simplex"),
    "GLOP": partial(or_tools, "GLOP"),
    "PDLP 1e-4": partial(or_tools, "PDLP"),
}


if __name__ == "__main__":
    name, kind, accounts = sys.argv[1], sys.argv[2], int(sys.argv[3])
    PEERS[name](problem(kind, 50))  # what is loaded on a first call is not the solver's
    given = problem(kind, accounts)
    read = stream_read(given.value, 400 if accounts <= 100_000 else 25, threads=compiled.THREADS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = PEERS[name](given)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps({"read": read, "megabytes": given.value.nbytes / 2**20, "peak": peak / 1024, **found}))
