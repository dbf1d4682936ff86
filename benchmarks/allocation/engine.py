"""Budgets: the engine against HiGHS, OR-tools and L-BFGS on the same instances, in one run.

``reads`` is the time on the clock against one stream read of the same array by as many threads, measured in the same
process: what can be compared between machines. ``x engine`` is a peer's processor time (on one thread, as all of them
run) against the engine's on the clock. ``difference`` is how far a peer's objective is from the engine's certified
optimum, ``violation`` what it exceeds a budget by, both relative.
"""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.allocation.peers import PEERS
from benchmarks.cells import Cells

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

ROOT = Path(__file__).resolve().parents[2]


def ask(name: str, kind: str, accounts: int, seconds: float) -> dict[str, Any] | str:
    """Result of a solver in a process of its own, or the reason why there is none."""
    threads = ENGINES.get(name, 1)
    needed = 1.6 * 40 * accounts / 2**30
    if needed > 0.9 * available():
        return f"needs {needed:.1f} GB of memory, {available():.1f} are free"
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "benchmarks.allocation.peers",
        name.split(",")[0],
        kind,
        str(accounts),
    ]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, cwd=ROOT, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        return f"> {seconds:.0f} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["ended without a word"])[-1]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def available() -> float:
    """GB of memory that are free, or may be made so."""
    information = Path("/proc/meminfo")
    if not information.is_file():
        return float("inf")
    entry = next(line for line in information.read_text().splitlines() if line.startswith("MemAvailable"))
    return int(entry.split()[1]) / 2**20


def compare(cells: Cells, kind: str, sizes: tuple[int, ...], peers: list[str], longest: float) -> list[dict[str, Any]]:
    """A table of all solvers at all sizes; the engine comes first, and the others are measured against it."""
    print(f"{KINDS[kind]}, ten levels")
    header = ("accounts", "solver", "seconds", "CPU s", "reads", "x engine", "growth", "gap", "difference", "violation")
    print("{:>12} {:>16} {:>10} {:>10} {:>9} {:>9} {:>7} {:>9} {:>11} {:>10} {:>8}".format(*header, "MB"), flush=True)
    rows: list[dict[str, Any]] = []
    last: dict[str, float] = {}
    out_of_reach: set[str] = set()
    for accounts in sizes:
        mine: dict[str, Any] = {}
        for name in [*ENGINES, *peers] if accounts >= THREADED else ["engine", *peers]:
            # Those who grew beyond the limit are not asked again.
            if name in out_of_reach or (name in peers and 10 * last.get(name, 0.0) > longest):
                out_of_reach.add(name)
                rows.append(
                    {"accounts": accounts, "solver": name, "kind": kind, "skipped": f"> {longest:.0f} s expected"}
                )
                continue
            patience = PATIENCE + 6e-6 * accounts
            found = cells.of(f"{kind} {accounts} {name}", partial(ask, name, kind, accounts, patience))
            if isinstance(found, str):
                print(f"{accounts:>12,} {name:>16} skipped: {found}", flush=True)
                rows.append({"accounts": accounts, "solver": name, "kind": kind, "skipped": found})
                out_of_reach.add(name)
                continue
            mine = found if name == "engine" else mine
            row = {"accounts": accounts, "solver": name, "kind": kind, **found}
            row["reads"] = found["seconds"] / found["read"]
            row["ratio"] = found["processor" if name in peers else "seconds"] / mine["seconds"]
            row["difference"] = abs(found["objective"] / mine["objective"] - 1)
            row["growth"] = found["processor"] / last[name] if name in last else None
            last[name] = found["processor"]
            rows.append(row)
            print(line(row), flush=True)
        if mine:
            read = f"one read of {mine['megabytes']:.1f} MB by {mine['threads']} threads: {mine['read'] * 1e3:.3f} ms"
            whole = f"the answer in whole levels is within {mine['rounded_gap']:.1e} of the bound"
            print(f"{'':>12} {read}; {mine['passes']} passes; {whole}", flush=True)
    return rows


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    growth = f"{row['growth']:.1f}" if row["growth"] else ""
    gap = f"{row['gap']:.1e}" if "gap" in row else ""
    return (
        f"{row['accounts']:>12,} {row['solver']:>16} {row['seconds']:>10.5f} {row['processor']:>10.5f} "
        f"{row['reads']:>9.1f} {row['ratio']:>9.0f} {growth:>7} {gap:>9} {row['difference']:>11.1e} "
        f"{row['violation']:>10.1e} {row['peak']:>8.1f}"
    )


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Seconds by accounts, logarithmic, one panel for each kind of instance."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(KINDS), figsize=(11, 4.5), sharey=True, layout="constrained")
    for panel, (kind, title) in zip(panels, KINDS.items(), strict=True):
        mine = [row for row in rows if row["kind"] == kind and "skipped" not in row]
        for name in PEERS:
            line = [(row["accounts"], row["seconds"]) for row in mine if row["solver"] == name]
            if line:
                panel.plot(*zip(*line, strict=True), marker="o", label=name, linewidth=2.5 if name == "engine" else 1.2)
        reads = [(row["accounts"], row["read"]) for row in mine if row["solver"] == "engine"]
        panel.plot(*zip(*reads, strict=True), color="grey", linestyle=":", label="one read of the values")
        panel.set(xscale="log", yscale="log", xlabel="accounts", title=title)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("seconds")
    panels[0].legend(fontsize="small")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def run(cells: Cells, quick: bool) -> dict[str, Any]:
    """Peers only up to where they answer within a minute or so; with ``quick`` within seconds."""
    peers = [name for name in PEERS if name != "engine"]
    sizes = QUICK if quick else SIZES
    rows = [row for kind in KINDS for row in compare(cells, kind, sizes[kind], peers, 1.0 if quick else LONGEST)]
    cells.path.parent.mkdir(parents=True, exist_ok=True)
    for suffix in ("png", "svg"):
        plot(rows, cells.path.with_suffix(f".{suffix}"))
    print(f"-> {cells.path.with_suffix('.svg')}")
    return {"rows": rows}
