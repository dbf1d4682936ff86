"""A whole run on voucher sessions, and what it publishes read back by the services."""

import json
import re
import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
from services import SERVICES, served
from small_vouchers import cart_of, with_carts
from snippets import ROOT, Machine, blocks_of, follow

from benchmarks.companies.vouchers import play_vouchers, write_company
from benchmarks.companies.week import voucher_rivals
from operations.common.job import run_here
from operations.common.solver import Solver
from operations.common.workspace import read_campaign
from operations.featurize import FeaturizeJob
from operations.harvest import HarvestJob
from operations.measure import MeasureJob
from operations.prepare import PrepareJob
from operations.publish import PublishJob
from operations.register import RegisterJob
from operations.solve import SolveJob
from operations.train import TrainJob
from operations.whatif import WhatifJob
from pipelines.local import run
from serving.client.client import DecisionClient
from serving.console.workspace import Workspace
from serving.local.launch import Deployment, Services, free_port, launch
from serving.predictor.bundle import load_bundle
from shadowprice.allocation import Problem, Resource, on_response, solve
from shadowprice.curves import Curves
from shadowprice.datasets.folder import write_tables
from shadowprice.datasets.package import load_dataset
from shadowprice.datasets.vouchers import generate
from shadowprice.decision import decide
from shadowprice.errors import InvalidTable, NotCertified
from shadowprice.learning.bundle import EMBEDDINGS
from shadowprice.learning.fit import repair
from shadowprice.learning.training_set import TrainingSet
from shadowprice.pacing.contexts import context_columns
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord
from shadowprice.reports.stored import rewrite_report
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.repair.model import RepairedModel
from shadowprice.responses.separate import SeparateModels
from shadowprice.responses.sided import load_sided
from shadowprice.tables import SessionTables

GUIDE = blocks_of(ROOT / "docs/how-to/run-a-voucher-campaign.md")
(RUN,) = (block for block in GUIDE if block.text.startswith("shadowprice quickstart"))
(OPTIONS,) = re.findall(r"--options '(.*)'", RUN.text)
SESSIONS, BUDGET, REQUESTS = json.loads(OPTIONS).values()
FILES = {"geholt": "collected", "scheine": "coupons", "eingeloest": "redemptions", "koerbe": "carts"}
"""Name of a company's file, and its name in the guide."""
PUBLIC = "2020-11-01"
"""Marks the line for the public sample, which the reader has to convert first."""


@pytest.fixture(scope="module")
def run_folder(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The run of the guide: the pipeline by kfp.local, and a day replayed through the services."""
    place = tmp_path_factory.mktemp("guide")
    follow([RUN], place, machine, {})
    folder = (place / "runs/latest").resolve()
    return folder, json.loads((folder / "summary.json").read_text())


@pytest.fixture(scope="module")
def workspace(run_folder: tuple[Path, dict[str, Any]]) -> Path:
    folder, _ = run_folder
    (solved,) = (folder / "pipeline").glob("*/solve/price")
    (bundle,) = (folder / "pipeline").glob("*/train/model")
    # A step that was stopped is tried again: the same price is published once.
    run_here(RegisterJob(model=bundle, workspace=folder))
    assert run_here(PublishJob(price=solved, workspace=folder)) == 1
    return folder


@pytest.mark.timeout(900)
def test_a_voucher_day_is_paced_within_its_budget_and_reported(run_folder: tuple[Path, dict[str, Any]]) -> None:
    folder, summary = run_folder
    pacing = summary["pacing"]
    assert 0.5 * BUDGET < pacing["spend"] <= BUDGET
    assert pacing["price_updates"] > 12
    assert summary["serve"]["requests"] > REQUESTS / 2
    assert summary["serve"]["errors"] == 0
    report = json.loads((folder / "report.json").read_text())
    (side,) = report["sides"]
    offers = side["offers"]
    assert len(set(offers)) == 8
    assert set(pd.read_csv(folder / "who_got_what.csv")["level"].dropna()) <= set(range(8))
    again = rewrite_report(folder, folder / "again.html").read_text()
    assert all(name in again for name in offers)


@pytest.mark.timeout(900)
def test_a_voucher_campaign_is_solved_again_and_asked_what_if(workspace: Path) -> None:
    traffic = Traffic.load(workspace)
    session = generate(seed=0, sessions=SESSIONS).tables.session
    recent = session[session["collected_at"] > session["collected_at"].max() - pd.Timedelta(days=31)]
    asked = traffic.accounts["customer"]
    assert dict(zip(asked.account_id, asked.activity, strict=True)) == recent["user_id"].value_counts().to_dict()
    run("resolve", workspace / "pipeline", {"workspace": str(workspace)})
    assert PriceStore(workspace / "prices").latest("vouchers").version == 2
    told = run_here(WhatifJob(workspace=workspace, budget=0.9 * BUDGET, answer=workspace / "whatif.json", rows=0))
    assert told["asked"]["spend"]["value"] <= 0.9 * BUDGET * (1 + 1e-6)
    assert told["asked"]["value"]["value"] <= told["current"]["value"]["value"]


@pytest.mark.timeout(900)
def test_the_guide_runs_as_printed_on_its_run_and_on_files_of_a_reader(
    workspace: Path, machine: Machine, tmp_path: Path
) -> None:
    shutil.copytree(workspace, tmp_path / "runs/guide", symlinks=True)
    (tmp_path / "runs/latest").symlink_to("guide")
    write_company(tmp_path, generate(seed=0, sessions=SESSIONS).tables)
    for own, name in FILES.items():
        (tmp_path / f"{own}.csv").rename(tmp_path / f"{name}.csv")
    first = free_port()
    ports = {name: first + number for number, name in enumerate(SERVICES)}
    *rest, own = (block for block in GUIDE if block != RUN and PUBLIC not in block.text)
    with ExitStack() as stack:

        def start(_: str) -> str:
            return stack.enter_context(served(tmp_path / "runs/latest", first))

        told = follow(rest, tmp_path, machine, ports, start)
    (answer,) = re.findall(r'\{"predictions".*\}', told)
    assert json.loads(answer)["predictions"][0]["offer_id"].startswith("v")
    # So few sessions show nothing of a model, as the page says.
    refused = machine(tmp_path, own.text)
    assert refused.returncode == 1
    assert "did not pass the gate" in refused.stderr
    assert Path(re.findall(r"\S+/report\.html", refused.stderr)[0]).is_file()


@pytest.mark.timeout(900)
def test_served_vouchers_are_sessions_to_train_on(workspace: Path, tmp_path: Path) -> None:
    (tables,) = (workspace / "pipeline").glob("shadowprice-vouchers-*/prepare/tables")
    log = workspace / "served" / "replay-ledger"
    job = HarvestJob(
        tables=tables, workspace=workspace, log=log, harvested=tmp_path / "harvested", mature_hours=0, figures=None
    )
    assert run_here(job)["served rows"] > REQUESTS / 2
    before, after = (load_dataset(each).sessions.session for each in (tables, tmp_path / "harvested"))
    decisions = pd.concat(pd.read_parquet(each) for each in log.glob("decisions-*")).set_index("request_id")
    served = after[~after["session_id"].isin(before["session_id"])].set_index("session_id")
    assert len(after) == len(before) + len(served)
    own = decisions.loc[served.index]
    offers = json.loads((workspace / "campaign.json").read_text())["sides"]["customer"]["offers"]
    assert served["voucher_id"].tolist() == [offers[level] for level in own["level"]]
    assert served["user_id"].tolist() == own["account_id"].tolist()
    assert (served["discount"] == own["incentive"]).all()
    assert 0 < served["label"].mean() < 1
    assert (served["redeemed_at"].notna() == (served["label"] == 1)).all()
    training, new = tmp_path / "training", tmp_path / "workspace"
    new.mkdir()
    shutil.copy(workspace / "campaign.json", new)
    run_here(FeaturizeJob(tables=tmp_path / "harvested", training=training, workspace=new, keep_campaign=True))
    rows = TrainingSet.load(training).rows["customer"]
    assert set(served.index) <= set(rows["session_id"])


def stored(workspace: Path) -> Curves:
    campaign = read_campaign(workspace)
    head = load_bundle(workspace / "model", campaign).heads["customer"]
    embedding = np.stack(pd.read_parquet(workspace / "model" / EMBEDDINGS)["embedding"].to_numpy())
    return Curves(head.levels, head.response(embedding.astype(np.float32)))


@pytest.mark.timeout(900)
def test_the_predictor_loads_the_curves_of_offers_of_equal_amounts(workspace: Path) -> None:
    curves = stored(workspace)
    offers = json.loads((workspace / "model" / "model.json").read_text())["level_offers"]["customer"]
    assert len(offers) == curves.levels.size == 8
    assert np.all(np.diff(curves.levels) >= 0)
    assert curves.accounts > 50
    assert np.ptp(curves.response, axis=1).min() > 0, "people differ at every voucher"


@pytest.mark.timeout(900)
def test_the_published_price_is_that_of_the_same_solve_and_spends_the_budget(workspace: Path) -> None:
    curves = stored(workspace)
    record = PriceStore(workspace / "prices").latest("vouchers", verified_only=True)
    assert isinstance(record, PriceRecord)
    assert record.status == "optimal"
    assert abs(record.gap) <= 1e-6
    assert record.violation <= 1e-9
    asked = Traffic.load(workspace).accounts["customer"]
    activity = pd.Series(asked.activity, asked.account_id)
    accounts = pd.read_parquet(workspace / "model" / EMBEDDINGS)["account_id"]
    times = activity.reindex(accounts).fillna(0).to_numpy(dtype=np.int64)
    assert times.sum() == asked.activity.sum()
    # An account that asked twice counts twice.
    response = np.repeat(curves.response, times, axis=1)
    limit = BUDGET * times.sum() / REQUESTS
    again = solve(Problem(response, [Resource.total("budget", on_response(curves.levels), limit)]))
    assert record.prices["budget"] == pytest.approx(again.prices[0], rel=1e-5)
    cost = curves.levels[:, None] * response
    chosen = decide(response, cost, again.prices, again.tie_share, [f"r{i}" for i in range(times.sum())]).level
    assert float(cost[chosen, np.arange(times.sum())].sum()) == pytest.approx(limit, rel=0.05)


@pytest.mark.timeout(900)
def test_the_service_gives_every_person_the_voucher_that_is_best_at_the_price(workspace: Path, tmp_path: Path) -> None:
    """Over HTTP, against argmax response − λ·discount·response worked out from the stored file alone."""
    stored = pd.read_parquet(workspace / "model" / EMBEDDINGS)
    description = json.loads((workspace / "model" / "model.json").read_text())
    discount = np.array(description["sides"]["customer"]["levels"], dtype=np.float64)
    price = PriceStore(workspace / "prices").latest("vouchers")
    assert price is not None
    response = np.stack(stored["embedding"].to_numpy())[:, : discount.size].astype(np.float64)
    assert price.prices["budget"] > 0, "or the budget does not bind"
    score = response * (1.0 - price.prices["budget"] * discount)
    best, second = np.sort(score, axis=1)[:, [-1, -2]].T
    clear = best - second > 1e-6
    assert clear.mean() > 0.9
    places = Deployment.of_run(workspace, workspace / "campaign.json")
    places = replace(places, logs_dir=tmp_path, ledger_db=tmp_path / "ledger.db", served_dir=tmp_path / "served")
    accounts = stored["account_id"].tolist()
    with launch(places) as services:
        rows = [{"request_id": f"r-{a}", "account_id": a, "side": "customer"} for a in accounts]
        reply = httpx.post(
            f"{services.predictor_url}/v1/models/vouchers:predict", json={"instances": rows}, timeout=60.0
        ).raise_for_status()
        again = httpx.post(
            f"{services.predictor_url}/v1/models/vouchers:predict", json={"instances": rows[:1]}, timeout=60.0
        ).json()
    answers = pd.DataFrame(reply.json()["predictions"])
    assert again["predictions"][0]["level"] == answers["level"][0]
    assert set(answers["reason"]) <= {"optimal", "tie"}
    np.testing.assert_array_equal(answers["level"][clear], score.argmax(axis=1)[clear])
    np.testing.assert_array_equal(answers["incentive"], discount[answers["level"]])
    offers = np.array(description["level_offers"]["customer"])
    np.testing.assert_array_equal(answers["offer_id"], offers[answers["level"]])
    own = response[np.arange(len(accounts)), answers["level"]]
    np.testing.assert_allclose(answers["response"], own, rtol=1e-5)
    np.testing.assert_allclose(answers["expected_cost"], own * discount[answers["level"]], rtol=1e-5)
    assert answers["level"].nunique() > 1


@pytest.mark.timeout(900)
def test_a_new_cart_changes_the_voucher_and_the_log_explains_it(workspace: Path, tmp_path: Path) -> None:
    """Over HTTP, against the torch model on a log that has these sessions."""
    tables = generate(seed=0, sessions=SESSIONS).tables
    before = tables.behaviour.query("phase == 'before'")["session_id"].drop_duplicates()
    carts = [cart_of(tables, name) for name in before.iloc[:40]]
    people = tables.session["user_id"].drop_duplicates().iloc[:12].repeat(len(carts)).tolist()
    log, frame = with_carts(tables, people, carts * 12)
    curves = load_sided(workspace / "model").curves(Inputs(sessions=log), {"customer": frame})["customer"]
    price = PriceStore(workspace / "prices").latest("vouchers")
    assert price is not None
    score = curves.response.astype(np.float64) * (1.0 - price.prices["budget"] * curves.levels[:, None])
    best, second = np.sort(score, axis=0)[[-1, -2]]
    chosen = np.where(best - second > 1e-5, score.argmax(axis=0), -1).reshape(12, len(carts))
    # Two carts of one person whose best vouchers differ clearly.
    row = next(row for row, own in enumerate(chosen) if np.unique(own[own >= 0]).size > 1)
    pair = [int(np.flatnonzero(chosen[row] == level)[0]) for level in np.unique(chosen[row][chosen[row] >= 0])[:2]]
    person, wanted = people[row * len(carts)], chosen[row, pair]
    response = curves.response[:, row * len(carts) + np.array(pair)]

    places = Deployment.of_run(workspace, workspace / "campaign.json")
    places = replace(places, logs_dir=tmp_path, ledger_db=tmp_path / "ledger.db", served_dir=tmp_path / "served")
    asked = {"account_id": person, "side": "customer"}
    rows = [asked | {"request_id": f"cart-{cart}", "session": carts[cart]} for cart in pair]
    with launch(places) as services, DecisionClient(services.predictor_url, "vouchers") as client:
        url = f"{services.predictor_url}/v1/models/vouchers"
        reply = httpx.post(f"{url}:predict", json={"instances": [*rows, asked | {"request_id": "bare"}]}, timeout=60.0)
        explained = httpx.post(f"{url}:explain", json={"instances": rows}, timeout=60.0).json()["explanations"]
        wrong = asked | {"request_id": "wrong", "session": [{**carts[0][0], "ts": "yesterday"}]}
        refused = httpx.post(f"{url}:predict", json={"instances": [wrong]}, timeout=60.0)
        by_v2 = client.decide(["v2"], [person], ["customer"], sessions=[carts[pair[1]]])
    assert refused.status_code == 400
    assert "session[0].ts" in refused.json()["error"]
    *answers, bare = reply.raise_for_status().json()["predictions"]
    assert [each["level"] for each in answers] == wanted.tolist()
    np.testing.assert_allclose([each["response"] for each in answers], response[wanted, [0, 1]], atol=1e-6)
    assert (by_v2.level[0], by_v2.response[0]) == (answers[1]["level"], answers[1]["response"])
    own = pd.read_parquet(workspace / "model" / EMBEDDINGS).set_index("account_id").loc[person, "embedding"]
    assert bare["response"] == pytest.approx(own[bare["level"]], rel=1e-7), "the stored curve decides without a session"
    for cart, found, curve in zip(pair, explained, response.T, strict=True):
        assert found["behaviors"] == len(carts[cart])
        np.testing.assert_allclose([each["response"] for each in found["levels"]], curve, atol=1e-6)

    decisions = pd.concat(pd.read_parquet(each) for each in (tmp_path / "served").rglob("decisions-*"))
    logged = decisions.set_index("request_id")["context"].loc[[f"cart-{cart}" for cart in pair]]
    again = Solver(workspace).curves("customer", np.array([person] * 2), context=context_columns(logged.tolist()))
    np.testing.assert_allclose(again.response, response, atol=1e-6)
    version = decisions["model_version"].iloc[0]
    for text, curve in zip(logged, response.T, strict=True):
        audited = Workspace(workspace).curve(version, "customer", person, text)
        np.testing.assert_allclose(audited, curve, atol=1e-6)

    (prepared,) = (workspace / "pipeline").glob("shadowprice-vouchers-*/prepare/tables")
    job = HarvestJob(
        tables=prepared, workspace=workspace, log=tmp_path / "served", harvested=tmp_path / "new", mature_hours=0
    )
    run_here(job)
    kept = load_dataset(tmp_path / "new").sessions.behaviour.set_index("session_id")
    for cart in pair:
        mine = kept.loc[[f"cart-{cart}"]].sort_values(["ts", "item_id"])
        assert mine["item_id"].tolist() == [each["item_id"] for each in json.loads(logged[f"cart-{cart}"])["session"]]
        assert set(mine["phase"]) == {"before"}


def test_bad_sessions_stop_the_first_step_with_row_and_column_and_nothing_is_written(tmp_path: Path) -> None:
    tables = generate(seed=0, sessions=40).tables
    wrong = tables.session.assign(discount=tables.session["discount"].where(tables.session.index != 7, -5))
    write_tables(SessionTables(wrong, tables.behaviour), tmp_path / "data")
    given = {"dataset": "vouchers", "data": str(tmp_path / "data"), "options": {"test_from": "2026-02-20T00:00Z"}}
    with pytest.raises(InvalidTable, match=r"(?s)session.*discount.*7"):
        run_here(PrepareJob(tables=tmp_path / "tables", **given))
    assert not (tmp_path / "tables").exists()


def test_curves_are_calibrated_where_held_out_sessions_show_an_error(tmp_path: Path) -> None:
    """A model whose responses are all too high: what is stored means what it says again, and keeps its order."""
    tables, training, out = tmp_path / "sessions", tmp_path / "training", tmp_path / "model"
    run_here(PrepareJob(dataset="vouchers", tables=tables, options={"sessions": 3000}))
    run_here(FeaturizeJob(tables=tables, training=training, workspace=tmp_path))
    figures = tmp_path / "figures"
    run_here(TrainJob(training=training, model=out, figures=figures, recipe="lr", epochs=1))
    assert json.loads(figures.read_text()) == {}
    data, trained = TrainingSet.load(training), load_sided(out)
    inner = trained.unrepaired()
    assert isinstance(inner, SeparateModels)
    inner.models["customer"].intercept = inner.models["customer"].intercept + 1.5
    repaired = repair(inner, data, "pooled")
    assert isinstance(repaired, RepairedModel)
    assert repaired.repairs["customer"].repair.notes["kept"]
    test = data.part("test")["customer"]
    at = test["level"].to_numpy(), np.arange(len(test))
    wrong, found = (each.curves(data.inputs, {"customer": test})["customer"].response[at] for each in (inner, repaired))
    truth = test["response"].mean()
    assert abs(found.mean() - truth) < 0.01 < 0.1 < wrong.mean() - truth


def test_everybody_is_served_the_curve_of_their_latest_session(tmp_path: Path) -> None:
    """Worked out from the session table alone."""
    run_here(PrepareJob(dataset="vouchers", tables=tmp_path / "sessions", options={"sessions": 400}))
    run_here(FeaturizeJob(tables=tmp_path / "sessions", training=tmp_path / "training", workspace=tmp_path))
    data = TrainingSet.load(tmp_path / "training")
    session = generate(seed=0, sessions=400).tables.session
    latest = session.sort_values("collected_at").groupby("user_id")["session_id"].last()
    served = data.serving["customer"].set_index("account_id")["session_id"]
    assert served.astype(str).to_dict() == latest.to_dict()
    assert data.inputs.about == "sessions"
    parts = data.rows["customer"].set_index("session_id")["split"]
    test_from = pd.Timestamp(load_dataset(tmp_path / "sessions").split.test_from)
    late = session.loc[session["collected_at"] >= test_from, "session_id"]
    assert set(parts.index[parts == "test"]) == set(late)
    known = session.set_index("session_id")["expires_at"]
    assert (known[parts.index[parts == "train"]] <= test_from).all()


@pytest.mark.timeout(900)
def test_the_online_store_gives_the_stored_curves_back(workspace: Path) -> None:
    accounts = pd.read_parquet(workspace / "model" / EMBEDDINGS)["account_id"].to_numpy(dtype=str)
    found = Solver(workspace).curves("customer", np.append(accounts, "nobody"))
    expected = stored(workspace).response
    np.testing.assert_allclose(found.response[:, :-1], expected, atol=1e-7)
    np.testing.assert_allclose(found.response[:, -1], expected.mean(axis=1), atol=1e-5)


def first_price(folder: Path, data: Path, **options: Any) -> PriceRecord:
    """The price after the steps of the pipeline on sessions in files, by a model that a second fits."""
    tables, training, model = folder / "tables", folder / "training", folder / "model"
    run_here(PrepareJob(dataset="vouchers", data=str(data), tables=tables, options=options))
    run_here(FeaturizeJob(tables=tables, training=training, workspace=folder))
    run_here(TrainJob(training=training, model=model, recipe="lr", epochs=1))
    run_here(RegisterJob(model=model, workspace=folder))
    run_here(MeasureJob(state=folder / "state.json", workspace=folder))
    run_here(SolveJob(state=folder / "state.json", price=folder / "price", workspace=folder))
    run_here(PublishJob(price=folder / "price", workspace=folder))
    record = PriceStore(folder / "prices").latest("vouchers", verified_only=True)
    assert record is not None
    return record


def test_a_companys_own_files_give_the_price_of_the_same_sessions_as_tables(tmp_path: Path) -> None:
    """CSV files with other names, currency and zones; and a budget too small names the least one that does."""
    tables = generate(seed=0, sessions=600).tables
    mapping = write_company(tmp_path / "company", tables)
    described = mapping.read_text().replace("fruehling", "vouchers")
    mapping.write_text(described.replace("2080.00", "800.00").replace("'2000'", "'800'"))
    known = tables.session.assign(label=pd.NA, campaign=None)
    write_tables(SessionTables(known, tables.behaviour), tmp_path / "folder")
    own = first_price(tmp_path / "own", mapping)
    wanted = first_price(tmp_path / "wanted", tmp_path / "folder", budget=80_000, requests=800)
    assert own.prices["budget"] > 0
    assert own.prices == wanted.prices
    assert (own.status, own.gap, own.tie_share) == (wanted.status, wanted.gap, wanted.tie_share)
    with pytest.raises(NotCertified, match="least feasible budget is") as refused:
        first_price(tmp_path / "small", mapping, budget=10)
    least = int(str(refused.value).split("least feasible budget is ")[1].split()[0])
    assert 10 < least < 80_000
    assert first_price(tmp_path / "least", mapping, budget=least).status == "optimal"


@pytest.mark.timeout(900)
def test_a_company_is_paced_for_a_week_from_its_files_on(tmp_path: Path, look_at: Any) -> None:
    """Files by a mapping, seven days through the services, pages in a browser, and the value by the known truth."""
    pages = ("", *(f"campaigns/fruehling{page}" for page in ("", "/mix", "/curves", "/budget?budget=1300", "/changes")))

    def look(services: Services) -> None:
        (page,) = tmp_path.glob("run/pipeline/*/evaluate/page")
        file = shutil.copy(page, tmp_path / "page.html").as_uri()
        look_at(*pages, "campaigns/fruehling/requests?request_id=week-0-customer-00-000000", file)(services)

    week = play_vouchers(tmp_path, sessions=4000, requests=1500, epochs=8, every=6.0, look=look)
    outcomes, limit, totals = week.played.outcomes, week.campaign.budget.limit, week.totals
    # To the unit: the ledger's sums are those of the outcomes, nothing is held, and the hard stop was not passed.
    assert totals["spent"] == outcomes.cost.sum() <= limit
    assert (totals["outstanding"], totals["money_left"]) == (0, limit - totals["spent"])
    assert totals["spent"] > 0.97 * limit
    assert len(week.played.prices) > 20
    days = np.bincount((outcomes.at // 24).astype(int), outcomes.cost, 7)
    assert (days > 0.5 * limit / 7).all()
    rivals = voucher_rivals(week)
    assert week.over(rivals["random"]).low > 0
    assert week.over(rivals["lp"]).low > -0.2 * rivals["lp"].sum()
    assert week.over(rivals["random"]).value > 0.7 * float((rivals["lp"] - rivals["random"]).sum())
