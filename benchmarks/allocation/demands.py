"""Exact segment sizes: the engine, the paper's heuristic, manual priority, min-cost flow (OR-tools) and HiGHS.

``python -m benchmarks.allocation.demands flow|highs KIND ACCOUNTS SEGMENTS`` runs a peer on an instance: the HiGHS of
OR-tools and that of highspy exclude each other in one process.
"""

import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cells import Cells
from benchmarks.child import answer
from benchmarks.timing import best, stream_read
from shadowprice.allocation import heuristic_demands, priority_demands, solve_demands

LONGEST_HIGHS = 1_000
"""Accounts up to which HiGHS is asked: it takes minutes for ten thousand."""
SIZES = ((1_000, 4), (10_000, 4), (200_000, 4), (200_000, 8), (1_000_000, 8))
"""Accounts and segments; the first two in quick mode."""


def run(cells: Cells, quick: bool) -> dict[str, Any]:
    """CPU seconds of each method; ratios are against the engine in the same run."""
    return {
        "exact_sizes": [
            cells.of(f"{kind} {accounts} {depth}", partial(measured, accounts, depth, kind))
            for kind in ("uniform", "funds")
            for accounts, depth in SIZES[: 2 if quick else None]
        ]
    }


def instance(accounts: int, depth: int, kind: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Values, demands and eligibility: independent ``uniform`` values, or ``funds`` as S2's.

    ``funds`` has heavy-tailed expected amounts (lognormal, sigma 1), funds of different appeal, uneven demands, and
    risk rules nested by tolerance that leave a plan.
    """
    random = np.random.default_rng(seed)
    if kind == "uniform":
        demand = np.full(depth, accounts // depth)
        demand[0] += accounts - demand.sum()
        return random.random((depth, accounts), dtype=np.float32), demand, None
    value = (random.lognormal(0, 1, (depth, accounts)) * random.lognormal(0, 0.5, (depth, 1))).astype(np.float32)
    demand = np.floor(random.dirichlet(np.full(depth, 3.0)) * accounts).astype(np.int64)
    demand[0] += accounts - demand.sum()
    tolerance = random.permutation(np.repeat(np.arange(depth), demand))
    tolerance = np.maximum(tolerance, random.integers(0, depth, accounts))
    return value, demand, np.arange(depth)[:, None] <= tolerance


def measured(accounts: int, depth: int, kind: str) -> dict[str, Any]:
    value, demand, allowed = instance(accounts, depth, kind)

    def engine() -> Any:
        return solve_demands(value, demand, allowed)

    seconds, plan = best(engine, 30 if accounts <= 200_000 else 15, time.process_time)
    assert plan.status == "optimal"
    row: dict[str, Any] = {"accounts": accounts, "segments": depth, "kind": kind}
    row |= {"seconds": seconds, "objective": plan.objective, "gap": plan.gap, "passes": plan.passes}
    row |= {"reads": seconds / stream_read(value), "memory": memory(engine, value)}
    row["sizes_exact"] = bool((np.bincount(plan.segment, minlength=depth) == demand).all())
    for name, method in {"heuristic": heuristic_demands, "priority": priority_demands}.items():
        took, other = best(partial(method, value, demand, allowed), 2, time.process_time)
        row[name] = {"seconds": took, "ratio": took / seconds, "of_optimum": other.objective / plan.objective}
        row[name] |= {"status": other.status, "ineligible": other.ineligible}
    for name in ("flow", "highs") if accounts <= LONGEST_HIGHS else ("flow",):
        found = answer(__name__, name, kind, str(accounts), str(depth))
        difference = (found["objective"] - plan.objective) / abs(plan.objective)
        row[name] = found | {"ratio": found["seconds"] / seconds, "difference": difference}
    return row


def memory(function: Callable[[], Any], value: np.ndarray) -> float:
    """Peak memory with the input counted, in units of the input."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return 1.0 + peak / value.nbytes


def flow(value: np.ndarray, demand: np.ndarray, may: np.ndarray) -> tuple[float, np.ndarray]:
    """CPU seconds of OR-tools' min-cost flow, and which of the allowed pairs (P,) it takes."""
    from ortools.graph.python import min_cost_flow

    (segment, account), (depth, accounts) = np.nonzero(may), value.shape
    # The solver takes whole numbers; six digits of the largest value.
    unit = 1e6 / float(np.abs(value).max())
    gain = np.rint(value[may].astype(np.float64) * unit).astype(np.int64)
    started = time.process_time()
    solver = min_cost_flow.SimpleMinCostFlow()
    solver.add_arcs_with_capacity_and_unit_cost(account, accounts + segment, np.ones_like(gain), -gain)
    supplies = np.concatenate([np.ones(accounts, dtype=np.int64), -demand])
    solver.set_nodes_supplies(np.arange(accounts + depth), supplies)
    status = solver.solve()
    seconds = time.process_time() - started
    assert status == solver.OPTIMAL, status
    return seconds, solver.flows(np.arange(gain.size)) > 0


def highs(value: np.ndarray, demand: np.ndarray, may: np.ndarray) -> tuple[float, np.ndarray]:
    """Result of :func:`flow` by the linear program in scipy's HiGHS."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix, vstack

    segment, account = np.nonzero(may)
    one, column = np.ones(segment.size), np.arange(segment.size)
    rows = vstack([csr_matrix((one, (group, column))) for group in (account, segment)])
    right = np.concatenate([np.ones(value.shape[1]), demand])
    started = time.process_time()
    found = linprog(-value[may].astype(np.float64), A_eq=rows, b_eq=right, method="highs")
    return time.process_time() - started, found.x > 0.5


if __name__ == "__main__":
    name, kind, accounts, depth = sys.argv[1:]
    value, demand, allowed = instance(int(accounts), int(depth), kind)
    may = np.ones(value.shape, dtype=bool) if allowed is None else allowed
    seconds, taken = {"flow": flow, "highs": highs}[name](value, demand, may)
    print(json.dumps({"seconds": seconds, "objective": float(value[may][taken].astype(np.float64).sum())}))
