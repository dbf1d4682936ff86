"""Reading some columns and some rows of a log."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from served_log import CAMPAIGN, START, write_log

from shadowprice.errors import InvalidInput, InvalidTable
from shadowprice.experiments.served import COLUMNS, READ, asked_requests, mature, served_requests
from shadowprice.limits.attributes import Attributes
from shadowprice.pacing.decision_log.records import CorrectionRow
from shadowprice.pacing.decision_log.segments import SCHEMAS, Segment
from shadowprice.pacing.decision_log.served import read_log
from shadowprice.watch.rows import READ as WATCHED
from shadowprice.watch.rows import watched_rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log of two segments of decisions by two models in turn, with a repeated row and a correction."""
    place = tmp_path / "log"
    write_log(place)
    (file,) = place.glob("decisions*")
    frame = pd.read_parquet(file)
    frame["model_version"] = ["m1", "m2"] * (len(frame) // 2)
    file.unlink()
    parts = frame[:2500], pd.concat([frame[2499:2500], frame[2500:]])
    first = 1
    for part in parts:
        table = pa.Table.from_pandas(part, schema=SCHEMAS["decisions"], preserve_index=False)
        pq.write_table(table, Segment.named(place, "decisions", first, first + len(part) - 1).path)
        first += len(part)
    (outcomes,) = place.glob("outcomes*")
    told = pd.read_parquet(outcomes).iloc[0]
    at = round((START + timedelta(hours=300)).timestamp() * 1e6)
    row = CorrectionRow(
        "shop", "e1", told["request_id"], "customer", "refund", 0.5, 7, 1.0, int(told["cost"]), False, "", at, at
    )
    table = pa.Table.from_pylist([row._asdict()], schema=SCHEMAS["corrections"])
    pq.write_table(table, Segment.named(place, "corrections", 1, 1).path)
    return place


def test_some_columns_have_the_requests_of_the_whole_log(folder: Path) -> None:
    whole, some = read_log(folder), read_log(folder, columns=READ)
    assert set(some.decisions) == set(READ["decisions"])
    expected = served_requests(whole, CAMPAIGN)
    assert len(expected) == 6000
    assert (expected["value"] == 0.5).sum() == 1
    pd.testing.assert_frame_equal(served_requests(some, CAMPAIGN), expected)
    pd.testing.assert_frame_equal(mature(expected, some, 48.0), mature(expected, whole, 48.0))
    without = read_log(folder, columns={"decisions": COLUMNS})
    assert without.outcomes.empty
    pd.testing.assert_frame_equal(
        asked_requests(without, CAMPAIGN), expected.drop(columns=["response", "value", "cost"])
    )


def test_chosen_decisions_mature_by_the_newest_record_of_the_whole_log(folder: Path) -> None:
    whole = read_log(folder)
    for version in ("m1", "m2", "m3"):
        chosen = read_log(folder, columns=WATCHED, where=pc.field("model_version") == version)
        assert set(chosen.decisions["model_version"]) <= {version}
        assert set(chosen.outcomes["request_id"]) <= set(chosen.decisions["request_id"])
        assert chosen.newest == max(whole.decisions["decided_at"].max(), whole.outcomes["recorded_at"].max())
        pd.testing.assert_frame_equal(
            watched_rows(chosen, CAMPAIGN, 48.0, version), watched_rows(whole, CAMPAIGN, 48.0, version)
        )
    requests = mature(served_requests(whole, CAMPAIGN), whole, 24.0)
    since = START + timedelta(hours=200)
    stage = read_log(folder, columns=READ, where=pc.field("decided_at") >= since)
    pd.testing.assert_frame_equal(
        mature(served_requests(stage, CAMPAIGN), stage, 24.0).drop(columns="day"),
        requests[requests["decided_at"] >= since].drop(columns="day").reset_index(drop=True),
    )


def test_a_log_without_decisions_is_refused_also_where_some_are_chosen(tmp_path: Path) -> None:
    log = read_log(tmp_path, columns=READ, where=pc.field("arm") == "canary")
    with pytest.raises(InvalidTable, match="has no decisions"):
        served_requests(log, CAMPAIGN)


def test_a_value_in_money_is_the_worth_of_each_account_times_its_response(folder: Path) -> None:
    log = read_log(folder)
    plain = served_requests(log, CAMPAIGN)
    names = sorted(set(plain["account_id"]))
    worth = dict(zip(names, np.linspace(0, 700, len(names)), strict=True))
    sides = {side: replace(terms, worth="x_margin", weight=0.5) for side, terms in CAMPAIGN.sides.items()}
    campaign = replace(CAMPAIGN, objective="margin", sides=sides)
    table = Attributes.of(names, {"x_margin": list(worth.values())})
    found = served_requests(log, campaign, campaign.coverage(dict.fromkeys(campaign.sides, table)))
    np.testing.assert_allclose(found["value"], 0.5 * plain["account_id"].map(worth) * plain["response"])
    np.testing.assert_array_equal(found["response"], plain["response"])
    assert found["value"].sum() > 0
    with pytest.raises(InvalidInput, match="x_margin"):
        served_requests(log, campaign)
    pd.testing.assert_frame_equal(watched_rows(log, campaign, 24.0), watched_rows(log, CAMPAIGN, 24.0))
