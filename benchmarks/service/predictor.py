"""The decision service against KServe answering constants: same machine, same load, alternately, Redis behind it.

Throughput and percentiles are of a closed loop whose generator runs on the same cores, as do the ledger and Redis. A
ratio is of runs that took turns. Processor time per decision depends least on what else the machine does.
"""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cells import Cells
from benchmarks.service.deployment import Running, cpu_seconds, port_of, resident_mb, serving
from benchmarks.service.load import generate
from benchmarks.service.stages import clocks, ledger_alone, means
from serving.local.launch import Service

ACCOUNTS = 2000
CASES = (
    *(("v1", 1, 1), ("v1", 1, 32), ("v1", 100, 8)),
    *(("v2", 1, 1), ("v2", 1, 32), ("v2", 100, 8)),
    *(("grpc", 1, 1), ("grpc", 1, 32), ("grpc", 100, 8)),
)
"""Protocol, accounts per call, connections."""


def run(cells: Cells, quick: bool) -> dict[str, Any]:
    """All cases in one measurement, since all are of the same processes."""
    found: dict[str, Any] = cells.of("all", partial(measured, quick))
    return found


def measured(quick: bool) -> dict[str, Any]:
    """Every case, ours and the trivial predictor in turns, the best of them each."""
    seconds, rounds = (2.0, 2) if quick else (5.0, 3)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), ACCOUNTS) as running:
        print(f"predictor: {running.start_seconds:.1f} s from start to ready")
        serial = 0
        assert running.trivial is not None
        for service in (running.predictor, running.trivial):  # warm both
            serial = _load(running, service, "v1", 1, 8, 1.0, serial)["serial"]
        print(
            f"{'protocol':8} {'batch':>5} {'conns':>5} {'service':8} {'per s':>8} {'p50 ms':>7} {'p99 ms':>7}"
            f" {'CPU us':>7} {'ledger':>7} {'ratio':>6} {'p99 x':>6}"
        )
        for protocol, batch, connections in CASES:
            best: dict[str, dict[str, Any]] = {}
            for _ in range(rounds):
                for name, service in (("trivial", running.trivial), ("ours", running.predictor)):
                    found = _load(running, service, protocol, batch, connections, seconds, serial)
                    serial = found["serial"]
                    best[name] = _better(best.get(name), found)
            for name, found in best.items():
                found["ratio"] = found["per_second"] / best["trivial"]["per_second"]
                found["p99_ratio"] = found["p99_ms"] / best["trivial"]["p99_ms"]
                rows.append({"protocol": protocol, "batch": batch, "connections": connections, "service": name} | found)
                print(
                    f"{protocol:8} {batch:>5} {connections:>5} {name:8} {found['per_second']:>8,.0f}"
                    f" {found['p50_ms']:>7.2f} {found['p99_ms']:>7.2f} {found['cpu_us']:>7.0f}"
                    f" {found['ledger_us']:>7.0f} {found['ratio']:>6.2f} {found['p99_ratio']:>6.2f}"
                )
        alone = ledger_alone(running.ledger, Path(folder))
        print("the ledger alone, p50 ms:", ", ".join(f"{name} {figure:.2f}" for name, figure in alone.items()))
        resident = {"predictor": resident_mb(running.predictor), "ledger": resident_mb(running.ledger)}
        return {"start_seconds": running.start_seconds, "rows": rows, "ledger": alone, "resident_mb": resident}


def _load(
    running: Running, service: Service, protocol: str, batch: int, connections: int, seconds: float, serial: int
) -> dict[str, Any]:
    """One run; ``cpu_us`` and ``ledger_us`` are processor microseconds per decision, ``stages`` mean ms of a call."""
    before = cpu_seconds(service), cpu_seconds(running.ledger)
    read = clocks(running.predictor)
    grpc = running.trivial_grpc if service is running.trivial else running.predictor_grpc
    found = generate(
        port=grpc if protocol == "grpc" else port_of(service),
        protocol=protocol,
        batch=batch,
        connections=connections,
        seconds=seconds,
        serial=serial,
        accounts=ACCOUNTS,
    )
    if found["refused"]:
        raise SystemExit(f"{service.name} refused {found['refused']} of {found['calls']} calls:\n{service.tail()}")
    decisions = found["calls"] * batch
    found["stages"] = means(read, clocks(running.predictor))
    found["cpu_us"] = 1e6 * (cpu_seconds(service) - before[0]) / decisions
    found["ledger_us"] = 1e6 * (cpu_seconds(running.ledger) - before[1]) / decisions
    return found


def _better(one: dict[str, Any] | None, other: dict[str, Any]) -> dict[str, Any]:
    """The best of each figure over the rounds."""
    if one is None:
        return other
    best = {name: max(one[name], other[name]) if name in ("per_second", "serial") else min(one[name], other[name])
            for name in other if name != "stages"}  # fmt: skip
    return best | {"stages": min(one, other, key=lambda each: each["p50_ms"])["stages"]}
