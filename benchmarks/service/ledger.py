"""Durable authorizations by store and number of callers: per second, and how long one waits."""

import os
import sqlite3
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import Cells
from benchmarks.faults.redis_server import RedisServer, redis_binary
from benchmarks.service.decisions import decisions
from serving.ledger.api.authorize import entries
from serving.ledger.api.items import Items
from serving.ledger.api.messages import Authorizations
from serving.ledger.clock import microseconds
from serving.ledger.opening import open_store
from serving.ledger.records import Ceiling
from serving.ledger.store import Store
from shadowprice.campaign import Budget, Campaign, Terms

CALLERS = (1, 32)
ROUNDS = 3
CAMPAIGN = Campaign(
    name="bench",
    sides={"customer": Terms(levels=(0, 50, 130))},
    budget=Budget(limit=10**12),
    starts_at=datetime(2024, 5, 1, tzinfo=UTC),
)


def run(cells: Cells, quick: bool = False) -> dict[str, Any]:
    """Calls of one authorization each; the best of three rounds, the stores taking turns."""
    calls = 200 if quick else 3000
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        server = RedisServer(folder / "redis") if redis_binary() else None
        stores = {"sqlite": open_store(CAMPAIGN, folder / "ledger.db")}
        if server:
            server.start()
            stores["redis"] = open_store(CAMPAIGN, folder / "none", server.url)
        try:
            for callers in CALLERS:
                for turn in range(ROUNDS):
                    for name, store in stores.items():
                        cell = f"{name}-{callers}-{turn}"
                        figures = cells.of(cell, partial(_measure, store, cell, callers, calls))
                        best = found.setdefault(f"{name}, {callers} callers", figures)
                        if figures["per_second"] > best["per_second"]:
                            found[f"{name}, {callers} callers"] = figures
        finally:
            for store in stores.values():
                store.close()
            if server:
                server.stop()
        found["fdatasync"] = cells.of("fdatasync", partial(_sync_milliseconds, folder))
        found["sqlite's log"] = cells.of("sqlite's log", partial(_log_bytes, folder))
    for name, figures in found.items():
        print(f"{name:22}", "  ".join(f"{key} {value:,.2f}" for key, value in figures.items()))
    return found


def _measure(store: Store, prefix: str, callers: int, calls: int) -> dict[str, float]:
    def call(number: int) -> float:
        now = datetime.now(UTC)
        started = time.perf_counter()
        store.authorize(
            [entries(CAMPAIGN, _batch(f"{prefix}-{number}"), now)], Ceiling(10**12), microseconds(now)
        ).result()
        return time.perf_counter() - started

    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(call, range(-callers, 0)))
        started = time.perf_counter()
        seconds = np.array(list(pool.map(call, range(calls))))
        wall = time.perf_counter() - started
    p50, p99 = np.percentile(seconds, [50, 99]) * 1e3
    return {"per_second": calls / wall, "p50_ms": float(p50), "p99_ms": float(p99)}


def _batch(request_id: str) -> Authorizations:
    items = Items(**decisions([request_id], ["a"]))
    return Authorizations(campaign=CAMPAIGN.name, model_version="m", price_version=1, items=items)


def _log_bytes(folder: Path) -> dict[str, float]:
    """Bytes that a commit of one decision, or of a hundred, appends to the write-ahead log of a ledger of 10,000."""
    path, found = folder / "log.db", {}
    log = path.with_name(f"{path.name}-wal")
    store = open_store(CAMPAIGN, path)

    def decide(count: int) -> None:
        now = datetime.now(UTC)
        wanted = [entry for _ in range(count) for entry in entries(CAMPAIGN, _batch(str(uuid.uuid4())), now)]
        store.authorize([wanted], Ceiling(10**12), microseconds(now)).result()

    try:
        for _ in range(10):
            decide(1000)
        for count in (1, 100):
            with closing(sqlite3.connect(path)) as database:
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            for _ in range(10):
                decide(count)
            found[f"kb_per_commit_of_{count}"] = log.stat().st_size / 10 / 1e3
    finally:
        store.close()
    return found


def _sync_milliseconds(folder: Path) -> dict[str, float]:
    """Time that the disk alone takes to keep one block."""
    seconds = []
    with (folder / "block").open("wb", buffering=0) as file:
        for _ in range(300):
            file.write(bytes(4096))
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            seconds.append(time.perf_counter() - started)
    p50, p99 = np.percentile(seconds, [50, 99]) * 1e3
    return {"p50_ms": float(p50), "p99_ms": float(p99)}
