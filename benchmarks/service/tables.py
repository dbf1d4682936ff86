"""The tables of ``docs/reference/{service-performance,capacity}.md``."""

import math
from collections.abc import Callable
from typing import Any

from benchmarks.markdown import Results, goals_missed, grid, markdown

PROTOCOLS = {"v1": "V1", "v2": "V2", "grpc": "V2 gRPC"}
STAGES = {
    "decode": "reading and checking the body",
    "features": "features (remembered, or asked of Redis)",
    "curve": "curve",
    "decide": "decision",
    "authorize": "the ledger's authorization",
    "encode": "writing the answer",
}
TARGET = 0.7
"""Share of a core that a process may use: the autoscaler's target."""
LEAST = 2
RATES = (100, 1_000, 2_500, 5_000, 10_000, 15_000)
KINDS = ((1, 32), (100, 8))
"""Accounts per call and connections of the two kinds of caller in the tables of capacity."""


def throughput(results: Results) -> str:
    cases = [ours | {"protocol": PROTOCOLS[ours["protocol"]], "kserve": other} for other, ours in _pairs(results)]
    shown = grid(
        cases,
        ("protocol", "{protocol}"),
        ("accounts a call", "{batch}"),
        ("connections", "{connections}"),
        ("decisions a second: KServe's constants", "{kserve[per_second]:,.0f}"),
        ("predictor", "{per_second:,.0f}"),
        ("÷ KServe's", "{ratio:.2f}"),
        ("p99 ms: predictor", "{p99_ms:.1f}"),
        ("÷ KServe's", "{p99_ratio:.1f}"),
        ("processor µs a decision: predictor", "{cpu_us:,.0f}"),
        ("ledger", "{ledger_us:,.0f}"),
    )
    cores = results["serving"]["machine"]["cores"]
    load = max(cell["load"] for cell in results["serving"]["cells"].values())
    beside = ": **beside other work**, whose syncs and processor time are in the figures" if load > cores + 2.5 else ""
    return f"{shown}\n\n{cores} cores, load average {load:.0f}{beside}."


def goals(results: Results) -> str:
    """Goals that are missed, and the number of the others."""
    lines: list[tuple[str, str, bool | None]] = []
    for _, ours in _pairs(results):
        where = f"{PROTOCOLS[ours['protocol']]}, {ours['connections']} connection" + "s" * (ours["connections"] > 1)
        if ours["batch"] > 1:
            count, goal = ours["per_second"], f"{where}, {ours['batch']} a call: ≥ 20,000 decisions a second"
            lines.append((goal, f"{count:,.0f}", count >= 2e4))
            continue
        lines.append((f"{where}: ≥ 85 % of KServe's throughput", f"{100 * ours['ratio']:.0f} %", ours["ratio"] >= 0.85))
        lines.append((f"{where}: p99 ≤ 2 ×", f"{ours['p99_ratio']:.2f} ×", ours["p99_ratio"] <= 2.0))
    seconds = results["serving"]["start_seconds"]
    lines.append(("start to ready ≤ 10 s without torch", f"{seconds:.1f} s", seconds <= 10.0))
    return goals_missed(lines)


def stages(results: Results) -> str:
    rows = [row for _, row in _pairs(results) if (row["batch"], row["connections"]) == (1, 1)]
    alone = results["serving"]["ledger"]

    def line(name: str, values: list[float], digits: int = 2) -> list[str]:
        return [name, *(f"{value:.{digits}f}" for value in values)]

    lines = [line("p50, as the caller sees it", [row["p50_ms"] for row in rows])]
    for stage, name in STAGES.items():
        lines.append(line(name, [row["stages"][stage] for row in rows], 3))
        if stage == "authorize":
            lines += [
                line("— of it, asked alone: a new one", [alone["new"]] * len(rows)),
                line("— the same without writing: a repeated one", [alone["repeated"]] * len(rows)),
                line("— a sync of the disk by itself", [alone["sync"]] * len(rows)),
            ]
    rest = [max(row["p50_ms"] - sum(row["stages"][stage] for stage in STAGES), 0.0) for row in rows]
    lines.append(line("the rest: HTTP or gRPC, event loop, the caller's side", rest))
    return markdown(("ms", *(PROTOCOLS[row["protocol"]] for row in rows)), lines)


def replicas(results: Results) -> str:
    return grid(
        results["ledger_replicas"]["rows"],
        ("replicas", "{replicas:.0f}"),
        ("decisions a message", "{batch:.0f}"),
        ("decisions a second", "{per_second:,.0f}"),
        ("÷ one replica", "{ratio:.2f}"),
        ("p50 ms", "{p50_ms:.1f}"),
        ("p99 ms", "{p99_ms:.1f}"),
        ("replicas' µs a decision", "{ledger_us:,.0f}"),
    )


def calls(results: Results) -> str:
    """Processor time per decision by kind of call, and the decisions that a ledger takes at the target, in hundreds."""
    return grid(
        _kinds(results),
        ("V2, calls with", "{what}, {connections} connections"),
        ("µs a decision: predictor", "{cpu_us:.0f}"),
        ("ledger", "{ledger_us:.0f}"),
        (
            f"most that one ledger takes at {TARGET}",
            lambda row: f"{int(1e6 * TARGET / row['ledger_us'] // 100 * 100):,} a second",
        ),
    )


def capacity(results: Results) -> str:
    """Predictors, one of them being replaced, and the ledger's core by decisions per second."""
    rows = _kinds(results)
    lines = []
    for rate in RATES:
        line = [f"{rate:,}"]
        for row in rows:
            share = rate * row["ledger_us"] / 1e6
            predictors = max(LEAST, 1 + math.ceil(rate * row["cpu_us"] / (1e6 * TARGET)))
            line += [str(predictors) if share <= TARGET else "beyond the ledger", f"{100 * share:.0f} %"]
        lines.append(line)
    heads = (f"{row['what']} a call: predictors" for row in rows)
    return markdown(("decisions a second", *(each for head in heads for each in (head, "ledger's core"))), lines)


def resident(results: Results) -> str:
    found = results["serving"]["resident_mb"].items()
    return markdown(("process", "resident, after the load"), [[name, f"{value:.0f} MB"] for name, value in found])


def stores(results: Results) -> str:
    found = results["capacity"]
    sizes = {
        f"online store's Redis, an account with an embedding of {row['width']}": row["bytes"] for row in found["online"]
    }
    for kind, each in found["ledger"].items():
        sizes |= {f"ledger in {kind}, {'an' if name == 'outcome' else 'a'} {name}": each[name] for name in each}
    lines = [[what, f"{size:,.0f}", f"{size / 1e3:,.2f} GB"] for what, size in sizes.items()]
    return markdown(("what", "bytes", "a million"), lines)


def _pairs(results: Results) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    rows = results["serving"]["rows"]
    return list(zip(rows[::2], rows[1::2], strict=True))


def _kinds(results: Results) -> list[dict[str, Any]]:
    """The row of each of ``KINDS`` in V2, with its words."""
    ours = [row for row in results["serving"]["rows"] if (row["protocol"], row["service"]) == ("v2", "ours")]
    rows = {(row["batch"], row["connections"]): row for row in ours}
    return [rows[kind] | {"what": "one account" if kind[0] == 1 else f"{kind[0]} accounts"} for kind in KINDS]


TABLES: dict[str, tuple[str, Callable[[Results], str]]] = {
    "calls": ("serving", calls),
    "replicas": ("serving", capacity),
    "resident": ("serving", resident),
    "stores": ("capacity", stores),
    "service": ("serving", throughput),
    "servicegoals": ("serving", goals),
    "servicestages": ("serving", stages),
    "ledgerreplicas": ("ledger_replicas", replicas),
}
