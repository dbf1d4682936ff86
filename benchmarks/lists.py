"""Lists of many accounts: from a file to a plan, and to a list that a ledger in sqlite authorized."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.cells import Cells
from benchmarks.scale import measure
from operations.common.disk import require_space
from operations.common.workspace import CAMPAIGN, MODEL, POPULATION
from serving.local.launch import Deployment, free_port, start_ledger
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.pacing.population import ACCOUNTS, ACTIVITY, RESPONSE
from shadowprice.responses.layers.heads import HazardHead, save_heads

LEVELS = (0, 50, 100, 200, 500)
WIDTH, PART = 8, 1 << 16
SIZES = {"authorized": 1_000_000, "plan": 10_000_000}
LIMITS = {"authorized": (60.0, 4.0), "plan": (120.0, 4.0)}
"""Seconds and GiB that a list may take."""
QUICK = {"authorized": 100_000, "plan": 50_000}
ACCOUNT_BYTES = 600
"""Space that an account takes in workspace, ledger and list."""
READY_SECONDS = 60.0


def run(cells: Cells, *, quick: bool) -> dict[str, Any]:
    """Measure both lists, each in a process of its own; the ledger keeps its decision log too."""
    for kind, accounts in (QUICK if quick else SIZES).items():
        folder = cells.path.parent / f"lists-{kind}"
        measured = cells.of(f"{kind} {accounts}", partial(_measure, kind, accounts, folder), again=itemgetter("failed"))
        seconds, gib = LIMITS[kind]
        print(f"{kind}, {accounts:,} accounts: {measured}; at most {seconds:.0f} s and {gib:.0f} GiB", flush=True)
    return {}


def _measure(kind: str, accounts: int, folder: Path) -> dict[str, Any]:
    shutil.rmtree(folder, ignore_errors=True)
    require_space(folder, ACCOUNT_BYTES * accounts, f"a list of {accounts:,} accounts")
    prepare(folder, accounts)
    fields = {"accounts": str(folder / "accounts.csv"), "out": str(folder / "list.parquet"), "workspace": str(folder)}
    deployment = Deployment.of_run(folder, folder / CAMPAIGN)
    before = os.times()
    ledger = start_ledger(deployment, free_port()) if kind == "authorized" else None
    try:
        with closing(_Ended(ledger)) if ledger else nullcontext():
            if ledger:
                ledger.wait_ready(READY_SECONDS)
                fields["ledger_url"] = ledger.url
            measured = measure("decide", fields, folder)
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        rows = 0 if measured["failed"] else pq.read_metadata(folder / "list.parquet").num_rows
        return measured | {"ledger_processor": used - measured["processor"], "rows": rows}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Ended:
    """Stops a service at the end of a block."""

    def __init__(self, service: Any) -> None:
        self._service = service

    def close(self) -> None:
        self._service.stop()


def prepare(folder: Path, accounts: int) -> None:
    """Write a workspace with the population of a drawn model, and a file with its accounts in another order."""
    random = np.random.default_rng(0)
    head = HazardHead(
        levels=np.array(LEVELS),
        weight=random.normal(0, 0.3, (len(LEVELS), WIDTH)).astype(np.float32),
        bias=random.normal(-3, 0.3, len(LEVELS)).astype(np.float32),
        default_embedding=np.zeros(WIDTH, dtype=np.float32),
        base_weight=random.normal(0, 0.3, WIDTH).astype(np.float32),
        base_bias=-2.0,
    )
    stored = folder / POPULATION / "m1" / "customer"
    stored.mkdir(parents=True)
    (folder / MODEL).mkdir()
    save_heads({"customer": head}, folder / MODEL)
    (folder / MODEL / "model.json").write_text(json.dumps({"model_version": "m1"}))
    names = pa.array([f"account-{number:08}" for number in range(accounts)])
    pq.write_table(pa.table({"account_id": names}), stored / ACCOUNTS)
    shape = (len(LEVELS), accounts)
    response = np.lib.format.open_memmap(stored / RESPONSE, mode="w+", dtype=np.float32, shape=shape)
    for start in range(0, accounts, PART):
        stop = min(start + PART, accounts)
        response[:, start:stop] = head.response(random.normal(size=(stop - start, WIDTH)).astype(np.float32))
    response.flush()
    np.save(stored / ACTIVITY, np.ones(accounts))
    order = pa.array(random.permutation(accounts))
    pa.csv.write_csv(pa.table({"account_id": names.take(order)}), folder / "accounts.csv")
    campaign = Campaign(
        name="bench",
        sides={"customer": Terms(levels=LEVELS)},
        budget=Budget(limit=20 * accounts),
        starts_at=datetime.now(UTC).replace(minute=0, second=0, microsecond=0),
        hours=48,
    )
    (folder / CAMPAIGN).write_text(json.dumps(campaign.to_dict()))
