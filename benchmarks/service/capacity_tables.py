"""The tables of ``docs/reference/capacity.md``, from what ``serving`` and ``capacity`` measured."""

import math
from collections.abc import Callable
from typing import Any

from benchmarks.markdown import Results, markdown

TARGET = 0.7
"""Share of a core that a process may use: the autoscaler's target."""
LEAST = 2
RATES = (100, 1_000, 2_500, 5_000, 10_000, 15_000)
KINDS = ((1, 32), (100, 8))
"""Accounts per call and connections of the two kinds of caller in the tables."""


def replicas(rate: float, microseconds: float) -> int:
    """Predictors for so many decisions a second: what the load takes at the target, and one that is being replaced."""
    return max(LEAST, 1 + math.ceil(rate * microseconds / (1e6 * TARGET)))


def most(microseconds: float) -> int:
    """Decisions a second that one process takes at the target, in hundreds."""
    return int(1e6 * TARGET / microseconds // 100 * 100)


def calls(results: Results) -> str:
    """Processor time per decision by kind of call."""
    lines = []
    for batch, connections in KINDS:
        row = _row(results, batch, connections)
        what = "one account" if batch == 1 else f"{batch} accounts"
        ledger = row["ledger_us"]
        lines.append(
            [
                f"{what}, {connections} connections",
                f"{row['cpu_us']:.0f}",
                f"{ledger:.0f}",
                f"{most(ledger):,} a second",
            ]
        )
    return markdown(
        ("V2, calls with", "µs a decision: predictor", "ledger", f"most that one ledger takes at {TARGET}"), lines
    )


def sizes(results: Results) -> str:
    """Replicas and the ledger's core by decisions per second."""
    rows = [_row(results, *kind) for kind in KINDS]
    lines = []
    for rate in RATES:
        line = [f"{rate:,}"]
        for row in rows:
            share = rate * row["ledger_us"] / 1e6
            line.append(str(replicas(rate, row["cpu_us"])) if share <= TARGET else "beyond the ledger")
            line.append(f"{100 * share:.0f} %")
        lines.append(line)
    heads = ("decisions a second", "one account a call: predictors", "ledger's core", "100 accounts a call: predictors")
    return markdown((*heads, "ledger's core"), lines)


def resident(results: Results) -> str:
    """Memory of the processes after the load."""
    found = results["serving"]["resident_mb"]
    return markdown(
        ("process", "resident, after the load"), [[name, f"{value:.0f} MB"] for name, value in found.items()]
    )


def stores(results: Results) -> str:
    """Bytes of the stores and what a million of each takes."""
    found = results["capacity"]
    lines = [
        [f"online store's Redis, an account with an embedding of {row['width']}", row["bytes"]]
        for row in found["online"]
    ]
    for kind, each in found["ledger"].items():
        lines += [
            [f"ledger in {kind}, {'an' if name == 'outcome' else 'a'} {name}", value] for name, value in each.items()
        ]
    return markdown(
        ("what", "bytes", "a million"), [[what, f"{size:,.0f}", f"{size / 1e3:,.2f} GB"] for what, size in lines]
    )


def _row(results: Results, batch: int, connections: int) -> dict[str, Any]:
    [found] = [
        row
        for row in results["serving"]["rows"]
        if (row["protocol"], row["batch"], row["connections"], row["service"]) == ("v2", batch, connections, "ours")
    ]
    return dict(found)


TABLES: dict[str, tuple[str, Callable[[Results], str]]] = {
    "calls": ("serving", calls),
    "replicas": ("serving", sizes),
    "resident": ("serving", resident),
    "stores": ("capacity", stores),
}
