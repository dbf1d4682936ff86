"""Several budgets over overlapping groups: the solver against HiGHS (interior point) on the same instances."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from benchmarks.instances import LEVELS
from benchmarks.timing import best, stream_read
from shadowprice.allocation import Problem, Resource, on_response, solve


def instance(accounts: int, rows: int = 8, seed: int = 0) -> Problem:
    """Monotone random curves, one budget for all and seven for random groups of three accounts in ten."""
    random = np.random.default_rng(seed)
    value = np.sort(random.random((LEVELS.size, accounts), dtype=np.float32), axis=0)
    resources = [Resource.total("all", on_response(LEVELS), 20.0 * accounts)]
    for k in range(1, rows):
        members = random.random(accounts) < 0.3
        resources.append(Resource.total(f"group {k}", on_response(LEVELS), (14.0 + k) * members.sum(), members))
    return Problem(value, resources)


def highs(problem: Problem) -> float:
    """Optimum of the linear programme by HiGHS's interior point method."""
    levels, accounts = problem.shape
    one = np.tile(np.arange(accounts), levels)
    found = linprog(
        -problem.value.ravel().astype(float),
        A_ub=csr_matrix(np.stack([problem.paid(resource).ravel() for resource in problem.resources])),
        b_ub=[problem.capacity(resource) for resource in problem.resources],
        A_eq=csr_matrix((np.ones(one.size), (one, np.arange(one.size))), shape=(accounts, one.size)),
        b_eq=np.ones(accounts),
        method="highs-ipm",
    )
    return -float(found.fun)


def run(quick: bool) -> dict[str, Any]:
    """Time both; HiGHS at 10,000 accounts only."""
    rows = []
    heads = f"{'accounts':>10} {'seconds':>9} {'reads':>7} {'gap':>8} {'whole gap':>10} {'passes':>7}"
    print(f"{heads} {'HiGHS':>8} {'off':>8}")
    for accounts in (1_000, 10_000) if quick else (1_000, 10_000, 100_000, 1_000_000):
        problem = instance(accounts)
        seconds, found = best(lambda problem=problem: solve(problem), repeat=5)
        row: dict[str, Any] = {
            "accounts": accounts,
            "seconds": seconds,
            "reads": seconds / stream_read(problem.value),
            "gap": found.gap,
            "violation": found.violation,
            "whole_gap": found.rounded_gap,
            "whole_violation": found.rounded_violation,
            "passes": found.passes,
        }
        if accounts == 10_000:
            row["highs_seconds"], objective = best(lambda problem=problem: highs(problem), repeat=1)
            row["ratio"] = row["highs_seconds"] / seconds
            row["difference"] = abs(objective - found.primal) / abs(objective)
        rows.append(row)
        print(
            f"{accounts:>10,} {seconds:>9.4f} {row['reads']:>7.0f} {found.gap:>8.0e} {found.rounded_gap:>10.1e} "
            f"{found.passes:>7} {row.get('ratio', np.nan):>7.0f}× {row.get('difference', np.nan):>8.0e}"
        )
    return {"several_budgets": rows}
