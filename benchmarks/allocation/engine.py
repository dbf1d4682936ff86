"""Budgets: the engine against HiGHS, OR-tools and L-BFGS on the same instances, in one run.

``reads`` is the time on the clock against one stream read of the same array by as many threads, measured in the same
process: what can be compared between machines. ``ratio`` is a peer's processor time (on one thread, as all of them
run) against the engine's on the clock. ``difference`` is how far a peer's objective is from the engine's certified
optimum, ``violation`` what it exceeds a budget by, both relative.
"""

import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.allocation.peers import PEERS
from benchmarks.cells import Cells
from benchmarks.child import answer
from benchmarks.drawing import draw

LONGEST = 20.0
"""Seconds of solving from which a peer is not asked for more accounts."""
PATIENCE = 90.0
"""Seconds after which a process is ended; writing a model may take as long as solving it."""
SIZES = {
    "one": (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000),
    "eight": (1_000, 10_000, 100_000, 1_000_000),
}
QUICK = {"one": (1_000, 10_000, 100_000, 1_000_000), "eight": (1_000, 10_000)}
KINDS = {"one": "one budget", "eight": "eight budgets of overlapping groups"}
ENGINES = {"engine": len(os.sched_getaffinity(0)), "engine, 1 thread": 1}
THREADED = 1_000_000
"""Accounts from which a second thread takes part."""


def run(cells: Cells, quick: bool) -> dict[str, Any]:
    """Peers only up to where they answer within a minute or so; with ``quick`` within seconds."""
    sizes, longest = (QUICK, 1.0) if quick else (SIZES, LONGEST)
    rows = [row for kind in KINDS for row in compare(cells, kind, sizes[kind], longest)]
    lines = {title: lines_of(rows, kind) for kind, title in KINDS.items()}
    draw(lines, cells.path.with_suffix(".svg"), "seconds")
    return {"rows": rows}


def compare(cells: Cells, kind: str, sizes: tuple[int, ...], longest: float) -> list[dict[str, Any]]:
    """A row for each solver and size; the engine comes first, and the others are measured against it."""
    peers = [name for name in PEERS if name != "engine"]
    rows: list[dict[str, Any]] = []
    mine: dict[str, Any] = {}
    last: dict[str, float] = {}
    out_of_reach: set[str] = set()
    for accounts in sizes:
        for name in [*ENGINES, *peers] if accounts >= THREADED else ["engine", *peers]:
            row = {"accounts": accounts, "solver": name, "kind": kind}
            found: dict[str, Any] | str
            # Those who grew beyond the limit are not asked again.
            if name in out_of_reach or (name in peers and 10 * last.get(name, 0.0) > longest):
                found = f"> {longest:.0f} s expected"
            else:
                found = cells.of(f"{kind} {accounts} {name}", partial(ask, name, kind, accounts))
            if isinstance(found, str):
                out_of_reach.add(name)
                rows.append(row | {"skipped": found})
                continue
            mine = found if name == "engine" else mine
            last[name] = found["processor"]
            row |= found | {"reads": found["seconds"] / found["read"]}
            row["ratio"] = found["processor" if name in peers else "seconds"] / mine["seconds"]
            row["difference"] = abs(found["objective"] / mine["objective"] - 1)
            rows.append(row)
    return rows


def ask(name: str, kind: str, accounts: int) -> dict[str, Any] | str:
    """Result of a solver in a process of its own, or the reason why there is none."""
    needed = 1.6 * 40 * accounts / 2**30
    if needed > 0.9 * available():
        return f"needs {needed:.1f} GB of memory, {available():.1f} are free"
    patience, threads = PATIENCE + 6e-6 * accounts, str(ENGINES.get(name, 1))
    words = (name.split(",")[0], kind, str(accounts))
    try:
        return dict(answer("benchmarks.allocation.peers", *words, seconds=patience, OMP_NUM_THREADS=threads))
    except subprocess.TimeoutExpired:
        return f"> {patience:.0f} s"
    except RuntimeError as error:
        return str(error)


def available() -> float:
    """GB of memory that are free, or may be made so."""
    information = Path("/proc/meminfo")
    if not information.is_file():
        return float("inf")
    entry = next(line for line in information.read_text().splitlines() if line.startswith("MemAvailable"))
    return int(entry.split()[1]) / 2**20


def lines_of(rows: list[dict[str, Any]], kind: str) -> dict[str, list[tuple[float, float]]]:
    """Label → seconds by accounts, of the solvers and of one read of the values by the engine."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["kind"] == kind and row["solver"] in PEERS and "skipped" not in row:
            found.setdefault(row["solver"], []).append((row["accounts"], row["seconds"]))
            if row["solver"] == "engine":
                found.setdefault("one read of the values", []).append((row["accounts"], row["read"]))
    return found
