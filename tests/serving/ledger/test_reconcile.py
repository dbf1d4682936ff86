"""A real ledger with its log, reconciled while it is told more; and after the log was falsified."""

import json
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks.faults.load import Load
from benchmarks.faults.stage import Stage
from serving.client.client import Correction, LedgerClient
from serving.local.launch import Service, free_port
from serving.reconcile import ReconcileSettings, _measure, reconcile
from shadowprice.errors import NotFound
from shadowprice.pacing.decision_log.segments import segments
from shadowprice.pacing.spend import SpendReport


@pytest.fixture
def stage(tmp_path):
    stage = Stage(tmp_path, "sqlite", 10**6, tmp_path, mounted=False)
    yield stage
    stage.close()


def command(stage, *more, seconds="2", log_dir=None):
    arguments = ["--campaign", "faults", "--ledger-url", stage.url, "--wait-seconds", seconds]
    arguments += ["--log-dir", str(log_dir or stage.log_dir), *more]
    return subprocess.run(
        [sys.executable, "-m", "serving.reconcile", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_ledger_log_and_metrics_agree_under_load_and_a_falsified_log_is_found(stage, tmp_path):
    load = Load(stage.url, "faults", 2)
    try:
        time.sleep(1)
        under_load = command(stage)
    finally:
        load.stop()
    assert under_load.returncode == 0, under_load.stdout + under_load.stderr
    assert "requests customer" in under_load.stdout
    with LedgerClient(stage.url) as ledger:
        refunds = [
            Correction(
                request_id=name,
                event_id=f"refund-{name}",
                kind="refund",
                cost=0,
                redeemed=False,
                observed_at=datetime.now(UTC),
            )
            for name, cost in load.witness.captured.items()
            if cost and name.startswith("customer")
        ]
        before = ledger.totals()["net_spent"]
        assert ledger.correct(refunds, "shop") == (len(refunds), 0)
        assert ledger.correct(refunds, "shop") == (0, len(refunds))
        given_back = sum(load.witness.captured[each.request_id] for each in refunds)
        assert before - ledger.totals()["net_spent"] == given_back > 0
    quiet = command(stage, "--json")
    assert quiet.returncode == 0, quiet.stdout + quiet.stderr
    told = json.loads(quiet.stdout)
    assert told["agree"]
    assert {"log", "metrics"} <= {each["source"] for each in told["totals"]}
    assert all(each["low"] <= each["found"] <= each["high"] for each in told["totals"] if each["total"] == "spent")
    falsified = tmp_path / "falsified"
    shutil.copytree(stage.log_dir, falsified)
    newest = segments(falsified, "decisions")[-1].path
    table = pq.read_table(newest)
    dearer = pc.add(table["incentive"], pa.array([0] * (table.num_rows - 1) + [1], pa.int64()))
    pq.write_table(table.set_column(table.schema.get_field_index("incentive"), "incentive", dearer), newest)
    found = command(stage, seconds="0", log_dir=falsified)
    assert found.returncode == 1, found.stdout + found.stderr
    (wrong,) = [line for line in found.stdout.splitlines() if "DIFFERS" in line]
    assert f"authorized_by_side {table['side'][-1]}" in wrong
    assert wrong.endswith("DIFFERS by +1")
    stage.stop_ledger()
    unreachable = command(stage, seconds="0")
    assert (unreachable.returncode, "cannot reconcile" in unreachable.stderr) == (2, True)


def test_a_ledger_of_several_campaigns_is_asked_for_one(kit, tmp_path):
    for name in ("autumn", "winter"):
        (tmp_path / "campaigns" / name).mkdir(parents=True)
        content = json.dumps(kit.campaign(name=name).to_dict())
        (tmp_path / "campaigns" / name / "campaign.json").write_text(content)
    port = free_port()
    places = ["--campaigns", str(tmp_path / "campaigns"), "--db", str(tmp_path / "ledgers")]
    ledger = Service("ledger", ["serving.ledger", *places, "--port", str(port)], port, "/readyz", tmp_path / "out.log")
    try:
        ledger.wait_ready(120)
        assert all(line.agrees for line in measure(ledger.url, "winter"))
        with pytest.raises(NotFound, match="'spring' is not kept here"):
            measure(ledger.url, "spring")
    finally:
        ledger.stop()


def measure(url, campaign):
    return _measure(ReconcileSettings(campaign=campaign, ledger_url=url, wait_seconds=0))


def test_what_lags_further_or_runs_ahead_of_the_ledger_differs():
    def totals(requests, spent, responses):
        return {"requests": {"customer": requests}, "spent": spent, "responses": {"customer": responses}}

    def lines(requests, spent, responses):
        report = SpendReport(
            spent=spent,
            responses={"customer": responses, "merchant": 0.0},
            requests={"customer": requests, "merchant": 0},
            observed_at=datetime.now(UTC),
        )
        return reconcile(totals(10, 500, 3.0), None, report, totals(12, 600, 3.5))

    def wrong(found):
        return [(line.total, str(line).split()[-1]) for line in found if not line.agrees]

    assert wrong(lines(10, 600, 3.0)) == wrong(lines(12, 500, 3.5 + 1e-12)) == []
    assert wrong(lines(9, 550, 3.2)) == [("requests customer", "-1")]
    assert wrong(lines(13, 601, 2.5)) == [("spent", "+1"), ("requests customer", "+1"), ("responses customer", "-0.5")]
