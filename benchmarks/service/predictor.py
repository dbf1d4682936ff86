"""The decision service against KServe answering constants: same machine, same load, alternately, Redis behind it.

Throughput and percentiles are of a closed loop whose generator runs on the same cores, as do the ledger and Redis. A
ratio is of runs that took turns. Processor time per decision depends least on what else the machine does.
"""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cells import Cells
from benchmarks.service.deployment import Running, load, resident_mb, serving
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
        serial = 0
        assert running.trivial is not None
        for service in (running.predictor, running.trivial):  # warm both
            serial = _load(running, service, "v1", 1, 8, 1.0, serial)["serial"]
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
        alone = ledger_alone(running.ledger, Path(folder))
        resident = {"predictor": resident_mb(running.predictor), "ledger": resident_mb(running.ledger)}
        return {"start_seconds": running.start_seconds, "rows": rows, "ledger": alone, "resident_mb": resident}


def _load(
    running: Running, service: Service, protocol: str, batch: int, connections: int, seconds: float, serial: int
) -> dict[str, Any]:
    """One run; ``cpu_us`` and ``ledger_us`` are processor microseconds per decision, ``stages`` mean ms of a call."""
    read = clocks(running.predictor)
    grpc = running.trivial_grpc if service is running.trivial else running.predictor_grpc
    port = {"port": grpc} if protocol == "grpc" else {}
    arguments = {"protocol": protocol, "batch": batch, "connections": connections, "seconds": seconds, "serial": serial}
    found = load(service, {"ledger_us": running.ledger}, **arguments, **port, accounts=ACCOUNTS)
    return found | {"stages": means(read, clocks(running.predictor))}


def _better(one: dict[str, Any] | None, other: dict[str, Any]) -> dict[str, Any]:
    """The best of each figure over the rounds."""
    if one is None:
        return other
    best = {name: max(one[name], other[name]) if name in ("per_second", "serial") else min(one[name], other[name])
            for name in other if name != "stages"}  # fmt: skip
    return best | {"stages": min(one, other, key=lambda each: each["p50_ms"])["stages"]}
