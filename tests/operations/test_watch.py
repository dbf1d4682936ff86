"""Job ``watch`` on a log, and its verdict where the ledger's metrics and the next solve read it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prometheus_client import CollectorRegistry
from served_log import CAMPAIGN, START

from operations import __main__ as command
from operations.watch import WatchJob, run
from serving.ledger.api.watch import WatchCollector
from shadowprice.campaign import Terms
from shadowprice.errors import InvalidInput
from shadowprice.learning.fit import label_rates
from shadowprice.pacing.decision_log.records import Decision, OutcomeRow
from shadowprice.pacing.decision_log.segments import SCHEMAS, Segment
from shadowprice.pacing.decision_log.served import ServedLog, read_log
from shadowprice.pacing.forecast import Profile
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.population import write_population
from shadowprice.pacing.replay.day import Accounts
from shadowprice.responses.layers.heads import HazardHead, save_heads
from shadowprice.watch.reference import Reference
from shadowprice.watch.registry import check_all
from shadowprice.watch.rows import watched_rows
from shadowprice.watch.verdict import Verdict

LEVELS = (0, 50, 100)
SPRING = replace(CAMPAIGN, sides={"customer": Terms(levels=LEVELS, weight=2.0)}, experiment=None, exploration=0.5)
ACCOUNTS, DAYS, DAILY = 800, 10, 400
DAY = 86_400_000_000


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with a model, and a log of ten days beside it whose responses double after the fifth."""
    rng = np.random.default_rng(4)
    head = HazardHead(
        levels=np.array(LEVELS),
        weight=rng.normal(0, 0.2, (3, 8)).astype(np.float32),
        bias=np.full(3, -2.5, dtype=np.float32),
        default_embedding=np.zeros(8, dtype=np.float32),
        base_weight=rng.normal(0, 0.2, 8).astype(np.float32),
        base_bias=-2.0,
    )
    place = tmp_path / "workspace"
    (place / "model").mkdir(parents=True)
    (place / "campaign.json").write_text(json.dumps(SPRING.to_dict()))
    save_heads({"customer": head}, place / "model")
    embedding = rng.normal(size=(ACCOUNTS, 8)).astype(np.float32)
    names = np.array([f"c{each}" for each in range(ACCOUNTS)])
    frame = pd.DataFrame({"account_id": names, "side": "customer", "embedding": list(embedding)})
    frame.to_parquet(tmp_path / "embeddings.parquet", index=False)
    traffic = Traffic({"customer": Profile(np.ones(24), 100.0)}, {"customer": Accounts(names, np.ones(ACCOUNTS))})
    write_population(place / "population" / "m1", {"customer": head}, tmp_path / "embeddings.parquet", traffic)
    response = head.response(embedding)
    rates = [[1000.0, float(each.mean())] for each in response]
    (place / "model" / "model.json").write_text(json.dumps({"model_version": "m1", "labels": {"customer": rates}}))

    start = round(START.timestamp() * 1e6)
    decisions, outcomes = [], []
    for row in range(DAYS * DAILY):
        who, level = int(rng.integers(ACCOUNTS)), int(rng.integers(3))
        when = start + row * DAY // DAILY
        mean = float(response[level, who])
        shares, paid = (1 / 3,) * 3, LEVELS[level]
        made = Decision(
            f"r{row}", f"c{who}", "customer", level, paid, mean, 0.0, 1 / 3, shares, "explored", "m1", 1, None, when
        )
        decisions.append(made._asdict())
        if rng.random() < mean * (1 if row < 5 * DAILY else 2):
            later = when + DAY // 4
            outcomes.append(vars(OutcomeRow(f"r{row}", "customer", 1.0, paid, False, later, later)))
    (tmp_path / "log").mkdir()
    for kind, records in (("decisions", decisions), ("outcomes", outcomes)):
        table = pa.Table.from_pylist(records, schema=SCHEMAS[kind])  # type: ignore[index]
        pq.write_table(table, Segment.named(tmp_path / "log", kind, 1, len(records)).path)  # type: ignore[arg-type]
    return place


def test_a_drift_in_the_log_reaches_the_verdict_and_the_metrics(workspace: Path, tmp_path: Path) -> None:
    registry = CollectorRegistry()
    registry.register(WatchCollector(SPRING, workspace / "watch.json"))
    labels = {"campaign": "spring", "side": "customer", "level": "2"}
    assert registry.get_sample_value("shadowprice_watch_alarm", labels | {"reason": "label_drift"}) == 0.0
    flags = {"log": tmp_path / "log", "workspace": workspace, "mature-hours": 12}
    flags |= {"result": tmp_path / "found.json", "page": tmp_path / "found.md"}
    assert command.main(["watch", *(text for name, value in flags.items() for text in (f"--{name}", str(value)))]) == 0
    found = Verdict.read(tmp_path / "found.json")
    assert found is not None
    assert found == Verdict.read(workspace / "watch.json")
    assert {each.check for each in found.alarms} == {"calibration", "label_drift"}
    assert {each.day for each in found.alarms} <= set(range(5, 10))
    assert {each.check for each in found.findings} == {"calibration", "label_drift", "stability", "curve_shape"}
    assert "alarms.**" in (tmp_path / "found.md").read_text()
    for check, value in (("label_drift", 1.0), ("stability", 0.0)):
        assert registry.get_sample_value("shadowprice_watch_alarm", labels | {"reason": check}) == value
    age = registry.get_sample_value("shadowprice_watch_age_seconds", {"campaign": "spring"})
    assert age is not None
    assert 0 <= age < 60
    (workspace / "watch.json").write_text("{}")
    with pytest.raises(InvalidInput, match="run the watch again"):
        Verdict.read(workspace / "watch.json")
    assert registry.get_sample_value("shadowprice_watch_alarm", labels | {"reason": "label_drift"}) == 0.0


def test_a_watch_that_judged_nothing_does_not_say_that_there_is_no_alarm(workspace: Path, tmp_path: Path) -> None:
    given = {"log": tmp_path / "log", "workspace": workspace, "result": tmp_path / "a.json", "page": tmp_path / "a.md"}
    assert run(WatchJob(**given, mature_hours=10_000)).requests == 0
    page = (tmp_path / "a.md").read_text()
    assert "Nothing was judged" in page
    assert "0 requests of this model" in page
    assert "No alarm." not in page
    assert "Without requests to judge: calibration, curve_shape, label_drift, stability." in page
    # Checks without a request are named also where others judged.
    (log,) = (tmp_path / "log").glob("decisions*")
    table = pd.read_parquet(log).assign(reason="affordable")
    pq.write_table(pa.Table.from_pandas(table, schema=SCHEMAS["decisions"], preserve_index=False), log)
    assert run(WatchJob(**given, mature_hours=12, tolerance=5.0)).requests > 0
    page = (tmp_path / "a.md").read_text()
    assert "**No alarm.**" in page
    assert "Without requests to judge: curve_shape, label_drift, stability." in page


def empty_log() -> ServedLog:
    return ServedLog(**{kind: schema.empty_table().to_pandas() for kind, schema in SCHEMAS.items()})


def test_the_rows_are_mature_and_one_of_an_account_and_day(workspace: Path, tmp_path: Path) -> None:
    log = read_log(tmp_path / "log")
    rows = watched_rows(log, SPRING, 48.0)
    assert not rows.duplicated(["account_id", "side", "day"]).any()
    assert rows["day"].max() == DAYS - 2
    assert set(rows["response"]) == {0.0, 1.0}
    young = log.outcomes["recorded_at"].max() - pd.Timedelta(hours=48)
    kept = log.decisions[log.decisions["decided_at"] <= young]
    assert len(rows) == len(kept.assign(day=kept["decided_at"].dt.floor("D")).drop_duplicates(["account_id", "day"]))
    reference = Reference(levels={"customer": 3})
    for none in (watched_rows(log, SPRING, 48.0, "another"), watched_rows(empty_log(), SPRING, 48.0)):
        assert none.empty
        assert check_all(none, reference) == []
    assert workspace.exists()


def test_label_rates_weigh_by_propensity() -> None:
    frame = pd.DataFrame(
        {"level": [0, 0, 0, 1, 1], "response": [1.0, 0.0, 0.0, 1.0, 1.0], "propensity": [0.8, 0.4, 0.4, 0.5, 0.5]}
    )
    [first, second, third] = label_rates({"customer": frame}, {"customer": (0, 50, 100)})["customer"]
    # Weights 1 : 2 : 2.
    assert first == pytest.approx([25 / 9, 0.2])
    assert second == pytest.approx([2.0, 1.0])
    assert third == [0.0, 0.0]
