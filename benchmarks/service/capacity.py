"""Size of the stores: Redis per account online, and the ledger per decision and outcome.

Bytes are differences of the memory (of the file, for sqlite) between two sizes, so that what is there once does not
count. What the machine does besides changes none of it.
"""

import json
import sqlite3
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import redis

from benchmarks.cells import Cells
from benchmarks.faults.redis_server import RedisServer
from benchmarks.service.decisions import decisions
from benchmarks.service.deployment import REDIS, environment
from serving.ledger.api.authorize import entries
from serving.ledger.api.items import Items
from serving.ledger.api.messages import Authorizations
from serving.ledger.clock import microseconds
from serving.ledger.opening import open_store
from serving.ledger.records import Ceiling, ReportedOutcome
from serving.ledger.store import Store
from shadowprice.campaign import Budget, Campaign, Terms

WIDTHS = (16, 64)
LEVELS = (0, 20, 40, 60, 80, 100, 120, 140, 160, 180)
BATCH = 500
CEILING = Ceiling(10**12)
CAMPAIGN = Campaign(
    name="capacity",
    sides={"customer": Terms(levels=LEVELS)},
    budget=Budget(limit=10**12),
    starts_at=datetime(2024, 5, 1, tzinfo=UTC),
)


def run(cells: Cells, quick: bool = False) -> dict[str, Any]:
    online, ledger = ((400, 1200), (500, 1500)) if quick else ((5_000, 20_000), (10_000, 40_000))
    return {
        "online": [
            {"width": width, "bytes": cells.of(f"online-{width}", partial(_online, width, online))} for width in WIDTHS
        ],
        "ledger": {kind: cells.of(kind, partial(_ledger, kind, ledger)) for kind in ("redis", "sqlite")},
    }


def _online(width: int, sizes: tuple[int, int]) -> float:
    # Feast must not be imported before KServe is, which the deployment's parts do in their own processes.
    from feature_repo.columns import FeatureColumns
    from feature_repo.online import publish_embeddings
    from feature_repo.store import create

    used = []
    with tempfile.TemporaryDirectory() as scratch:
        server = RedisServer(Path(scratch) / "redis")
        server.start()
        try:
            with environment(**{REDIS: f"127.0.0.1:{server.port}"}):
                columns = FeatureColumns(profile={"customer": ("x_age",)}, embedding_width=width, model_versions=("m",))
                store = create(Path(scratch) / "features", columns, online="redis")
                for size in sizes:
                    publish_embeddings(store, _frame(size, width), progress=False)
                    used.append(_used(server))
        finally:
            server.stop()
    return (used[1] - used[0]) / (sizes[1] - sizes[0])


def _frame(accounts: int, width: int) -> pd.DataFrame:
    random = np.random.default_rng(accounts)
    return pd.DataFrame(
        {
            "account_id": [f"account-{number:010d}" for number in range(accounts)],
            "side": "customer",
            "computed_at": pd.Timestamp("2024-05-01", tz="UTC"),
            "embedding": list(random.normal(size=(accounts, width)).astype(np.float32)),
        }
    )


def _ledger(kind: str, sizes: tuple[int, int]) -> dict[str, float]:
    """Bytes per decision, and per outcome besides."""
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as ending:
        file, server = Path(scratch) / "ledger.db", None
        if kind == "redis":
            server = RedisServer(Path(scratch) / "redis")
            server.start()
            ending.callback(server.stop)
        store = open_store(CAMPAIGN, file, server.url if server else "")
        ending.callback(store.close)
        used = []
        for start, end in ((0, sizes[0]), sizes):
            for first in range(start, end, BATCH):
                names = [_request(number) for number in range(first, min(first + BATCH, end))]
                authorize(store, decisions(names, [f"account-{name[-10:]}" for name in names], 3, LEVELS))
            used.append(_used(server) if server else size_of(file))
        for first in range(0, sizes[1], BATCH):
            names = [_request(number) for number in range(first, min(first + BATCH, sizes[1]))]
            settle(store, [(name, name, LEVELS[3], _content(name, LEVELS[3])) for name in names])
        used.append(_used(server) if server else size_of(file))
    return {"decision": (used[1] - used[0]) / (sizes[1] - sizes[0]), "outcome": (used[2] - used[1]) / sizes[1]}


def authorize(store: Store, columns: Mapping[str, list[Any]]) -> None:
    """Authorize the rows of a message."""
    now, items = datetime.now(UTC), Items(**columns)
    asked = Authorizations(campaign=CAMPAIGN.name, model_version="0123456789abcdef", price_version=1, items=items)
    store.authorize([entries(CAMPAIGN, asked, now)], CEILING, microseconds(now)).result()


def settle(store: Store, redeemed: Iterable[tuple[str, str, int, str]]) -> None:
    """Report redemptions: event, request, cost and content of each."""
    now = microseconds(datetime.now(UTC))
    outcomes = [
        ReportedOutcome(
            where="",
            source="shop",
            event_id=event_id,
            request_id=name,
            side="customer",
            response=1.0,
            cost=cost,
            observed_at=now,
            content=content,
        )
        for event_id, name, cost, content in redeemed
    ]
    store.settle(outcomes, CEILING, now).result()


def _content(name: str, cost: int) -> str:
    return json.dumps({"request_id": name, "redeemed": True, "cost": cost})


def _request(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def _used(server: RedisServer) -> int:
    with redis.Redis.from_url(server.url) as client:
        return int(client.info("memory")["used_memory"])


def size_of(file: Path) -> int:
    """Size of the database with its write-ahead log."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as reader:
        pages, size = (reader.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages * size)
