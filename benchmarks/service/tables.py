"""The tables of ``docs/reference/decision-service.md``, from what :mod:`benchmarks.service.predictor` has found."""

from typing import Any

from benchmarks.markdown import Results, goals_missed, markdown

PROTOCOLS = {"v1": "V1", "v2": "V2", "grpc": "V2 gRPC"}
HEADS = (
    *(
        "protocol",
        "accounts a call",
        "connections",
        "decisions a second: KServe's constants",
        "predictor",
        "÷ KServe's",
    ),
    *("p99 ms: predictor", "÷ KServe's", "processor µs a decision: predictor", "ledger"),
)
STAGES = {
    "decode": "reading and checking the body",
    "features": "features (remembered, or asked of Redis)",
    "curve": "curve",
    "decide": "decision",
    "authorize": "the ledger's authorization",
    "encode": "writing the answer",
}


def throughput(results: Results) -> str:
    """Every case, both services."""
    lines = []
    for trivial, ours in _pairs(results):
        lines.append(
            [
                PROTOCOLS[ours["protocol"]],
                ours["batch"],
                ours["connections"],
                *(f"{row['per_second']:,.0f}" for row in (trivial, ours)),
                f"{ours['ratio']:.2f}",
                f"{ours['p99_ms']:.1f}",
                f"{ours['p99_ratio']:.1f}",
                *(f"{figure:,.0f}" for figure in (ours["cpu_us"], ours["ledger_us"])),
            ]
        )
    cores = results["serving"]["machine"]["cores"]
    load = max(cell["load"] for cell in results["serving"]["cells"].values())
    beside = ": **beside other work**, whose syncs and processor time are in the figures" if load > cores + 2.5 else ""
    return f"{markdown(HEADS, lines)}\n\n{cores} cores, load average {load:.0f}{beside}."


def goals(results: Results) -> str:
    """Goals that are missed, and the number of the others."""
    lines: list[tuple[str, str, bool | None]] = []
    for _, ours in _pairs(results):
        where = f"{PROTOCOLS[ours['protocol']]}, {ours['connections']} connection" + "s" * (ours["connections"] > 1)
        if ours["batch"] > 1:
            count = ours["per_second"]
            lines.append(
                (f"{where}, {ours['batch']} a call: ≥ 20,000 decisions a second", f"{count:,.0f}", count >= 2e4)
            )
            continue
        lines.append((f"{where}: ≥ 85 % of KServe's throughput", f"{100 * ours['ratio']:.0f} %", ours["ratio"] >= 0.85))
        lines.append((f"{where}: p99 ≤ 2 ×", f"{ours['p99_ratio']:.2f} ×", ours["p99_ratio"] <= 2.0))
    seconds = results["serving"]["start_seconds"]
    lines.append(("start to ready ≤ 10 s without torch", f"{seconds:.1f} s", seconds <= 10.0))
    return goals_missed(lines)


def stages(results: Results) -> str:
    """Table of the time of each stage of one request on one connection."""
    rows = {
        row["protocol"]: row
        for row in results["serving"]["rows"]
        if (row["service"], row["batch"], row["connections"]) == ("ours", 1, 1)
    }
    alone = results["serving"]["ledger"]
    lines: list[list[object]] = [["p50, as the caller sees it", *(f"{row['p50_ms']:.2f}" for row in rows.values())]]
    for stage, name in STAGES.items():
        lines.append([name, *(f"{row['stages'][stage]:.3f}" for row in rows.values())])
        if stage == "authorize":
            lines += [
                ["— of it, asked alone: a new one", *[f"{alone['new']:.2f}"] * len(rows)],
                ["— the same without writing: a repeated one", *[f"{alone['repeated']:.2f}"] * len(rows)],
                ["— a sync of the disk by itself", *[f"{alone['sync']:.2f}"] * len(rows)],
            ]
    lines.append(
        [
            "the rest: HTTP or gRPC, event loop, the caller's side",
            *(
                f"{max(row['p50_ms'] - sum(row['stages'][stage] for stage in STAGES), 0.0):.2f}"
                for row in rows.values()
            ),
        ]
    )
    return markdown(("ms", *(PROTOCOLS[protocol] for protocol in rows)), lines)


def replicas(results: Results) -> str:
    """Table of one ledger by the number of its replicas."""
    lines = [
        [
            f"{row['replicas']:.0f}",
            f"{row['batch']:.0f}",
            f"{row['per_second']:,.0f}",
            f"{row['ratio']:.2f}",
            f"{row['p50_ms']:.1f}",
            f"{row['p99_ms']:.1f}",
            f"{row['ledger_us']:,.0f}",
        ]
        for row in results["ledger_replicas"]["rows"]
    ]
    heads = ("replicas", "decisions a message", "decisions a second", "÷ one replica", "p50 ms", "p99 ms")
    return markdown((*heads, "replicas' µs a decision"), lines)


def _pairs(results: Results) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    rows = results["serving"]["rows"]
    return list(zip(rows[::2], rows[1::2], strict=True))
