"""Exact segment sizes: the engine, the paper's heuristic, manual priority, min-cost flow (OR-tools) and HiGHS."""

import json
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import Cells
from benchmarks.timing import stream_read
from shadowprice.allocation import heuristic_demands, priority_demands, solve_demands

LONGEST_HIGHS = 1_000
"""Accounts up to which HiGHS is asked: it takes minutes for ten thousand."""


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


PEERS = """
import json, sys, time
import numpy as np

peer, path = sys.argv[1:]
given = np.load(path)
value, demand, may = given["value"], given["demand"], given["may"]
depth, accounts = value.shape
segment, account = np.nonzero(may)
if peer == "flow":
    from ortools.graph.python import min_cost_flow

    # The solver takes whole numbers; six digits of the largest value.
    unit = 1e6 / float(np.abs(value).max())
    gain = np.rint(value[may].astype(np.float64) * unit).astype(np.int64)
    started, wall = time.process_time(), time.perf_counter()
    solver = min_cost_flow.SimpleMinCostFlow()
    solver.add_arcs_with_capacity_and_unit_cost(account, accounts + segment, np.ones_like(gain), -gain)
    supplies = np.concatenate([np.ones(accounts, dtype=np.int64), -demand])
    solver.set_nodes_supplies(np.arange(accounts + depth), supplies)
    status = solver.solve()
    seconds, wall = time.process_time() - started, time.perf_counter() - wall
    assert status == solver.OPTIMAL, status
    taken = solver.flows(np.arange(gain.size)) > 0
else:
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix, vstack

    one = np.ones(segment.size)
    rows = vstack([csr_matrix((one, (group, np.arange(segment.size)))) for group in (account, segment)])
    right = np.concatenate([np.ones(accounts), demand])
    started, wall = time.process_time(), time.perf_counter()
    found = linprog(-value[may].astype(np.float64), A_eq=rows, b_eq=right, method="highs")
    seconds, wall = time.process_time() - started, time.perf_counter() - wall
    taken = found.x > 0.5
print(json.dumps({"seconds": seconds, "wall": wall, "objective": float(value[may][taken].astype(np.float64).sum())}))
"""


def peer(name: str, value: np.ndarray, demand: np.ndarray, allowed: np.ndarray | None) -> dict[str, float]:
    """A peer in a process of its own: the HiGHS of OR-tools and that of highspy exclude each other."""
    may = np.ones(value.shape, dtype=bool) if allowed is None else allowed
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "instance.npz"
        np.savez(path, value=value, demand=demand, may=may)
        done = subprocess.run(
            [sys.executable, "-c", PEERS, name, str(path)], capture_output=True, text=True, check=True
        )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def timed(function: Callable[[], Any], repeat: int) -> tuple[float, float, Any]:
    """CPU seconds and wall seconds of the fastest of ``repeat`` runs, and the last result."""
    cpu = wall = np.inf
    result = None
    for _ in range(repeat):
        began, started = time.perf_counter(), time.process_time()
        result = function()
        cpu, wall = min(cpu, time.process_time() - started), min(wall, time.perf_counter() - began)
    return cpu, wall, result


def memory(function: Callable[[], Any], value: np.ndarray) -> float:
    """Peak memory with the input counted, in units of the input."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return 1.0 + peak / value.nbytes


def measured(accounts: int, depth: int, kind: str, *, flow: bool) -> dict[str, Any]:
    """One instance by every method."""
    value, demand, allowed = instance(accounts, depth, kind)
    seconds, wall, plan = timed(lambda: solve_demands(value, demand, allowed), 30 if accounts <= 200_000 else 15)
    assert plan.status == "optimal"
    row: dict[str, Any] = {"accounts": accounts, "segments": depth, "kind": kind}
    row |= {"seconds": seconds, "wall": wall, "objective": plan.objective, "gap": plan.gap}
    row["reads"] = seconds / stream_read(value)
    row["memory"] = memory(lambda: solve_demands(value, demand, allowed), value)
    row["passes"] = plan.passes
    row["sizes_exact"] = bool((np.bincount(plan.segment, minlength=depth) == demand).all())
    for name, method in {"heuristic": heuristic_demands, "priority": priority_demands}.items():
        took, _, other = timed(partial(method, value, demand, allowed), 2)
        row[name] = {"seconds": took, "ratio": took / seconds, "of_optimum": other.objective / plan.objective}
        row[name] |= {"status": other.status, "ineligible": other.ineligible}
    for name, wanted in (("flow", flow), ("highs", accounts <= LONGEST_HIGHS)):
        if wanted:
            found = peer(name, value, demand, allowed)
            difference = (found["objective"] - plan.objective) / abs(plan.objective)
            row[name] = found | {"ratio": found["seconds"] / seconds, "difference": difference}
    return row


def run(cells: Cells, quick: bool) -> dict[str, Any]:
    """CPU seconds of each method; ratios are against the engine in the same run."""
    sizes = (
        [(1_000, 4), (10_000, 4)] if quick else [(1_000, 4), (10_000, 4), (200_000, 4), (200_000, 8), (1_000_000, 8)]
    )
    rows = []
    header = ("accounts", "J", "instance", "cpu ms", "reads", "gap", "memory", "flow x", "differs", "HiGHS x", "HA x")
    print(" ".join(f"{name:>9}" for name in (*header, "HA/opt", "prio/opt")))
    for kind in ("uniform", "funds"):
        for accounts, depth in sizes:
            row = cells.of(f"{kind} {accounts} {depth}", partial(measured, accounts, depth, kind, flow=True))
            rows.append(row)
            flow, highs = (row.get(name, {}) for name in ("flow", "highs"))
            shown = (
                f"{row['seconds'] * 1e3:.2f}",
                f"{row['reads']:.0f}",
                f"{row['gap']:.0e}",
                f"{row['memory']:.2f}",
                f"{flow.get('ratio', np.nan):.0f}",
                f"{flow.get('difference', np.nan):.0e}",
                f"{highs.get('ratio', np.nan):.0f}",
                f"{row['heuristic']['ratio']:.0f}",
                f"{row['heuristic']['of_optimum']:.4f}",
                f"{row['priority']['of_optimum']:.4f}",
            )
            print(" ".join(f"{text:>9}" for text in (f"{accounts:,}", depth, kind, *shown)), flush=True)
    return {"exact_sizes": rows}
