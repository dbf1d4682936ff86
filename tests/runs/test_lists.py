"""A list through a real ledger: authorized once, resumed after a kill, and free the second time."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from asked import make_workspace

from cli.decide import main
from operations.common.workspace import CAMPAIGN, LISTS
from operations.decide import DecideJob, run
from serving.client.client import LedgerClient
from serving.local.launch import LEDGER, Deployment, Service, free_port, start_ledger
from shadowprice.errors import Conflict, Unavailable
from shadowprice.lists import parts

ACCOUNTS = [f"c{number}" for number in range(3000)]


def make_run(folder: Path) -> Path:
    make_workspace(folder)
    campaign = json.loads((folder / CAMPAIGN).read_text())
    campaign["sides"] = {"customer": campaign["sides"]["customer"]}
    campaign |= {"starts_at": datetime.now(UTC).replace(minute=0, second=0, microsecond=0).isoformat(), "hours": 48}
    campaign["limits"] = {"caps": [{"name": "once", "per": "account", "count": 1}]}
    (folder / CAMPAIGN).write_text(json.dumps(campaign))
    pd.DataFrame({"account": ACCOUNTS}).to_csv(folder / "accounts.csv", index=False)
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_run(tmp_path)


@pytest.fixture
def ledger(workspace: Path) -> Iterator[Service]:
    service = start_ledger(Deployment.of_run(workspace, workspace / CAMPAIGN), free_port())
    try:
        service.wait_ready(60)
        yield service
    finally:
        service.stop()


def job(workspace: Path, ledger: Service, out: str = "list.parquet", **fields) -> DecideJob:
    paths = {"accounts": workspace / "accounts.csv", "out": workspace / out, "workspace": workspace}
    return DecideJob(**paths | {"ledger_url": ledger.url} | fields)


def test_a_list_uses_what_the_hard_stop_leaves_and_the_same_list_costs_nothing(
    workspace: Path, ledger: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = run(job(workspace, ledger, summary=workspace / "list.md"))
    rows = pd.read_parquet(workspace / "list.parquet")
    first = (workspace / "list.parquet").read_bytes()
    with LedgerClient(ledger.url) as client:
        totals = client.totals()
    # Levels are multiples of 50, so is the budget.
    assert totals["outstanding"] == rows["incentive"].sum() == figures["held"] == 150_000
    assert totals["requests"]["customer"] == len(rows) == len(ACCOUNTS)
    assert rows["account_id"].tolist() == ACCOUNTS
    assert rows["authorized"].all()
    with closing(sqlite3.connect(workspace / LEDGER)) as database:
        sent = [name for (name,) in database.execute("SELECT request_id FROM decision ORDER BY sequence")]
    assert sorted(sent) == sorted(rows["request_id"])
    # A call has 1,000 rows, and calls may pass each other.
    assert all(sent[at : at + 1000] == sorted(sent[at : at + 1000]) for at in range(0, len(sent), 1000))
    assert figures["expected_cost"] == pytest.approx(rows["expected_cost"].sum())
    assert "3,000 of them authorized" in (workspace / "list.md").read_text()
    again = run(job(workspace, ledger))
    assert again == figures
    assert (workspace / "list.parquet").read_bytes() == first
    run(job(workspace, ledger, out="list.csv"))
    assert pd.read_csv(workspace / "list.csv", keep_default_na=False)["level"].tolist() == rows["level"].tolist()
    with LedgerClient(ledger.url) as client:
        assert client.totals()["requests"] == totals["requests"]
    (workspace / "codes.csv").write_text("code\n" + "".join(f"A{number}\n" for number in range(len(rows))))
    words = [str(workspace / "accounts.csv"), "--campaign", str(workspace), "--codes", str(workspace / "codes.csv")]
    for name in ("coded.parquet", "again.parquet"):
        assert main([*words, "--out", str(workspace / name), "--ledger-url", ledger.url]) == 0
    coded = pd.read_parquet(workspace / "coded.parquet")
    assert coded.drop(columns="code").equals(rows.drop(columns="code"))
    assert coded["code"][coded["incentive"] > 0].is_unique
    assert ((coded["code"] != "") == (coded["incentive"] > 0)).all()
    assert pd.read_parquet(workspace / "again.parquet").equals(coded)
    assert main([*words, "--out", str(workspace / "plan.csv"), "--no-ledger"]) != 0
    assert not (workspace / "plan.csv").exists()
    # A list over the rest finds no money, and everybody has the cap's one incentive or nothing.
    later = run(job(workspace, ledger, out="later.parquet", list_name="later"))
    assert later["held"] == 0
    pd.DataFrame({"account": ACCOUNTS[:10]}).to_csv(workspace / "accounts.csv", index=False)
    with pytest.raises(Conflict, match="another file of accounts"):
        run(job(workspace, ledger))
    # Where the workspace lost the list, the ledger's answers stand.
    (workspace / LISTS / "accounts").rename(workspace / "lost")
    run(job(workspace, ledger, out="short.parquet"))
    short = pd.read_parquet(workspace / "short.parquet")
    columns = ["request_id", "level", "incentive", "price_version"]
    assert short[columns].equals(rows[columns].head(10))
    monkeypatch.setattr("operations.common.ledger_calls.TRIES", 1)
    ledger.stop()
    with pytest.raises(Unavailable):
        run(job(workspace, ledger, list_name="other"))


SMALL_PARTS = """
import sys
from shadowprice.lists import parts
parts.ROWS = 100
from operations.__main__ import main
sys.exit(main(["decide", sys.argv[1]]))
"""


@pytest.mark.parametrize("wanted", [0, 2, 25])
def test_a_list_that_was_killed_goes_on_where_it_stopped(
    workspace: Path, ledger: Service, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = job(workspace, ledger).to_json()
    process = subprocess.Popen([sys.executable, "-c", SMALL_PARTS, fields], stdout=subprocess.DEVNULL)
    folder, until = workspace / LISTS / "accounts", time.monotonic() + 60
    while len(list(folder.glob("answers-*" if wanted else ".lock"))) < max(wanted, 1) and time.monotonic() < until:
        assert process.poll() is None
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    kept = {path.name: path.read_bytes() for path in folder.glob("answers-*")}
    assert wanted <= len(kept) < 30
    assert not (workspace / "list.parquet").exists()
    monkeypatch.setattr(parts, "ROWS", 100)
    figures = run(job(workspace, ledger))
    assert all((folder / name).read_bytes() == content for name, content in kept.items())
    rows, planned = pd.read_parquet(workspace / "list.parquet"), pd.read_parquet(folder / "plan.parquet")
    assert rows["level"].tolist() == planned["level"].tolist()
    assert rows["account_id"].tolist() == ACCOUNTS
    with LedgerClient(ledger.url) as client:
        totals = client.totals()
    assert totals["requests"]["customer"] == len(ACCOUNTS)
    assert totals["outstanding"] == rows["incentive"].sum() == figures["held"] == 150_000
    assert np.isin(rows["reason"], ["optimal", "tie"]).all()
