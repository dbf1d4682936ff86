"""One budget: the solver against HiGHS (interior point) on the same instances."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, vstack

from benchmarks.timing import best, stream_read
from shadowprice.allocation import Problem, Resource, on_response, solve

LEVELS = np.arange(1, 11) * 20


def instance(accounts: int, seed: int = 0) -> Problem:
    """Monotone random curves at ten levels, incentives paid on response, a budget of 20 per account."""
    value = np.sort(np.random.default_rng(seed).random((LEVELS.size, accounts), dtype=np.float32), axis=0)
    return Problem(value, [Resource.total("budget", on_response(LEVELS), 20.0 * accounts)])


def highs(problem: Problem) -> float:
    """Optimum of the linear programme by HiGHS's interior point method."""
    levels, accounts = problem.shape
    resource = problem.resources[0]
    one = np.tile(np.arange(accounts), levels)
    choose = csr_matrix((np.ones(one.size), (one, np.arange(one.size))), shape=(accounts, one.size))
    found = linprog(
        -problem.value.ravel().astype(float),
        A_ub=csr_matrix(problem.paid(resource).ravel()),
        b_ub=[problem.capacity(resource)],
        A_eq=vstack([choose]),
        b_eq=np.ones(accounts),
        method="highs-ipm",
    )
    return -float(found.fun)


def run(quick: bool) -> dict[str, Any]:
    """Time both; HiGHS only up to where it answers within a minute."""
    rows = []
    print(f"{'accounts':>10} {'seconds':>10} {'reads':>8} {'gap':>9} {'HiGHS s':>9} {'ratio':>8} {'difference':>11}")
    for accounts in (1_000, 10_000) if quick else (1_000, 10_000, 100_000, 1_000_000):
        problem = instance(accounts)
        seconds, found = best(lambda problem=problem: solve(problem), repeat=2)
        row: dict[str, Any] = {"accounts": accounts, "seconds": seconds, "gap": found.gap, "violation": found.violation}
        row["reads"] = seconds / stream_read(problem.value)
        if accounts <= 10_000:
            row["highs_seconds"], objective = best(lambda problem=problem: highs(problem), repeat=1)
            row["ratio"] = row["highs_seconds"] / seconds
            row["difference"] = abs(objective - found.primal) / abs(objective)
        rows.append(row)
        print(
            f"{accounts:>10,} {seconds:>10.4f} {row['reads']:>8.0f} {found.gap:>9.1e} "
            f"{row.get('highs_seconds', np.nan):>9.2f} {row.get('ratio', np.nan):>8.0f} "
            f"{row.get('difference', np.nan):>11.1e}"
        )
    return {"one_budget": rows}
