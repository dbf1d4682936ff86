"""A campaign for margin whose amounts are learned of both sides: one run from tables to decisions, and its log."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from snippets import Machine, blocks_of, follow

from operations import harvest, lift, prepare, whatif
from operations.common.workspace import MODEL, REPLAY_PRICES, log_of, read_campaign, read_worths
from shadowprice.datasets.package import load_dataset
from shadowprice.decision import decide
from shadowprice.experiments.served import served_requests
from shadowprice.learning.bundle import EMBEDDINGS, META
from shadowprice.pacing.decision_log.served import read_log
from shadowprice.pacing.history import Traffic
from shadowprice.price import PriceRecord
from shadowprice.responses.layers.heads import load_heads
from shadowprice.tables.views import labeled

pytestmark = pytest.mark.timeout(1500)

ROOT = Path(__file__).resolve().parents[2]
LEVELS, MARGIN = np.array([0, 200, 400]), 0.3
COMMISSIONS, SHARE = np.array([0, 100, 200]), 0.02
"""Levels of merchants, and the share of their payments that is margin."""

LATE = 4800 * np.array([0.15, 0.27, 0.36, 0.42]) + 800 * np.array([2.0, 2.2, 2.6, 0.6])
"""Mean value in 90 days by level of the example of long-term value, less a constant: orders and visits, in cents."""


def exposed(ids: list[str], accounts: Any, offers: Any, at: Any) -> dict[str, Any]:
    """Columns of exposures to three levels at random."""
    own = {"request_id": ids, "account_id": accounts, "offer_id": offers}
    return {**own, "side": "customer", "decided_at": at, "propensity": 1 / 3}


def answered(ids: list[str], at: Any, level: Any, redeemed: Any) -> dict[str, Any]:
    """Columns of their outcomes, without amounts."""
    paid = {"cost_paid": np.where(redeemed, LEVELS[level], 0), "redeemed": redeemed.astype(int)}
    return {"request_id": ids, "observed_at": at + pd.Timedelta(hours=1), "mature": "true", **paid}


def merchants_of(accounts: int, rows: int) -> dict[str, dict[str, Any]]:
    """Rows of merchants, whose payments have a mean amount of each one; a commission brings more of them."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(accounts, 3))
    base = np.exp(1.7 + 0.5 * x[:, 0])
    ratio = 0.8 + 0.7 * np.exp(0.4 * x[:, 1]) * COMMISSIONS[:, None] / 200
    who, level = np.repeat(np.arange(accounts), rows), rng.integers(0, 3, accounts * rows)
    before = rng.poisson(base[who])
    count = rng.poisson(np.maximum(before, 1) * ratio[level, who])
    paid = np.exp(7.5 + 0.8 * x[who, 2]) * rng.gamma(2 * np.maximum(count, 1), 0.5)
    names, offers = np.array([f"m{number:04d}" for number in range(accounts)]), np.array(["p0", "p1", "p2"])
    ids, start = [f"s{row:05d}" for row in range(who.size)], pd.Timestamp("2026-03-01", tz="UTC")
    at = start + pd.to_timedelta(rng.uniform(1, 28 * 24, who.size), unit="h")
    columns = {f"x_{k}": x[:, k] for k in range(3)}
    counts = {"share_count": count, "share_count_before": before}
    seen = {"observed_at": at + pd.Timedelta(hours=1), "mature": "true", "cost_paid": COMMISSIONS[level]}
    return {
        "account": {"account_id": names, "side": "merchant", "snapshot_ts": start, **columns},
        "offer": {"offer_id": offers, "side": "merchant", "kind": "commission", "face_value": COMMISSIONS},
        "exposure": exposed(ids, names[who], offers[level], at) | {"side": "merchant"},
        "outcome": {"request_id": ids, **seen, "amount": np.where(count, np.rint(paid) + 1, 0), **counts},
        "campaign": {"cost_basis_merchant": "on_grant", "weight_merchant": SHARE, "worth_merchant": "amount"},
    }


def write_tables(folder: Path, accounts: int = 1500, rows: int = 6, merchants: int = 0) -> None:
    """A randomized trial whose orders are log-normal around a mean of each customer."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(accounts, 3))
    slope = np.exp(-0.4 + 0.6 * x[:, 0])
    response = 1 - np.exp(-(0.08 * np.exp(0.4 * x[:, 1]) + 0.25 * slope * LEVELS[:, None] / 400))
    mean = 8.0 + 1.0 * x[:, 2] - 0.2 * LEVELS[:, None] / 400
    who, level = np.repeat(np.arange(accounts), rows), rng.integers(0, 3, accounts * rows)
    redeemed = rng.random(who.size) < response[level, who]
    amount = np.rint(np.exp(mean[level, who] + 0.7 * rng.normal(size=who.size)) + 1).astype(int)
    names, offers = np.array([f"c{number:04d}" for number in range(accounts)]), np.array(["o0", "o2", "o4"])
    ids, start = [f"r{row:05d}" for row in range(who.size)], pd.Timestamp("2026-03-01", tz="UTC")
    at = start + pd.to_timedelta(rng.uniform(1, 28 * 24, who.size), unit="h")
    columns = {f"x_{k}": x[:, k] for k in range(3)}
    tables = {
        "account": {"account_id": names, "side": "customer", "snapshot_ts": start, **columns},
        "edge": {name: [] for name in ("src", "dst", "relation", "weight", "ts")},
        "offer": {"offer_id": offers, "side": "customer", "kind": "coupon", "face_value": LEVELS},
        "exposure": exposed(ids, names[who], offers[level], at),
        "outcome": {
            **answered(ids, at, level, redeemed),
            "amount": np.where(redeemed, amount, 0),
        },
        "campaign": {
            "campaign_id": ["spring"],
            "starts_at": "2026-03-30T00:00:00Z",
            "hours": 24,
            "budget_name": "day",
            "budget_form": "total",
            "budget_limit": 12_000,
            "cost_basis_customer": "on_response",
            "objective": "margin",
            "weight_customer": MARGIN,
            "worth_customer": "amount",
            "expected_requests": 400,
        },
    }
    folder.mkdir()
    more = merchants_of(merchants, rows) if merchants else {}
    tables["campaign"] |= more.pop("campaign", {})
    for name, own in tables.items():
        table = pd.concat([pd.DataFrame(own), pd.DataFrame(more[name])]) if name in more else own
        if name == "outcome":
            counted = ("redeemed", "share_count", "share_count_before")
            table = pd.DataFrame(table).astype({column: "Int64" for column in counted if column in table})
        pd.DataFrame(table).to_csv(folder / f"{name}.csv", index=False, date_format="%Y-%m-%dT%H:%M:%SZ")


def quickstart(folder: Path, *more: object) -> Path:
    words = ["quickstart", "--dataset", "tables", "--data", folder / "tables", "--runs", folder / "runs", *more]
    command = [sys.executable, "-W", "ignore", "-m", "shadowprice", *map(str, words), "--workers", "0", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return (folder / "runs" / "latest").resolve()


@pytest.fixture(scope="module")
def harvested(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of the run with what it served."""
    folder = tmp_path_factory.mktemp("harvested")
    prepare.run(prepare.PrepareJob(tables=folder / "tables", dataset="tables", data=str(run.parents[1] / "tables")))
    out = folder / "harvested"
    harvest.run(harvest.HarvestJob(tables=folder / "tables", workspace=run, harvested=out, mature_hours=0))
    return out


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("amounts")
    write_tables(folder / "tables", merchants=600)
    return quickstart(folder, "--recipe", "joint_dnn", "--epochs", 60)


SIDES = pytest.mark.parametrize("side", ["customer", "merchant"])


def law_of(run: Path, side: str, accounts: Any) -> tuple[np.ndarray, np.ndarray]:
    """Response, and margin of a unit of it, both (J, n), by the registered head and the stored embeddings."""
    head = load_heads(run / MODEL)[side]
    stored = pd.read_parquet(run / MODEL / EMBEDDINGS)
    embedding = stored[stored["side"] == side].set_index("account_id")["embedding"].loc[accounts]
    read = np.stack(embedding.to_list()).astype(np.float32)
    amounts = head.amounts(read)
    assert amounts is not None
    mean, deviation = amounts.astype(float)
    return head.response(read), (MARGIN if side == "customer" else SHARE) * np.exp(mean + deviation**2 / 2)


@SIDES
def test_every_served_decision_is_the_best_by_the_learned_margin(run: Path, side: str) -> None:
    campaign, log, records = read_campaign(run), read_log(log_of(run)), {}
    for path in (run / REPLAY_PRICES / campaign.name).glob("*.json"):
        record = PriceRecord.from_json(path.read_text())
        records[record.version] = record
    decisions = log.decisions[log.decisions["reason"].isin(["optimal", "tie"]) & (log.decisions["side"] == side)]
    assert len(decisions) > 100
    # Ratios are linear in the commission, so a merchant is given all of it or none.
    assert decisions["level"].nunique() == (3 if side == "customer" else 2)
    for version, asked in decisions.groupby("price_version"):
        response, unit = law_of(run, side, asked["account_id"])
        record, ids = records[version], asked["request_id"].tolist()
        paid = LEVELS[:, None] * response.astype(float)
        cost = paid if side == "customer" else COMMISSIONS[:, None] * np.ones_like(unit)
        wanted = decide(unit * response, cost, record.of(campaign.priced), record.tie_share, ids)
        np.testing.assert_array_equal(wanted.level, asked["level"])


@SIDES
def test_the_log_is_valued_by_the_expected_amount_of_the_level_given(run: Path, side: str) -> None:
    campaign, log = read_campaign(run), read_log(log_of(run))
    found = served_requests(log, campaign, read_worths(campaign, run))
    hits = found[(found["response"] > 0) & (found["side"] == side)]
    level = log.decisions.set_index("request_id")["level"].loc[hits["request_id"]].to_numpy()
    unit = law_of(run, side, hits["account_id"])[1][level, np.arange(level.size)]
    np.testing.assert_allclose(hits["value"], unit * hits["response"], rtol=1e-5)
    assert (found.loc[found["response"] == 0, "value"] == 0).all()


@SIDES
def test_the_served_log_teaches_amounts_as_the_trial_did(run: Path, harvested: Path, side: str) -> None:
    """The rows of a merchant have the amount of a unit: that of all its payments over its response."""
    rows = labeled(load_dataset(harvested).tables, side).set_index("request_id")
    logged = read_log(log_of(run)).outcomes.set_index("request_id")
    hits = logged[(logged["response"] > 0) & (logged["side"] == side)]
    assert len(hits) > 30
    own = rows.loc[hits.index]
    np.testing.assert_allclose(own["amount"] * own["response"], hits["amount"].astype(float), rtol=1e-9)
    np.testing.assert_allclose(own["response"], hits["response"], atol=1e-6)
    served, trial = (np.log(part["amount"][part["response"] > 0]) for part in (own, rows))
    assert abs(served.mean() - trial.mean()) < 1


@SIDES
def test_the_page_compares_amounts_by_decile(run: Path, side: str) -> None:
    page = json.loads((run / "report.json").read_text())
    (table,) = (own["amounts"] for own in page["sides"] if own["side"] == side)
    assert len(table["rows"]) == 10
    inside = [
        low <= found <= high for low, found, high in zip(table["low"], table["predicted"], table["high"], strict=True)
    ]
    assert sum(inside) >= 7
    assert "Amount of a response, by the predicted amount" in (run / "report.html").read_text()


def test_a_question_about_another_budget_is_answered_in_margin(run: Path, tmp_path: Path) -> None:
    """Without money every request gets the lowest level, which costs nothing: the margin is known in closed form."""
    told = whatif.run(whatif.WhatifJob(workspace=run, budget=0.0, answer=tmp_path / "whatif.json", rows=0))
    traffic, margin = Traffic.load(run), 0.0
    for side, requests in traffic.forecast(read_campaign(run)).expected.items():
        accounts = traffic.accounts[side]
        response, unit = law_of(run, side, accounts.account_id)
        margin += requests.sum() * np.average((unit * response)[0], weights=accounts.activity)
    assert told["asked"]["spend"]["value"] == 0
    assert told["asked"]["value"]["value"] == pytest.approx(margin, rel=1e-5)
    assert told["current"]["value"]["value"] > 1.1 * margin


def test_a_run_decides_by_the_long_term_value_that_an_index_predicts_and_never_calls_it_measured(
    machine: Machine, tmp_path: Path
) -> None:
    """The guide, from its first line to its last, whose largest coupon brings most orders and fewer visits."""
    shutil.copytree(ROOT / "docs/examples", tmp_path / "docs/examples")
    follow(blocks_of(ROOT / "docs/how-to/decide-for-long-term-value.md"), tmp_path, machine, {})
    run = (tmp_path / "runs/latest").resolve()
    campaign = read_campaign(run)
    assert campaign.long_term is not None
    decided = read_log(log_of(run)).decisions
    mine = decided[(decided["arm"] == "policy") & decided["reason"].isin(["optimal", "tie"])]
    # The budget would pay the highest level to everybody, and that brings the most orders.
    assert (mine["level"] == 2).mean() > 0.9
    head = load_heads(run / MODEL)["customer"]
    response = head.response(head.default_embedding[None])[:, 0]
    assert np.argmax(response) == 3
    found = json.loads((run / MODEL / META).read_text())["long_term"]
    for effect, truth in zip(found["effects"], LATE[1:] - LATE[0], strict=True):
        assert effect["low"] < truth < effect["high"]
    sentence = f"predicted by a surrogate index learned on {found['rows']:,} rows"
    for name in ("report.html", "report.json"):
        assert sentence in (run / name).read_text()
    assert "predicted long-term value" in (run / "report.html").read_text()
    written = {name: tmp_path / name for name in ("result", "page")}
    lift.run(lift.LiftJob(log=log_of(run), campaign=run, mature_hours=0, **written))
    page = written["page"].read_text()
    assert "Values are in dollars of predicted long-term value." in page
    assert sentence in page
    assert "They are not measured." in page
    assert "by day and by segment leave out the error of the index; the others include it." in page
