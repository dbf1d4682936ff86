"""Served rows as training rows, against a count in plain Python."""

import json
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from served_log import CAMPAIGN, START, write_log

from operations.common.workspace import log_of, logs_in
from operations.harvest import HarvestJob, run
from shadowprice.campaign import Terms
from shadowprice.datasets.package import load_dataset, save_dataset
from shadowprice.datasets.registry import Dataset
from shadowprice.datasets.split import Split
from shadowprice.errors import InvalidInput, InvalidTable
from shadowprice.pacing.decision_log.harvest import UNITS, harvest
from shadowprice.pacing.decision_log.segments import SCHEMAS
from shadowprice.pacing.decision_log.served import read_log
from shadowprice.tables import validate_tables
from shadowprice.tables.views import labeled

TRIAL = pd.Timestamp(START) - pd.Timedelta(days=5)


def tables(offers=("free", "coupon-50", "coupon-100")) -> dict[str, pd.DataFrame]:
    """A small trial before the campaign; one of its requests has the id of a served one."""
    accounts = [f"a{number}" for number in range(1500)]
    merchants = [f"m{number}" for number in range(100)]
    values = {
        "account_id": [*accounts[:-5], *merchants],
        "side": ["customer"] * 1495 + ["merchant"] * 100,
        "snapshot_ts": TRIAL - pd.Timedelta(days=1),
    }
    exposure = pd.DataFrame({"request_id": ["t0", "t1", "r0"], "account_id": accounts[:3], "side": "customer"})
    exposure = exposure.assign(offer_id=offers[1], decided_at=TRIAL, propensity=0.5, x_basket=0.5, c_channel="web")
    outcome = pd.DataFrame({"request_id": ["t0", "t1", "r0"], "mature": True, "cost_paid": 0, "redeemed": 0})
    return {
        "account": pd.DataFrame(values).assign(x_age=np.arange(1595.0)),
        "edge": pd.DataFrame({"src": [], "dst": [], "relation": [], "weight": [], "ts": pd.to_datetime([], utc=True)}),
        "offer": pd.DataFrame(
            {"offer_id": offers, "side": "customer", "kind": "coupon", "face_value": [0, 50, 100][: len(offers)]}
        ),
        "exposure": exposure,
        "outcome": outcome.assign(observed_at=TRIAL + pd.Timedelta(days=3)),
        "campaign": pd.DataFrame(
            [
                {
                    "campaign_id": "spring",
                    "starts_at": pd.Timestamp(START),
                    "hours": 240,
                    "budget_name": "day",
                    "budget_form": "total",
                    "budget_limit": 1e6,
                    "cost_basis_customer": "on_response",
                    "expected_requests": 6000,
                }
            ]
        ),
    }


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored") / "data"
    save_dataset(Dataset(name="tables", tables=validate_tables(tables()), split=Split(by="account")), folder)
    return folder


@pytest.fixture
def job(stored: Path, tmp_path: Path) -> HarvestJob:
    shutil.copytree(stored, tmp_path / "data")
    (tmp_path / "campaign.json").write_text(json.dumps(CAMPAIGN.to_dict()))
    return HarvestJob(
        log=tmp_path / "log", tables=tmp_path / "data", workspace=tmp_path, harvested=tmp_path / "out", mature_hours=48
    )


def test_every_final_request_is_a_row_with_its_offer_and_outcome(job: HarvestJob) -> None:
    rows = write_log(job.log, "account")
    counts = run(job)
    found = load_dataset(job.harvested).tables
    rows["request_id"] = [f"r{row}" for row in range(len(rows))]
    final = rows[rows["hour"] <= rows["hour"].max() - 48 + 1e-6]
    exposure, outcome = (each.set_index("request_id") for each in (found.exposure, found.outcome))
    strangers = rows["account_id"].isin([f"a{number}" for number in range(1495, 1500)])
    assert set(exposure.index) == {"t0", "t1", *final.loc[~strangers, "request_id"]}
    assert counts["rows of accounts without a profile"] == strangers[final.index].sum() > 0
    assert sum(counts.values()) == len(rows)
    assert set(exposure.index) == set(outcome.index)
    assert outcome["mature"].all()
    served = exposure.loc[[name for name in exposure.index if name.startswith("r")]]
    mine = rows.set_index("request_id").loc[served.index]
    assert served["account_id"].tolist() == mine["account_id"].tolist()
    known = [f"m{number}" for number in range(100)]
    assert (
        served["partner_id"].fillna("").tolist()
        == mine["partner_id"].where(mine["partner_id"].isin(known), "").tolist()
    )
    assert outcome.loc[served.index, "redeemed"].tolist() == mine["value"].astype(int).tolist()
    assert outcome.loc[served.index, "cost_paid"].tolist() == mine["cost"].astype(int).tolist()
    paid = served["offer_id"].map({"free": 0, "coupon-50": 50, "coupon-100": 100})
    redeemed = mine["value"] == 1
    assert paid[redeemed].tolist() == mine.loc[redeemed, "cost"].tolist()
    assert (served.loc[(mine["arm"] == "holdout").to_numpy(), "offer_id"] == "free").all()
    ended = outcome.loc[served.index, "observed_at"] - served["decided_at"]
    assert (ended[(~redeemed).to_numpy()] == pd.Timedelta(hours=48)).all()


def test_a_served_log_teaches_the_amounts_of_its_responses_or_names_what_is_missing(job: HarvestJob) -> None:
    """The harvested rows are labeled with what the ledger logged, as those of the first trial were."""
    own = replace(CAMPAIGN, objective="margin", sides={"customer": Terms(levels=(0, 50, 100), worth="amount")})
    (job.workspace / "campaign.json").write_text(json.dumps(own.to_dict()))
    given = tables()
    given["campaign"] = given["campaign"].assign(objective="margin", worth_customer="amount")
    given["outcome"]["amount"] = [0, 0, 0]
    save_dataset(Dataset(name="tables", tables=validate_tables(given), split=Split(by="account")), job.tables)
    write_log(job.log)
    with pytest.raises(InvalidInput, match=r"missing for [\d,]+ of ([\d,]+) final responses, first of request 'r"):
        run(job)
    (segment,) = job.log.glob("outcomes-*")
    logged = pq.read_table(segment).to_pandas()
    logged["amount"] = np.arange(len(logged)) + 1000
    pq.write_table(pa.Table.from_pandas(logged, SCHEMAS["outcomes"], preserve_index=False), segment)
    run(job)
    rows = labeled(load_dataset(job.harvested).tables, "customer").set_index("request_id")
    served = rows[rows.index.str.startswith("r") & (rows["response"] > 0)]
    assert len(served) > 500
    assert served["amount"].tolist() == logged.set_index("request_id")["amount"].loc[served.index].tolist()
    assert not (rows.loc[rows["response"] == 0, "amount"] > 0).any()


def test_later_windows_come_from_a_file_because_the_ledger_has_none(job: HarvestJob, tmp_path: Path) -> None:
    write_log(job.log)
    known = pd.DataFrame({"request_id": [f"r{row}" for row in range(0, 6000, 2)], "x_late": np.arange(3000.0)})
    known.to_parquet(tmp_path / "late.parquet")
    run(replace(job, outcomes=str(tmp_path / "late.parquet")))
    found = load_dataset(job.harvested).tables.outcome.set_index("request_id")["x_late"]
    wanted = known.set_index("request_id")["x_late"]
    served = found.index[found.index.str.startswith("r")]
    assert found.loc[served].notna().sum() > 2000
    pd.testing.assert_series_equal(found.loc[served].astype(float), wanted.reindex(served), check_names=False)
    known.assign(request_id="elsewhere").iloc[:1].to_parquet(tmp_path / "late.parquet")
    with pytest.raises(InvalidInput, match="outcomes: has no request of the log"):
        run(replace(job, outcomes=str(tmp_path / "late.parquet")))


def test_harvesting_again_changes_nothing_and_takes_up_what_came_late(job: HarvestJob, tmp_path: Path) -> None:
    write_log(job.log)
    run(job)
    first = load_dataset(job.harvested).tables
    run(replace(job, harvested=tmp_path / "again"))
    again = load_dataset(tmp_path / "again").tables
    assert again.exposure.equals(first.exposure)
    assert again.outcome.equals(first.outcome)
    # What was harvested may be the tables of the next harvest; its rows are replaced.
    (segment,) = job.log.glob("outcomes-*")
    table = pq.read_table(segment)
    late = first.outcome[(first.outcome["redeemed"] == 0) & first.outcome["request_id"].str.startswith("r")].iloc[0]
    row = table.slice(0, 1).to_pylist()[0] | {"request_id": late["request_id"], "late": True, "response": 1.0}
    pq.write_table(
        pa.concat_tables([table, pa.Table.from_pylist([row], schema=table.schema)]),
        segment.with_name(segment.name.replace(f"{table.num_rows:012d}", f"{table.num_rows + 1:012d}")),
    )
    segment.unlink()
    run(replace(job, tables=job.harvested, harvested=tmp_path / "later"))
    later = load_dataset(tmp_path / "later").tables
    assert len(later.exposure) == len(first.exposure)
    assert later.outcome.set_index("request_id").loc[late["request_id"], "redeemed"] == 1


def test_only_recent_rows_are_kept_where_they_are_asked_for(job: HarvestJob) -> None:
    rows = write_log(job.log)
    counts = run(replace(job, recent_days=3))
    found = load_dataset(job.harvested).tables
    final = rows[rows["hour"] <= rows["hour"].max() - 48 + 1e-6]
    strangers = final["account_id"].isin([f"a{number}" for number in range(1495, 1500)])
    known = final[~strangers]
    assert set(found.exposure["request_id"]) == {
        f"r{row}" for row in known.index[known["hour"] >= known["hour"].max() - 72]
    }
    assert set(found.outcome["request_id"]) == set(found.exposure["request_id"])
    assert counts["rows of the data set that are too old"] == 3


def by_time(job: HarvestJob, **fields: Any) -> Split:
    """Give the data set a split by time whose test is the last day of the trial."""
    split = Split.between(TRIAL - pd.Timedelta(days=2), TRIAL - pd.Timedelta(days=1), **fields)
    save_dataset(Dataset(name="tables", tables=validate_tables(tables()), split=split), job.tables)
    return split


@pytest.mark.parametrize("purge", [False, True])
def test_a_split_by_time_moves_on_with_the_log_so_that_served_rows_are_learned_from(
    purge: bool, job: HarvestJob, tmp_path: Path
) -> None:
    write_log(job.log)
    split = by_time(job, label_delay_days=2.0, purge=purge)
    run(job)
    found = load_dataset(job.harvested)
    exposure = found.tables.exposure
    moved = exposure["decided_at"].max() - TRIAL
    assert found.split == split.later(moved)
    assert found.split.test_from - found.split.validation_from == timedelta(days=1)
    served = exposure["request_id"].str.startswith("r")
    part, age = found.split.assign(exposure[served]), exposure["decided_at"].max() - exposure.loc[served, "decided_at"]
    assert set(part) == {"train", "validation", "test"} | ({"purged"} if purge else set())
    assert (age[part == "train"] > pd.Timedelta(days=3 if purge else 2)).all()
    assert (part == "train").sum() > (part == "test").sum()
    # The newest decision is the same one, so the split stays.
    run(replace(job, tables=job.harvested, harvested=tmp_path / "again"))
    assert load_dataset(tmp_path / "again").split == found.split


def test_recent_days_that_a_split_by_time_leaves_no_training_rows_of_are_refused(job: HarvestJob) -> None:
    write_log(job.log)
    by_time(job)
    with pytest.raises(InvalidInput, match=r"recent_days: keeps no training row: validation begins 2\.0 days before"):
        run(replace(job, recent_days=2))
    run(replace(job, recent_days=3))
    found = load_dataset(job.harvested)
    assert "train" in found.split.assign(found.tables.exposure)
    by_time(job, label_delay_days=3.0, purge=True)
    with pytest.raises(InvalidInput, match="and labels take 3 days"):
        run(replace(job, recent_days=3))


def test_without_served_rows_the_split_stays(job: HarvestJob) -> None:
    write_log(job.log)
    split = by_time(job)
    run(replace(job, mature_hours=24 * 365))
    assert load_dataset(job.harvested).split == split


def test_one_of_several_logs_must_be_named(job: HarvestJob, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"log: .* has no log in served/; name one"):
        run(replace(job, log=None))
    for name in ("ledger", "replay-ledger"):
        (tmp_path / "served" / name).mkdir(parents=True)
    with pytest.raises(InvalidInput, match=r"holds the logs .*replay-ledger'\]; name one"):
        run(replace(job, log=None))
    with pytest.raises(InvalidTable, match="has no decisions"):
        run(replace(job, log=tmp_path / "served" / "ledger"))
    # No price is sealed with a rehearsal.
    assert log_of(tmp_path, live=True) == tmp_path / "served" / "ledger"
    (tmp_path / "served" / "ledger").rmdir()
    assert logs_in(tmp_path, live=True) == []


def test_merchants_have_their_ratio_as_counts_and_context_its_columns(tmp_path: Path) -> None:
    write_log(tmp_path / "log")
    log = read_log(tmp_path / "log")
    decisions = log.decisions.assign(side="merchant", context="")
    decisions.loc[:1, "context"] = ['{"c_channel":"app","x_basket":1.5}', '{"x_basket":-2.0}']
    outcomes = log.outcomes.assign(side="merchant", response=1.234567)
    campaign = replace(CAMPAIGN, sides={"merchant": Terms(levels=(0, 50, 100), cost_basis="on_grant")})
    offer = tables()["offer"].assign(side="merchant")
    found = harvest(replace(log, decisions=decisions, outcomes=outcomes), campaign, offer, 0.0)
    ratio = found.outcome["share_count"] / found.outcome["share_count_before"]
    paid = found.outcome["request_id"].isin(outcomes["request_id"])
    assert ratio[paid].tolist() == pytest.approx([1.234567] * int(paid.sum()))
    assert (ratio[~paid] == 0).all()
    assert found.outcome["redeemed"].isna().all()
    assert found.exposure["x_basket"].tolist()[:2] == [1.5, -2.0]
    assert found.exposure["c_channel"].tolist()[:2] == ["app", None]
    assert found.exposure["x_basket"][2:].isna().all()
    assert found.outcome["share_count_before"].iloc[0] == UNITS


def test_merchants_without_the_amount_that_is_their_worth_are_named(tmp_path: Path) -> None:
    write_log(tmp_path / "log")
    log = read_log(tmp_path / "log")
    terms = Terms(levels=(0, 50, 100), cost_basis="on_grant", worth="amount")
    campaign = replace(CAMPAIGN, objective="margin", sides={"merchant": terms})
    offer = tables()["offer"].assign(side="merchant")
    decisions = log.decisions.assign(side="merchant")
    outcomes = log.outcomes.assign(side="merchant", response=np.where(log.outcomes["response"] > 0, 0.5, 0.0))
    responded = int((outcomes["response"] > 0).sum())
    with pytest.raises(InvalidInput, match=rf"missing for {responded:,} of {responded:,} .* of all its payments"):
        harvest(replace(log, decisions=decisions, outcomes=outcomes), campaign, offer, 0.0)
    told = outcomes.assign(amount=outcomes["response"].gt(0).astype("Int64").mul(800).replace(0, pd.NA))
    found = harvest(replace(log, decisions=decisions, outcomes=told), campaign, offer, 0.0)
    assert found.outcome["amount"].dropna().tolist() == [800] * responded


def test_an_incentive_that_does_not_tell_its_offer_is_refused(tmp_path: Path) -> None:
    write_log(tmp_path / "log")
    log, offer = read_log(tmp_path / "log"), tables()["offer"]
    with pytest.raises(InvalidInput, match="no offer of side 'customer' has 100 minor units"):
        harvest(log, CAMPAIGN, offer[:2], 0.0)
    twice = pd.concat([offer, offer.tail(1).assign(offer_id="other")])
    with pytest.raises(InvalidInput, match=r"'coupon-100' and 'other' .* both have 100"):
        harvest(log, CAMPAIGN, twice, 0.0)
    young = harvest(log, CAMPAIGN, offer, timedelta(days=30) / timedelta(hours=1))
    assert (len(young.exposure), young.open) == (0, len(log.decisions))


def test_offers_of_equal_cost_are_told_apart_by_their_level(tmp_path: Path) -> None:
    write_log(tmp_path / "log")
    log = read_log(tmp_path / "log")
    names = ("free", "mens", "womens")
    log = replace(log, decisions=log.decisions.assign(incentive=np.minimum(log.decisions["level"].clip(lower=0), 1)))
    terms = Terms(levels=(0, 1, 2), offers=names, amounts=(0, 0, 0), costs=(0, 1, 1), ordered=False)
    offer = tables(names)["offer"].drop(columns="face_value")
    found = harvest(log, replace(CAMPAIGN, sides={"customer": terms}), offer, 0.0)
    level = found.exposure["request_id"].map(log.decisions.set_index("request_id")["level"])
    assert found.exposure["offer_id"].tolist() == [names[each] for each in level]
    assert set(level) == {0, 1, 2}


def test_sessions_become_behaviors_before_their_decision_and_no_column(job: HarvestJob) -> None:
    write_log(job.log)
    log = read_log(job.log)
    at = log.decisions.set_index("request_id")["decided_at"]
    carts = {
        "r1": [{"item_id": "i1", "action": "cart", "ts": "2026-02-28T23:00:00.5+00:00", "price_level": 2}],
        # The clock of the caller was ahead.
        "r2": [{"item_id": "i2", "action": "order", "ts": "2026-04-01T00:00:00+00:00", "brand": "b"}],
        "r3": [],
    }
    texts = {name: json.dumps({"session": cart, "x_basket": 1.5}) for name, cart in carts.items()}
    decisions = log.decisions.assign(context=log.decisions["request_id"].map(texts).fillna(""))
    found = harvest(replace(log, decisions=decisions), CAMPAIGN, tables()["offer"], 48.0)
    assert "session" not in found.exposure
    assert found.exposure.set_index("request_id")["x_basket"].dropna().to_dict() == dict.fromkeys(carts, 1.5)
    rows = found.behaviour.set_index("session_id")
    assert rows.index.tolist() == ["r1", "r2"]
    assert rows["ts"].tolist() == [pd.Timestamp("2026-02-28T23:00:00.5Z"), at["r2"]]
    assert rows["action"].tolist() == ["cart", "order"]
    assert set(rows["phase"]) == {"before"}
    assert rows["price_level"].fillna(0).tolist() == [2, 0]
