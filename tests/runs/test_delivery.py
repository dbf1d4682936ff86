"""The delivery pipeline, run by kfp.local, and its plan repeated by the service's own predictor."""

import asyncio
import io
import json
import re
import shutil
import time
from contextlib import ExitStack, redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from prometheus_client import CollectorRegistry

from benchmarks.companies.funds import play_funds
from benchmarks.companies.week import place_rivals
from feature_repo.online import OnlineReader
from operations.common.job import run_here
from operations.common.workspace import read_campaign
from operations.prepare import PrepareJob
from pipelines.__main__ import main
from serving.client.client import DecisionClient, LedgerClient
from serving.local.launch import Deployment, free_port, start_ledger, start_predictor
from serving.local.window import open_window
from serving.predictor.active import Active
from serving.predictor.bundle import Bundle
from serving.predictor.features import Features
from serving.predictor.ledger.client import Authorization
from serving.predictor.ledger.columns import Authorized
from serving.predictor.metrics import PredictorMetrics
from serving.predictor.models import Models
from serving.predictor.predictor import Predictor
from serving.predictor.price_watcher import PriceWatcher
from serving.protocol import Requests
from serving.resolve import main as resolve
from shadowprice.datasets import load
from shadowprice.datasets.folder import write_tables
from shadowprice.decision import NOTHING
from shadowprice.errors import InvalidTable
from shadowprice.pacing.price_store import PriceStore

TINY = {"users": 120, "merchants": 15, "funds": 4, "deliveries": 4}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("delivery")
    # Hundreds of held-out deliveries show what a plan is worth; of this one a person says so.
    override = {"reason": "a test of few accounts", "by": "ann"}
    given = ["workspace=" + str(folder / "run"), "options=" + json.dumps(TINY), "epochs=2"]
    given.append(f"settings={json.dumps({'evaluate': {'override': override}})}")
    arguments = ["run", "delivery", "--json", *(word for each in given for word in ("--set", each))]
    with redirect_stdout(io.StringIO()) as told:
        assert main(arguments) == 0
    found = json.loads(told.getvalue())
    assert (found["pipeline"], found["root"]) == ("delivery", str(folder / "run" / "pipeline"))
    assert found["seconds"]["train"] > 0
    return folder / "run"


class Promised:
    """Authorizes whatever it is asked to, and remembers it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def authorize(self, proposals, known, *, sizes, **versions):
        self.asked += proposals.request_id
        n = len(proposals.request_id)
        shared = set(Authorized.__dataclass_fields__) - {"repeat", "limited_by", *versions}
        columns = {name: getattr(proposals, name) for name in shared}
        columns |= {name: [version] * n for name, version in versions.items()}
        columns |= {"limited_by": [""] * n, "repeat": [False] * n}
        return Authorization(Authorized(**columns), known=[], errors=[None] * len(sizes))


@pytest.fixture
def predictor(workspace: Path) -> Predictor:
    campaign = read_campaign(workspace)
    metrics = PredictorMetrics(campaign, CollectorRegistry())

    def features(bundle: Bundle) -> Features:
        reader = OnlineReader(workspace / "features", bundle.model_version)
        return Features(reader, {side: head.default_embedding for side, head in bundle.heads.items()})

    models = Models(workspace / "model", campaign, features)
    watcher = PriceWatcher(
        PriceStore(workspace / "prices"),
        campaign,
        load_model=models.load,
        metrics=metrics,
        poll_seconds=1.0,
    )
    watcher.poll()
    return Predictor(campaign=campaign, source=watcher, ledger=Promised(), metrics=metrics, window=False)


def ask(accounts: list[str]) -> Requests:
    return Requests([f"r-{name}" for name in accounts], accounts, ["customer"] * len(accounts))


@pytest.mark.timeout(600)
def test_the_plan_has_exact_sizes_and_its_report_the_methods(workspace: Path) -> None:
    report = json.loads((workspace / "plan.json").read_text())
    tables = load("funds", seed=0, **TINY).tables
    assert [each["accounts"] for each in report["segments"]] == tables.offer["demand"].tolist()
    assert report["audit"] == {"sound": True, "unplaced": 0, "ineligible": 0, "repeated": 0, "missing": [0] * 4}
    assert report["gap"] <= 1e-9
    assert {each["method"] for each in report["methods"]} == {"exact", "heuristic", "literal_heuristic", "priority"}
    plan = pd.read_parquet(workspace / "plan.parquet").merge(
        tables.account, on="account_id"
    ).merge(tables.offer, left_on="segment", right_on="offer_id")  # fmt: skip
    assert len(plan) == TINY["users"]
    listed = pd.read_csv(workspace / "plan.csv")
    assert listed.columns.tolist() == ["account_id", "segment", "value"]
    assert listed["segment"].value_counts().to_dict() == tables.offer.set_index("offer_id")["demand"].to_dict()
    assert (plan["risk_level"] <= plan["risk_tolerance"]).all()


@pytest.mark.timeout(600)
def test_the_service_repeats_the_plan(workspace: Path, predictor: Predictor) -> None:
    plan = pd.read_parquet(workspace / "plan.parquet")
    answers = asyncio.run(predictor.answer(ask(plan["account_id"].tolist())))
    names = [segment.name for segment in predictor.campaign.terms("customer").segments]
    sure = np.array(answers.reason) == "optimal"
    given = np.array(names)[answers.level]
    # A tie at the prices is broken by the rule of ties and not by the plan; few accounts tie.
    assert (given[sure] == plan["segment"].to_numpy()[sure]).all()
    assert set(answers.reason) <= {"optimal", "tie"}
    assert sure.mean() > 0.95
    np.testing.assert_allclose(answers.response[sure], plan["value"][sure], rtol=1e-6)
    assert answers.incentive.tolist() == [0] * len(plan)


@pytest.mark.timeout(600)
def test_no_price_reaches_over_a_risk_rule_and_who_may_have_nothing_is_told_so(
    workspace: Path, predictor: Predictor
) -> None:
    """With the riskiest fund as good as free, and everybody's best; strangers' tolerance is not known."""
    tables = load("funds", seed=0, **TINY).tables
    campaign = predictor.campaign
    prices = PriceStore(workspace / "prices")
    now = datetime.now(UTC)
    newest = prices.latest(campaign.name)
    assert newest is not None
    tempting = replace(
        newest,
        version=newest.version + 1,
        prices={name: 1e12 if name != campaign.priced[-1] else 0.0 for name in campaign.priced},
        solved_at=now,
        sha256="",
    ).sealed()
    assert predictor.source.current is not None
    now_in_force = Active(tempting, predictor.source.current.model)
    greedy = replace(predictor, source=SimpleNamespace(current=now_in_force))
    own = tables.account[tables.account["side"] == "customer"]
    answers = asyncio.run(greedy.answer(ask([*own["account_id"], "stranger"])))
    risk = tables.offer.sort_values("order_index")["risk_level"].to_numpy(dtype=float)
    level = answers.level[:-1]
    assert (risk[level] <= own["risk_tolerance"].to_numpy(dtype=float)).all()
    bold = own["risk_tolerance"].to_numpy() >= risk[-1]
    assert (level[bold] == len(risk) - 1).all()
    assert 0 < bold.sum() < bold.size
    assert answers.level[-1] == NOTHING
    assert answers.reason[-1] == "ineligible"
    assert greedy.ledger.asked.count("r-stranger") == 0


@pytest.mark.timeout(600)
def test_over_http_no_price_and_no_request_reaches_over_a_risk_rule(workspace: Path, tmp_path: Path) -> None:
    """Both services as processes over the pipeline's own model, features and prices, the riskiest fund all but free."""
    run_ = shutil.copytree(workspace, tmp_path / "run")
    campaign = read_campaign(run_)
    prices = PriceStore(run_ / "prices")
    newest = prices.latest(campaign.name)
    assert newest is not None
    tempting = {name: 0.0 if name == campaign.priced[-1] else 1e12 for name in campaign.priced}
    later = {"version": newest.version + 1, "slot": newest.slot + 1, "solved_at": datetime.now(UTC)}
    prices.publish(replace(newest, **later, prices=tempting, sha256="").sealed())
    tables = load("funds", seed=0, **TINY).tables
    own = tables.account[tables.account["side"] == "customer"]
    risk = tables.offer.sort_values("order_index")["risk_level"].to_numpy(dtype=float)
    with ExitStack() as stack:
        deployment = Deployment.of_run(run_, run_ / "campaign.json")
        ledger = start_ledger(deployment, free_port())
        stack.callback(ledger.stop)
        predictor = start_predictor(deployment, free_port(), ledger.url)
        stack.callback(predictor.stop)
        ledger.wait_ready(120.0)
        predictor.wait_ready(240.0)
        client = stack.enter_context(DecisionClient(predictor.url, campaign.name))
        asked = [*own["account_id"], "stranger"]
        found = client.decide([f"r-{name}" for name in asked], asked, ["customer"] * len(asked))
        again = client.decide(["r-stranger"], ["stranger"], ["customer"])
    level, tolerance = np.array(found.level[:-1]), own["risk_tolerance"].to_numpy(dtype=float)
    placed = level != NOTHING
    assert (risk[level[placed]] <= tolerance[placed]).all()
    bold = tolerance >= risk[-1]
    size = int(tables.offer.sort_values("order_index")["demand"].iloc[-1])
    assert 0 < size < bold.sum() < bold.size
    # Sizes are as hard as a budget: the fund that is all but free has its number of accounts, and no more.
    assert (level[bold] == len(risk) - 1).sum() == size
    assert set(np.array(found.limited_by[:-1])[~placed]) <= set(campaign.priced)
    assert (found.level[-1], found.reason[-1]) == (NOTHING, "ineligible")
    assert (again.level[0], again.reason[0]) == (NOTHING, "ineligible")


WRONG = {("offer", "demand"): (2, -3), ("account", "risk_tolerance"): (5, 1.5), ("outcome", "amount"): (7, -1)}
"""Table and column → row and what stands there."""


def test_bad_tables_stop_the_first_step_with_column_and_row_of_each(tmp_path: Path) -> None:
    broken = write_tables(load("funds", seed=0, **TINY).tables, tmp_path / "data")
    for (table, column), (row, value) in WRONG.items():
        frame = pd.read_parquet(broken / f"{table}.parquet")
        frame[column] = frame[column].astype(float)
        frame.loc[row, column] = value
        frame.to_parquet(broken / f"{table}.parquet")
    with pytest.raises(InvalidTable) as failed:
        run_here(PrepareJob(dataset="tables", data=str(broken), tables=tmp_path / "tables"))
    said = str(failed.value)
    for (table, column), (row, _) in WRONG.items():
        assert re.search(rf"{table}\.{column}[^\n]*{row}", said), (table, column, said)
    assert not (tmp_path / "tables").exists()


@pytest.mark.timeout(600)
def test_the_hourly_job_prices_the_places_that_are_left_until_all_are_filled(workspace: Path, tmp_path: Path) -> None:
    """Half the accounts come while every place costs nothing; then the job of each hour runs, as a cluster runs it."""
    run_ = shutil.copytree(workspace, tmp_path / "run", symlinks=True)
    assert open_window(run_)
    campaign, prices = read_campaign(run_), PriceStore(run_ / "prices")
    newest = prices.latest(campaign.name)
    assert newest is not None
    assert (newest.window, newest.slot, newest.sample_rows) == (campaign.starts_at, -1, TINY["users"])
    wrong = dict.fromkeys(campaign.priced, 0.0)
    later = {"version": newest.version + 1, "solved_at": datetime.now(UTC)}
    prices.publish(replace(newest, **later, prices=wrong, sha256="").sealed())
    tables = load("funds", seed=0, **TINY).tables
    own = tables.account[tables.account["side"] == "customer"]
    tolerance = own.set_index("account_id")["risk_tolerance"].astype(int)
    names = np.random.default_rng(0).permutation(own["account_id"].to_numpy(dtype=str)).tolist()
    half = len(names) // 2
    with ExitStack() as stack:
        deployment = Deployment.of_run(run_, run_ / "campaign.json")
        ledger = start_ledger(deployment, free_port())
        stack.callback(ledger.stop)
        predictor = start_predictor(deployment, free_port(), ledger.url)
        stack.callback(predictor.stop)
        ledger.wait_ready(120.0)
        predictor.wait_ready(240.0)
        client = stack.enter_context(DecisionClient(predictor.url, campaign.name))
        early = client.decide([f"r-{name}" for name in names[:half]], names[:half], ["customer"] * half)
        with redirect_stdout(io.StringIO()) as told:
            assert resolve(["--workspace", str(run_), "--ledger-url", ledger.url, "--json"]) == 0
        solved = json.loads(told.getvalue().splitlines()[-1])
        record = prices.latest(campaign.name)
        assert record is not None
        assert (record.version, record.slot, solved["version"]) == (newest.version + 2, 0, record.version)
        assert (record.sample_rows, record.requests) == (len(names) - half, half)
        assert len(pd.read_csv(run_ / "plan.csv")) == len(names) - half
        deadline = time.monotonic() + 60
        while client.decide(["probe"], ["stranger"], ["customer"]).price_version < record.version:
            assert time.monotonic() < deadline, predictor.tail()
            time.sleep(0.2)
        late = client.decide([f"r-{name}" for name in names[half:]], names[half:], ["customer"] * (len(names) - half))
        with LedgerClient(ledger.url) as reader:
            places = reader.totals()["places"]
    level, demand = [*early.level, *late.level], tables.offer.set_index("offer_id")["demand"]
    risk = tables.offer.sort_values("order_index")["risk_level"].to_numpy(dtype=int)
    assert places == demand.to_dict()
    assert np.bincount(level).tolist() == demand.tolist()
    assert all(risk[j] <= tolerance[account] for account, j in zip(names, level, strict=True))
    # At no price some segments are wanted by too many: these get the next best one.
    moved = np.array(early.reason) == "budget_exhausted"
    assert 0 < moved.sum() < half
    assert set(np.array(early.limited_by)[moved]) <= set(campaign.priced)


@pytest.mark.timeout(900)
def test_a_platform_fills_its_funds_in_a_week_from_its_files_on(tmp_path: Path, look_at: Any) -> None:
    """Files by a mapping, seven days through the services, pages in a browser, and the value by the known truth."""
    pages = ("", *(f"campaigns/fonds{page}" for page in ("", "/mix", "/budget?size_fund-1=60", "/changes")))
    files = [(tmp_path / "runs/latest" / name).as_uri() for name in ("report.html", "summary.html")]
    look = look_at(*pages, "campaigns/fonds/requests?request_id=week-000000", *files)
    options = {"users": 400, "merchants": 40, "funds": 4}
    week, allowed = play_funds(tmp_path, epochs=8, every=6.0, look=look, **options)
    sizes = [segment.demand for segment in week.campaign.segments]
    # To the unit: every account has one place, every fund its number, and nobody a fund above their tolerance.
    assert np.bincount(week.level).tolist() == list(week.totals["places"].values()) == sizes
    assert allowed[week.level, np.arange(week.level.size)].all()
    assert len(week.played.prices) > 20
    summary = json.loads((tmp_path / "runs/latest/summary.json").read_text())
    assert [each["accounts"] for each in summary["plan"]] == sizes
    rivals = place_rivals(week, allowed)
    assert week.over(rivals["lp"]).high < 0 < week.over(rivals["random"]).low
    assert week.over(rivals["random"]).value > 0.5 * float((rivals["lp"] - rivals["random"]).sum())
