"""Latency of a decision by its parts: live context, feature cache, kept connections, and a change of thread.

Each pair takes turns on the same processes. The predictor has a model with a request tower, so that one and the same
request is decided on the stored vector without context, and joined live with it.
"""

import asyncio
import http.client
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import Cells
from benchmarks.service.deployment import load, port_of, serving
from benchmarks.service.load import V1, body
from serving.ledger.groups import Group, Groups

ACCOUNTS = 2000
CONNECTIONS = (1, 32)
CACHES = {"cache of 5 s": "5", "no cache": "0"}
CALLS = 1500
JSON = {"Content-Type": "application/json"}


def run(cells: Cells, quick: bool = False) -> dict[str, Any]:
    """Rows of calls, of new connections, and of changes of thread."""
    seconds, rounds, calls = (1.0, 1, 200) if quick else (5.0, 3, CALLS)
    rows = []
    for name, cache in CACHES.items():
        rows += cells.of(name, partial(_measured, name, cache, seconds, rounds, calls))
    wake_up = cells.of("wake-up", partial(_wake_up, calls))
    for row in rows:
        print("  ".join(f"{key} {value if isinstance(value, str) else round(value, 3)}" for key, value in row.items()))
    print(f"a call of a thread and its answer, without work: {wake_up:.3f} ms")
    return {"rows": rows, "wake_up_ms": wake_up}


def _measured(name: str, cache: str, seconds: float, rounds: int, calls: int) -> list[dict[str, Any]]:
    found: dict[tuple[str, int], dict[str, Any]] = {}
    settings = {"SHADOWPRICE_CACHE_SECONDS": cache}
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), ACCOUNTS, settings, with_trivial=False, context=True) as running,
    ):
        ask = partial(load, running.predictor, protocol="v1", batch=1, accounts=ACCOUNTS)
        serial = ask(connections=8, seconds=1.0, serial=0)["serial"]
        for _ in range(rounds):
            for connections in CONNECTIONS:
                for kind in ("stored vector", "live context"):
                    context = kind == "live context"
                    each = ask(connections=connections, seconds=seconds, serial=serial, context=context)
                    serial = each["serial"]
                    best = found.setdefault((kind, connections), each)
                    if each["p50_ms"] < best["p50_ms"]:
                        found[kind, connections] = each
        kept, new = _connections(port_of(running.predictor), serial, calls)
    rows = [
        {"cache": name, "kind": kind, "connections": connections}
        | {key: each[key] for key in ("per_second", "p50_ms", "p99_ms", "cpu_us")}
        for (kind, connections), each in found.items()
    ]
    caller = {"kept connection": kept, "new connection": new}
    return [*rows, *({"cache": name, "kind": kind, "p50_ms": middle} for kind, middle in caller.items())]


def _connections(port: int, serial: int, calls: int) -> tuple[float, float]:
    """p50 in ms of a call on a kept connection, and of one that opens its own, in turns."""
    kept = http.client.HTTPConnection("127.0.0.1", port)
    times: tuple[list[float], list[float]] = [], []
    for number in range(calls):
        for place in (0, 1):
            content = body("v1", 1, serial + 2 * number + place, ACCOUNTS)
            started = time.perf_counter()
            connection = kept if place == 0 else http.client.HTTPConnection("127.0.0.1", port)
            connection.request("POST", V1, content, JSON)
            answer = connection.getresponse()
            answer.read()
            times[place].append(time.perf_counter() - started)
            if answer.status != 200:
                raise SystemExit(f"a call was answered {answer.status}")
            if place:
                connection.close()
    kept.close()
    first, second = (1e3 * float(np.median(each)) for each in times)
    return first, second


def _wake_up(calls: int) -> float:
    """p50 in ms of a call from an event loop to the thread of a store, which does nothing, and back."""

    def nothing(group: Group) -> None:
        for _, future in group:
            future.set_result(None)

    async def hops() -> list[float]:
        times = []
        for _ in range(calls):
            started = time.perf_counter()
            await asyncio.wrap_future(groups.submit(None))
            times.append(time.perf_counter() - started)
        return times

    groups = Groups("benchmark", nothing)
    try:
        return 1e3 * float(np.median(asyncio.run(hops())))
    finally:
        groups.close()
