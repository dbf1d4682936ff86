import time
from datetime import timedelta
from functools import partial

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from serving.ledger.log import LogWriter, logged
from serving.reconcile import LOGGED, log_totals
from shadowprice.campaign import Terms
from shadowprice.decision import decide
from shadowprice.errors import InvalidTable, NotFound, Unavailable
from shadowprice.evaluation.metrics import effective_rows, ips_value
from shadowprice.evaluation.statistics.intervals import Interval
from shadowprice.experiments.served import mature, served_requests
from shadowprice.pacing.decision_log.compaction import compact
from shadowprice.pacing.decision_log.segments import segments
from shadowprice.pacing.decision_log.served import exposure_and_outcome, read_log, read_parts
from shadowprice.tables import validate_some


@pytest.fixture
def writer(ledger, tmp_path):
    return LogWriter(ledger.store, tmp_path / "log", rows=4)


def fill(ledger, kit, names):
    ledger.authorize(*(kit.item(name, propensities=[0.25, 0.5, 0.25], features_at=1e9 + 0.25) for name in names))


def test_the_arm_of_a_decision_and_its_outcome_are_the_row_that_a_lift_reads(ledger, kit, writer):
    for name, arm in (("r1", "holdout"), ("r2", "policy"), ("r3", "policy")):
        ledger.authorize(kit.item(name, arm=arm))
    ledger.settle(kit.event("r2", 50))
    ledger.at += timedelta(hours=30)
    ledger.authorize(kit.item("r4", arm="policy"))
    writer.write()
    log = read_log(writer.folder)
    rows = served_requests(log, ledger.campaign)
    columns = ["request_id", "arm", "value", "cost", "day"]
    assert rows[columns].to_numpy().tolist() == [
        ["r1", "holdout", 0.0, 0, 0],
        ["r2", "policy", 1.0, 50, 0],
        ["r3", "policy", 0.0, 0, 0],
        ["r4", "policy", 0.0, 0, 1],
    ]
    assert mature(rows, log, 24)["request_id"].tolist() == ["r1", "r2", "r3"]


def test_every_decision_and_outcome_is_logged_once_as_the_ledger_have_it(ledger, kit, writer):
    fill(ledger, kit, [f"r{number}" for number in range(10)])
    ledger.settle(kit.event("r3", 50), kit.event("r1", 0))
    assert writer.write() == 12
    assert writer.write() == 0
    fill(ledger, kit, ["r10"])
    ledger.authorize(kit.item("m", side="merchant"))
    assert writer.write() == 2
    log = read_log(writer.folder)
    assert log.decisions["request_id"].tolist() == [f"r{number}" for number in range(11)] + ["m"]
    row = log.decisions.iloc[3]
    assert (row["level"], row["incentive"], row["propensity"], row["reason"]) == (1, 50, 0.5, "tie")
    assert row["propensities"].tolist() == [0.25, 0.5, 0.25]
    assert row["features_at"] == pd.Timestamp("2001-09-09T01:46:40.25Z")
    assert (row["decided_at"], row["model_version"], row["price_version"]) == (pd.Timestamp(kit.now), "m", 1)
    assert pd.isna(log.decisions.iloc[11]["features_at"])
    assert log.outcomes[["request_id", "cost", "response", "late"]].to_numpy().tolist() == [
        ["r3", 50, 1.0, False],
        ["r1", 0, 0.0, False],
    ]
    # Ten rows at four a segment, then two; nothing else lies in the folder.
    assert [(each.first, each.last) for each in segments(writer.folder, "decisions")] == [
        (1, 4),
        (5, 8),
        (9, 10),
        (11, 12),
    ]
    assert len(list(writer.folder.iterdir())) == 5


def test_a_writer_that_begins_again_or_beside_another_makes_nobody_count_twice(ledger, kit, writer, tmp_path):
    fill(ledger, kit, ["a", "b", "c"])
    writer.write()
    other = LogWriter(ledger.store, tmp_path / "other", rows=100)
    fill(ledger, kit, ["d"])
    other.write()
    (segment,) = segments(other.folder, "decisions")
    segment.path.rename(writer.folder / segment.path.name)
    (writer.folder / ".decisions-000000000005-000000000009.parquet.x1").write_bytes(b"half a segm")
    fill(ledger, kit, ["e"])
    LogWriter(ledger.store, writer.folder).write()
    assert read_log(writer.folder).decisions["request_id"].tolist() == ["a", "b", "c", "d", "e"]


def test_segments_of_before_there_were_several_units_say_one(open_ledger, kit, tmp_path):
    terms = {"customer": Terms(levels=kit.levels["customer"]), "merchant": Terms(levels=(20, 60), most_units=3)}
    ledger = open_ledger(sides=terms)
    writer = LogWriter(ledger.store, tmp_path / "log", rows=2)
    fill(ledger, kit, ["a", "b"])
    ledger.authorize(kit.item("m", side="merchant"))
    writer.write()
    first, _ = segments(writer.folder, "decisions")
    pq.write_table(pq.read_table(first.path).drop_columns("most_units"), first.path)
    decisions = read_log(writer.folder).decisions
    assert decisions[["request_id", "most_units"]].to_numpy().tolist() == [["a", 1], ["b", 1], ["m", 3]]
    assert decisions["most_units"].dtype == np.int64


def test_a_log_with_a_hole_or_a_damaged_segment_is_refused(ledger, kit, writer):
    fill(ledger, kit, [f"r{number}" for number in range(9)])
    writer.write()
    first, second, _ = segments(writer.folder, "decisions")
    second.path.rename(writer.folder / "away")
    with pytest.raises(InvalidTable, match="rows 5 to 8 are in no segment"):
        read_log(writer.folder)
    (writer.folder / "away").rename(second.path)
    first.path.write_bytes(first.path.read_bytes()[:-20])
    with pytest.raises(InvalidTable, match=first.path.name):
        read_log(writer.folder)
    with pytest.raises(NotFound):
        read_log(writer.folder / "nowhere")


def test_a_folder_that_cannot_be_written_keeps_the_log_behind_and_whole(ledger, kit, tmp_path):
    blocked = tmp_path / "log"
    blocked.write_text("a file where the folder should be")
    writer = LogWriter(ledger.store, blocked)
    fill(ledger, kit, ["a"])
    with pytest.raises(Unavailable, match="decision log"):
        writer.write()
    blocked.unlink()
    with logged(writer, 3600):
        fill(ledger, kit, ["b"])
    # The end of the service writes what is left.
    assert read_log(blocked).decisions["request_id"].tolist() == ["a", "b"]


def test_a_policy_is_judged_from_what_another_one_served(open_ledger, kit, tmp_path):
    """Off-policy value from the log against the truth that the outcomes were drawn from."""
    ledger = open_ledger(limit=10**9)
    rng = np.random.default_rng(0)
    names = [f"r{number}" for number in range(3000)]
    strong = rng.random(len(names)) < 0.5
    truth = np.where(strong, [[0.05], [0.30], [0.60]], [[0.05], [0.08], [0.10]])
    worth = truth - 0.002 * np.array([[0], [50], [130]]) * truth
    served = decide(worth, np.zeros_like(worth), [0.0], 0.0, names, exploration=0.3)
    vectors = served.policy.propensities()
    for start in range(0, len(names), 500):
        ledger.authorize(
            *(
                kit.item(
                    names[row],
                    level=int(served.level[row]),
                    account_id="strong" if strong[row] else "weak",
                    propensity=float(served.propensity[row]),
                    propensities=vectors[:, row].tolist(),
                    reason="explored" if served.explored[row] else "optimal",
                )
                for row in range(start, start + 500)
            )
        )
    redeemed = rng.random(len(names)) < truth[served.level, np.arange(len(names))]
    for start in range(0, len(names), 500):
        rows = range(start, start + 500)
        cost = [kit.levels["customer"][served.level[row]] * int(redeemed[row]) for row in rows]
        ledger.settle(*(kit.event(names[row], cost[row - start], redeemed=bool(redeemed[row])) for row in rows))
    writer = LogWriter(ledger.store, tmp_path / "log")
    writer.write()

    log = read_log(writer.folder)
    rows = log.decisions.merge(log.outcomes, on="request_id", suffixes=("", "_seen"), validate="one_to_one")
    chosen = np.where(rows["account_id"] == "strong", 2, 0)
    target = (rows["level"] == chosen).astype(float)
    band = Interval(level=0.999, replications=500)
    value = ips_value(rows["response_seen"], target, rows["propensity"], interval=band)
    expected = np.where(strong, 0.60, 0.05).mean()
    assert value.low < expected < value.high
    assert value.high - value.low < 0.2
    uniform = ips_value(rows["response_seen"], np.full(len(rows), 1 / 3), rows["propensity"], interval=band)
    assert uniform.low < truth.mean() < uniform.high
    # The vectors say what each row's policy would have done with every level.
    assert np.allclose(np.stack(rows["propensities"]).sum(axis=1), 1)
    assert effective_rows(target, rows["propensity"]) > 300

    exposure, outcome = exposure_and_outcome(log, ledger.campaign)
    checked = validate_some({"exposure": exposure, "outcome": outcome})
    assert len(checked["exposure"]) == len(checked["outcome"]) == 3000
    assert int(checked["outcome"]["redeemed"].sum()) == redeemed.sum()
    assert checked["exposure"]["exploration"].sum() == served.explored.sum()
    assert set(checked["exposure"]["offer_id"]) <= {"customer-0", "customer-50", "customer-130"}
    assert log.decisions["propensity"].tolist() == served.propensity.tolist()


def test_what_was_given_nothing_is_not_an_exposure(open_ledger, kit, tmp_path):
    ledger = open_ledger(limit=0)
    ledger.authorize(kit.item("m", side="merchant"), kit.item("c"))
    ledger.at += timedelta(seconds=1)
    writer = LogWriter(ledger.store, tmp_path / "log")
    writer.write()
    log = read_log(writer.folder)
    assert log.decisions["level"].tolist() == [-1, 0]
    assert log.decisions["propensities"].map(list).tolist() == [[0.0, 0.0], [1.0, 0.0, 0.0]]
    assert exposure_and_outcome(log, ledger.campaign)[0]["request_id"].tolist() == ["c"]


def test_small_segments_are_merged_beside_new_ones_and_the_log_goes_on(ledger, kit, tmp_path, monkeypatch):
    monkeypatch.setattr("serving.ledger.log.compact", partial(compact, tiers=(4, 16)))
    writer = LogWriter(ledger.store, tmp_path / "log", rows=1)
    fill(ledger, kit, [f"r{number}" for number in range(20)])
    ledger.settle(*(kit.event(f"r{number}", 0) for number in range(9)))
    expected = {"decisions": [(1, 16), (17, 17), (18, 18), (19, 19), (20, 20)], "outcomes": [(1, 4), (5, 8), (9, 9)]}

    def found():
        return {kind: [(each.first, each.last) for each in segments(writer.folder, kind)] for kind in expected}

    with logged(writer, 3600):
        deadline = time.monotonic() + 60
        while found() != expected and time.monotonic() < deadline:
            time.sleep(0.01)
    assert found() == expected
    # Another ledger goes on after the newest row.
    fill(ledger, kit, ["next"])
    assert LogWriter(ledger.store, writer.folder).write() == 1
    assert read_log(writer.folder).decisions["request_id"].tolist() == [*(f"r{number}" for number in range(20)), "next"]


def test_the_parts_of_a_log_have_its_rows_and_its_sums(ledger, kit, writer):
    fill(ledger, kit, [f"r{number}" for number in range(10)])
    ledger.authorize(kit.item("m", side="merchant"))
    ledger.settle(kit.event("r3", 50), kit.event("r1", 0), kit.event("r7", 50))
    writer.write()
    whole, parts = read_log(writer.folder), list(read_parts(writer.folder))
    assert [len(part.decisions) for part in parts] == [4, 4, 3, 0]
    pd.testing.assert_frame_equal(pd.concat([part.decisions for part in parts[:3]], ignore_index=True), whole.decisions)
    found = log_totals(parts)
    assert found == log_totals([whole])
    assert set(LOGGED) == {total for total, _ in found}
    assert (found["requests", "customer"], found["requests", "merchant"]) == (10, 1)
    assert (found["outcomes", "customer"], found["spent_by_side", "customer"]) == (3, 100)
    assert log_totals([]) == dict.fromkeys(found, 0.0)
    with pytest.raises(NotFound):
        next(read_parts(writer.folder / "nowhere"))
