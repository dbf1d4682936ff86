"""Budgets: the engine against HiGHS, OR-tools, L-BFGS and DuaLip on the same instances, in one run.

Times are processor seconds of the whole process, which other work on the machine disturbs least. Ratios to one stream
read of the same array are what can be compared between machines. ``difference`` is how far a peer's objective is from
the engine's certified optimum, ``violation`` what it exceeds a budget by, both relative.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.peers import PEERS

LONGEST = 60.0
"""Seconds after which a peer is ended, and not asked for more accounts."""

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
KINDS = {"one": "one budget", "eight": "eight budgets of overlapping groups"}
RESULTS = Path(__file__).parent / "results"
ROOT = Path(__file__).resolve().parents[1]


def ask(name: str, kind: str, accounts: int, seconds: float) -> dict[str, Any] | str:
    """What a solver found in a process of its own, or the reason why it found nothing."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.peers", name, kind, str(accounts)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return f"> {seconds:.0f} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["ended without a word"])[-1]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def compare(kind: str, sizes: tuple[int, ...], peers: tuple[str, ...], longest: float) -> list[dict[str, Any]]:
    """A table of all solvers at all sizes; the engine comes first, and the others are measured against it."""
    print(f"{KINDS[kind]}, ten levels")
    header = ("accounts", "solver", "CPU s", "reads", "x engine", "growth", "gap", "difference", "violation", "MB")
    print("{:>11} {:>14} {:>10} {:>9} {:>9} {:>7} {:>9} {:>11} {:>10} {:>9}".format(*header))
    rows: list[dict[str, Any]] = []
    last: dict[str, float] = {}
    out_of_reach: set[str] = set()
    for accounts in sizes:
        mine: dict[str, Any] = {}
        for name in ("engine", *peers):
            # A model takes as long to write as to solve: those who grew beyond the limit are not asked again.
            expected = 10 * last.get(name, 0.0)
            if name in out_of_reach or (name != "engine" and expected > longest):
                print(f"{accounts:>11,} {name:>14} skipped: more than {longest:.0f} s expected")
                out_of_reach.add(name)
                continue
            found = ask(name, kind, accounts, 4 * longest)
            if isinstance(found, str):
                print(f"{accounts:>11,} {name:>14} skipped: {found}")
                out_of_reach.add(name)
                continue
            mine = found if name == "engine" else mine
            row = {"accounts": accounts, "solver": name, "kind": kind, **found}
            row["reads"] = found["processor"] / mine["read"]
            row["ratio"] = found["processor"] / mine["processor"]
            row["difference"] = abs(found["objective"] / mine["objective"] - 1)
            row["growth"] = found["processor"] / last[name] if name in last else None
            last[name] = found["processor"]
            rows.append(row)
            growth = f"{row['growth']:.1f}" if row["growth"] else ""
            gap = f"{found['gap']:.1e}" if "gap" in found else ""
            print(
                f"{accounts:>11,} {name:>14} {found['processor']:>10.5f} {row['reads']:>9.1f} {row['ratio']:>9.0f} "
                f"{growth:>7} {gap:>9} {row['difference']:>11.1e} {found['violation']:>10.1e} {found['peak']:>9.1f}",
                flush=True,
            )
        if mine:
            size, read = f"{mine['megabytes']:.1f} MB", f"{mine['read'] * 1e3:.3f} ms"
            print(
                f"{'':>11} one read of {size}: {read}; engine: {mine['seconds'] * 1e3:.2f} ms on the clock, "
                f"{mine['passes']} passes, answer in whole levels within {mine['rounded_gap']:.1e} of the bound"
            )
    return rows


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Seconds by accounts, logarithmic, one panel for each kind of instance."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(KINDS), figsize=(11, 4.5), sharey=True, layout="constrained")
    for panel, (kind, title) in zip(panels, KINDS.items(), strict=True):
        mine = [row for row in rows if row["kind"] == kind]
        for name in PEERS:
            line = [(row["accounts"], row["processor"]) for row in mine if row["solver"] == name]
            if line:
                panel.plot(*zip(*line, strict=True), marker="o", label=name, linewidth=2.5 if name == "engine" else 1.2)
        reads = [(row["accounts"], row["read"]) for row in mine if row["solver"] == "engine"]
        panel.plot(*zip(*reads, strict=True), color="grey", linestyle=":", label="one read of the values")
        panel.set(xscale="log", yscale="log", xlabel="accounts", title=title)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("processor seconds")
    panels[0].legend(fontsize="small")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def run(quick: bool) -> dict[str, Any]:
    """Peers only up to where they answer within a minute; with ``quick`` within seconds."""
    peers = tuple(name for name in PEERS if name != "engine")
    if find_spec("dualip") is None:
        print("DuaLip: not installed, skipped")
    else:
        print("DuaLip: installed, but its interface differs between releases and is not called here")
    longest = 4.0 if quick else LONGEST
    rows = compare("one", SIZES[:3] if quick else SIZES, peers, longest)
    rows += compare("eight", SIZES[:2] if quick else SIZES[:4], peers, longest)
    RESULTS.mkdir(exist_ok=True)
    for suffix in ("png", "svg"):
        plot(rows, RESULTS / f"allocation.{suffix}")
    print(f"-> {RESULTS / 'allocation.png'}")
    return {"rows": rows}
