"""Capacity of one, two and four ledgers over one Redis: durable decisions a second, and processor time of each part.

Messages are those of the predictor. Two generators, processes of their own, send each connection's next message when
the last is answered. A ratio is to one ledger, in the same round.
``python -m benchmarks.service.replicas`` reads a JSON object of the arguments of :func:`drive` and prints the result.
"""

import asyncio
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import Cells
from benchmarks.child import answer
from benchmarks.faults.redis_server import RedisServer
from benchmarks.service.decisions import decisions
from benchmarks.service.deployment import cpu_seconds
from serving.local.launch import Service, free_port
from serving.predictor.ledger.client import Authorizer
from serving.predictor.ledger.columns import Proposals
from shadowprice.campaign import Budget, Campaign, Terms

REPLICAS = (1, 2, 4)
KINDS = ((1, 32), (16, 16))
"""Decisions of a message, and connections."""
GENERATORS = 2
CAMPAIGN = Campaign(
    name="bench",
    sides={"customer": Terms(levels=(0, 50, 130))},
    budget=Budget(limit=10**12),
    starts_at=datetime(2024, 5, 1, tzinfo=UTC),
)
ROUNDS = 3


def run(cells: Cells, quick: bool = False) -> dict[str, Any]:
    """Every number of replicas and kind of message, in turns; the median of three rounds."""
    seconds, rounds = (1.0, 1) if quick else (5.0, ROUNDS)
    return {"rows": cells.of("all", partial(_measured, seconds, rounds))}


def _measured(seconds: float, rounds: int) -> list[dict[str, float]]:
    found: dict[tuple[int, int], list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(rounds):
            for replicas in REPLICAS:
                folder = Path(scratch) / f"{turn}-{replicas}"
                folder.mkdir()
                for batch, figures in _one(folder, replicas, seconds).items():
                    found.setdefault((replicas, batch), []).append(figures)
    rows = []
    for (replicas, batch), each in found.items():
        middle = {name: float(np.median([row[name] for row in each])) for name in each[0]}
        ratios = [row["per_second"] / one["per_second"] for row, one in zip(each, found[1, batch], strict=True)]
        rows.append({"replicas": replicas, "batch": batch, "ratio": float(np.median(ratios)), **middle})
    return rows


def _one(folder: Path, replicas: int, seconds: float) -> dict[int, dict[str, float]]:
    file = folder / "campaign.json"
    file.write_text(json.dumps(CAMPAIGN.to_dict()))
    with ExitStack() as running:
        server = RedisServer(folder / "redis")
        server.start()
        running.callback(server.stop)
        ledgers = []
        for number in range(replicas):
            port = free_port()
            command = ["serving.ledger", "--campaign-file", str(file), "--redis", server.url, "--port", str(port)]
            ledgers.append(Service("ledger", command, port, "/readyz", folder / f"{number}.log"))
            running.callback(ledgers[-1].stop)
        for ledger in ledgers:
            ledger.wait_ready(60.0)
        return {batch: _load(ledgers, batch, connections, seconds) for batch, connections in KINDS}


def _load(ledgers: list[Service], batch: int, connections: int, seconds: float) -> dict[str, float]:
    before, urls = sum(map(cpu_seconds, ledgers)), [ledger.url for ledger in ledgers]
    each = {"urls": urls, "batch": batch, "connections": connections // GENERATORS, "seconds": seconds}
    asked = [json.dumps(each | {"prefix": f"{batch}-{number}"}) for number in range(GENERATORS)]
    with ThreadPoolExecutor(GENERATORS) as pool:
        told = list(pool.map(partial(answer, "benchmarks.service.replicas"), asked))
    decisions = sum(own["calls"] for own in told) * batch
    return {
        "per_second": sum(own["calls"] * batch / own["seconds"] for own in told),
        "p50_ms": float(np.median([own["p50_ms"] for own in told])),
        "p99_ms": max(own["p99_ms"] for own in told),
        "ledger_us": 1e6 * (sum(map(cpu_seconds, ledgers)) - before) / decisions,
    }


async def drive(urls: list[str], batch: int, connections: int, seconds: float, prefix: str) -> dict[str, float]:
    """Load the ledgers at ``urls`` for ``seconds``, each connection one of them; calls, and percentiles in ms."""
    times: list[float] = []
    started = time.perf_counter()

    async def one(number: int) -> None:
        authorizer = Authorizer(urls[number % len(urls)], CAMPAIGN.name)
        serial = 0
        while (sent := time.perf_counter()) < started + seconds:
            names = [f"{prefix}-{number}-{serial}-{row}" for row in range(batch)]
            await authorizer.authorize(_proposals(names), model_version="m", price_version=1)
            times.append(time.perf_counter() - sent)
            serial += 1
        authorizer.close()

    await asyncio.gather(*(one(number) for number in range(connections)))
    p50, p99 = np.percentile(times, [50, 99]) * 1e3
    elapsed = time.perf_counter() - started
    return {"calls": len(times), "seconds": elapsed, "p50_ms": float(p50), "p99_ms": float(p99)}


def _proposals(names: list[str]) -> Proposals:
    accounts, n = [f"account-{hash(name) % 100_000}" for name in names], len(names)
    return Proposals(**decisions(names, accounts), features_at=[None] * n, response_unpaid=[0.1] * n)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(drive(**json.loads(sys.argv[1])))))
