"""The main job, end to end with the real parts: what its users were promised."""

import json
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree

import numpy as np
import pandas as pd
import pytest
from looking import LOOKS, browser, faults, show
from markupsafe import escape
from PIL import Image

from feature_repo.store import open_store
from operations.common.solver import Solver
from operations.common.workspace import CAMPAIGN, LIFT, REPLAY_LEDGER, REPLAY_PRICES, read_campaign
from operations.lift import LiftJob
from operations.lift import run as run_lift
from serving.client.client import Correction, DecisionClient, LedgerClient, Outcome
from serving.local.launch import Deployment, free_port, launch, start_console, start_ledger
from shadowprice.arms import Arm, Experiment
from shadowprice.campaign import SIDES
from shadowprice.decision import decide
from shadowprice.learning.bundle import EMBEDDINGS
from shadowprice.pacing.decision_log.served import read_parts
from shadowprice.pacing.replay.day import Day
from shadowprice.pacing.replay.ledger import SimulatedLedger
from shadowprice.pacing.replay.outcomes import NamedCurves
from shadowprice.pacing.replay.policies import PricedPolicy
from shadowprice.price import PriceRecord
from shadowprice.reports.stored import rewrite_report
from shadowprice.reports.wording import number

pytestmark = pytest.mark.timeout(1500)

SHOTS = os.environ.get("SHADOWPRICE_SCREENSHOTS", "")
"""Folder that gets the pictures of the docs; empty: none are taken."""
PICTURES = {
    ("summary.html", 1400, "light"): "summary",
    ("report.html", 1400, "light"): "report who-got-what",
    ("world", 1400, "light"): "console",
    ("world", 1400, "dark"): "console-spend",
    ("mix", 1400, "light"): "console-mix",
    ("curves", 1400, "light"): "console-curves",
    ("budget", 1400, "dark"): "console-budget",
    ("changes", 1400, "light"): "console-changes",
    ("arms", 390, "light"): "console-arms",
    ("requests", 390, "dark"): "console-request",
}
"""Page, width and look → names of its pictures."""
FIGURES = {"console-spend": "figure", "who-got-what": "figure:has([aria-label^='Who got what'])"}
"""Picture of a figure alone → its selector."""
KEYS = {
    "dataset",
    "rows",
    "accounts",
    "edges",
    "metrics",
    "solve",
    "serve",
    "pacing",
    "worth",
    "simulated",
    "seconds",
    "versions",
}


def test_the_run_leaves_what_the_contract_names(world) -> None:
    folder, summary = world
    assert set(summary) >= KEYS
    assert set(summary["solve"]) == {"status", "primal", "dual", "gap", "violation", "seconds", "prices"}
    assert set(summary["serve"]) >= {"requests", "errors", "p50_ms", "p99_ms", "throughput_rps"}
    assert summary["simulated"] is True
    assert (folder / "pipeline").is_dir()
    opening = PriceRecord.from_json((folder / "price.json").read_text())
    assert (opening.version, opening.slot, opening.spent) == (1, -1, 0)
    assert summary["solve"]["prices"] == opening.prices
    assert [path.stem for path in (folder / "prices" / "world").glob("*.json")] == [f"{1:010d}"]
    replayed = list((folder / REPLAY_PRICES / "world").glob("*.json"))
    assert len(replayed) == summary["pacing"]["price_updates"] + 1
    assert "simulated" in (folder / "report.html").read_text()


def test_the_report_is_written_again_from_its_figures(world, tmp_path: Path) -> None:
    page = rewrite_report(world[0], tmp_path / "again.html")
    assert page.read_text() == (world[0] / "report.html").read_text()


def test_the_model_beats_a_coin_and_is_calibrated(world) -> None:
    customer = world[1]["metrics"]["customer"]
    assert customer["auc"]["low"] > 0.7
    assert customer["ece"]["value"] < 0.03
    assert customer["rpr"]["value"] == 0


def test_the_day_ends_within_half_a_percent_of_the_budget_and_never_far_above(world) -> None:
    pacing = world[1]["pacing"]
    assert abs(pacing["spend"] / pacing["budget"] - 1) < 0.005
    assert pacing["overspend"] <= pacing["largest_hourly_forecast_error"]
    assert pacing["hours"] == 24
    # Every hour, and every five minutes of the last, where a step may find too little left to solve.
    assert 24 < pacing["price_updates"] <= 24 + 11


def test_the_value_is_near_the_hindsight_optimum_with_the_true_curves(world) -> None:
    pacing = world[1]["pacing"]
    assert pacing["value"] >= 0.98 * pacing["value_hindsight"]


def test_the_value_is_reported_above_the_lowest_level_and_above_the_best_flat_mixture(world) -> None:
    pacing = world[1]["pacing"]
    lowest = pacing["value_lowest"]
    assert pacing["incremental_value"] == pytest.approx(pacing["value"] - lowest)
    assert pacing["incremental_value_flat"] == pytest.approx(pacing["value_flat"] - lowest)
    assert pacing["incremental_value_hindsight"] == pytest.approx(pacing["value_hindsight"] - lowest)
    assert 0 < lowest < pacing["value_flat"] < pacing["value_hindsight"]
    gain = (pacing["value"] - pacing["value_flat"]) / (pacing["value_hindsight"] - pacing["value_flat"])
    assert pacing["attainable_share"] == pytest.approx(gain)


def test_the_measured_gain_covers_the_known_truth_and_one_hindsight_number_stands_everywhere(world) -> None:
    folder, summary = world
    pacing = summary["pacing"]
    lowest, flat = pacing["measured"]["lowest"], pacing["measured"]["flat"]
    # One day, so three times the half width of a 95 % interval.
    for found, truth in (
        (lowest, pacing["incremental_value"]),
        (flat, pacing["incremental_value"] - pacing["incremental_value_flat"]),
    ):
        half = found["responses"]["high"] - found["responses"]["value"]
        assert abs(found["responses"]["value"] - truth) < 3 * half
    assert set(lowest["sides"]) == set(SIDES)
    assert sum(side["cost"]["value"] for side in lowest["sides"].values()) == pytest.approx(lowest["cost"]["value"])
    assert abs(flat["cost"]["value"]) < 1e-3 * pacing["spend"] + 3 * (flat["cost"]["high"] - flat["cost"]["value"])
    share = pacing["incremental_value"] / pacing["incremental_value_hindsight"]
    assert pacing["incremental_share"] == pytest.approx(share)
    page = (folder / "report.html").read_text()
    assert f"{100 * share:.1f} %" in page
    assert f"{number(pacing['incremental_value_hindsight'])}</td>" in page


def test_the_headline_is_the_worth_by_rows_that_no_model_had_learned_from_and_covers_the_known_truth(world) -> None:
    found = world[1]["worth"]
    (now,) = (point for point in found["points"] if point["share"] == 1.0)
    # One run, so three times the half width of a 95 % interval.
    for difference, truth in (
        (now["lowest"], now["true_lowest"]),
        (now["flat"], now["true_flat"]),
        (found["flat"], found["true_flat"]),
    ):
        assert abs(difference["value"] - truth) < 3 * (difference["high"] - difference["value"])
    assert now["flat"]["low"] > 0
    assert now["cost"]["low"] < now["budget"] < now["cost"]["high"]
    # Two thirds of the accounts judge: 15 % of the test split, and 60 % of the others.
    assert found["accounts"]["customer"] == pytest.approx(0.66 * 6000, rel=0.03)
    assert found["stages"] == 3
    page = (world[0] / "report.html").read_text()
    assert page.index(str(escape(found["sentence"]))) < page.index("<section")


def test_the_sums_of_who_got_what_are_those_of_the_ledger_to_the_cent(world) -> None:
    folder, summary = world
    table = pd.read_csv(folder / "who_got_what.csv")
    with closing(sqlite3.connect(folder / REPLAY_LEDGER)) as ledger:
        level = "SELECT d.side, d.level, COUNT(*), SUM(o.cost) FROM decision d JOIN outcome o USING (request_id) "
        by_level = ledger.execute(level + "GROUP BY d.side, d.level").fetchall()
        totals = ledger.execute("SELECT side, outcomes, spent FROM settlement").fetchall()
    kept = table.fillna({"level": -1}).groupby(["side", "level"])[["requests", "paid_minor_units"]].sum()
    assert {(side, at): (count, paid) for side, at, count, paid in by_level} == {
        key: tuple(row) for key, row in zip(kept.index, kept.to_numpy().tolist(), strict=True)
    }
    sides = table.groupby("side")[["requests", "paid_minor_units"]].sum()
    assert {side: [count, paid] for side, count, paid in totals} == {
        side: sides.loc[side].tolist() for side, *_ in totals
    }
    assert table["paid_minor_units"].sum() == summary["pacing"]["spend"]


def test_a_static_price_does_visibly_worse_when_noon_doubles(world) -> None:
    shock = world[1]["shock"]
    assert shock["value_static"] < 0.96 * shock["value"]
    assert shock["overspend_static"] > 5 * shock["overspend"]


def test_every_price_is_certified(world) -> None:
    folder, _ = world
    files = sorted((folder / REPLAY_PRICES / "world").glob("*.json"))
    records = [PriceRecord.from_json(path.read_text()) for path in files]
    assert [record.version for record in records] == list(range(1, len(records) + 1))
    assert max(abs(record.gap) for record in records) <= 1e-6
    assert max(record.violation for record in records) <= 1e-9


def test_the_page_of_a_solve_is_an_output_of_its_step(world) -> None:
    pages = sorted((world[0] / "pipeline").glob("shadowprice-resolve-*/solve/summary"))
    assert pages
    assert "# Campaign world: price version " in pages[-1].read_text()
    assert "## The window so far" in pages[-1].read_text()


@pytest.fixture(scope="module")
def requests(world) -> Day:
    """Accounts of both sides, some of them without an embedding, half of which have a profile in the feature store."""
    folder, _ = world
    known = pd.read_parquet(folder / "model" / EMBEDDINGS, columns=["account_id", "side"])
    some = known.sample(400, random_state=1)
    strangers = pd.DataFrame({"account_id": [f"stranger{k}" for k in range(40)], "side": ["customer", "merchant"] * 20})
    store = open_store(folder / "features")
    for side in SIDES:
        profiles = pd.read_parquet(folder / "features" / f"{side}_account.parquet").head(10)
        # A platform that opens an account tells its profile with Feast alone.
        names = strangers.loc[strangers["side"] == side, "account_id"].head(10).tolist()
        store.write_to_online_store(f"{side}_account", profiles.assign(**{f"{side}_id": names}))
    asked = pd.concat([some, strangers], ignore_index=True).sample(frac=1.0, random_state=2)
    names = np.array([f"same-{k:04d}" for k in range(len(asked))])
    at = np.linspace(0, 0.9, len(asked))
    return Day(names, asked["account_id"].to_numpy(str), asked["side"].to_numpy(str), at, 24)


def test_evaluator_simulator_and_service_decide_alike(world, requests: Day, tmp_path: Path) -> None:
    folder, _ = world
    solver = Solver(folder)
    for side in SIDES:
        new = np.array([f"stranger{k}" for k in range(40) if ("customer", "merchant")[k % 2] == side])
        curves = solver.curves(side, new).response
        assert len(np.unique(curves[:, :10], axis=1).T) == 10
        assert len(np.unique(curves[:, 10:], axis=1).T) == 1
    campaign, price = solver.campaign, solver.prices.latest(solver.campaign.name)
    assert price is not None
    by_rule = np.zeros(len(requests), dtype=int)
    model = {}
    for side in SIDES:
        rows = np.flatnonzero(requests.side == side)
        accounts = np.unique(requests.account_id[rows])
        model[side] = NamedCurves(accounts, solver.curves(side, accounts))
        # one request at a time, as an evaluator that reads a log would do it
        for row in rows:
            response = solver.curves(side, requests.account_id[[row]]).response
            by_rule[row] = decide(
                campaign.terms(side).value(response),
                campaign.net_cost(side, response),
                list(price.prices.values()),
                price.tie_share,
                [requests.request_id[row]],
            ).level[0]
    simulator = PricedPolicy(campaign, model, SimulatedLedger(campaign, {}), price=price)
    by_simulator = simulator(requests).level

    campaign_file = tmp_path / CAMPAIGN
    campaign_file.write_text(json.dumps(campaign.to_dict()))
    places = Deployment(
        campaign_file=campaign_file,
        model_dir=folder / "model",
        features_dir=folder / "features",
        prices_dir=folder / "prices",
        ledger_db=tmp_path / "ledger.db",
        logs_dir=tmp_path,
        served_dir=tmp_path / "served",
    )
    with launch(places) as services, DecisionClient(services.predictor_url, services.campaign) as client:
        answers = [
            client.decide(part.request_id.tolist(), part.account_id.tolist(), part.side.tolist())
            for part in requests.batches(37)
        ]
    by_service = np.concatenate([answer.level for answer in answers])
    reason = np.concatenate([answer.reason for answer in answers])
    np.testing.assert_array_equal(by_simulator, by_rule)
    np.testing.assert_array_equal(by_service, by_rule)
    assert np.unique(by_rule).size > 1
    assert (reason == "cold_start").sum() == 40


ARMS = (Arm(name="holdout", kind="holdout", share=3000), Arm(name="policy", kind="policy", share=7000))
CONSOLE = (
    *("", "campaigns/world", "campaigns/world/mix", "campaigns/world/arms", "campaigns/world/curves"),
    *("campaigns/world/budget?budget=900", "campaigns/world/changes", "campaigns/world/requests?request_id=live-0001"),
)


@pytest.fixture(scope="module")
def ended(world, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Console over a copy of the replayed day, as it ended."""
    folder = tmp_path_factory.mktemp("ended") / "run"
    copytree(world[0], folder, symlinks=True)
    places = Deployment.of_run(folder, folder / CAMPAIGN, ledger=REPLAY_LEDGER, prices=REPLAY_PRICES)
    ledger = start_ledger(places, free_port())
    shown = start_console(places, free_port(), ledger.url)
    try:
        ledger.wait_ready(60)
        shown.wait_ready(120)
        yield shown.url
    finally:
        shown.stop()
        ledger.stop()


@pytest.fixture(scope="module")
def console(world, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """Console over a copy of the replayed day, whose campaign goes on with two arms; and units of the lift."""
    folder = tmp_path_factory.mktemp("live") / "run"
    copytree(world[0], folder, symlinks=True)
    campaign_file = folder / CAMPAIGN
    campaign = read_campaign(folder)
    experiment = Experiment(arms=ARMS, salt="live")
    more = replace(campaign.budget, limit=2 * campaign.budget.limit)
    live = replace(campaign, experiment=experiment, budget=more, exploration=0.5)
    campaign_file.write_text(json.dumps(live.to_dict()))
    places = Deployment.of_run(folder, campaign_file, ledger=REPLAY_LEDGER, prices=REPLAY_PRICES)
    known = pd.read_parquet(folder / "model" / EMBEDDINGS, columns=["account_id", "side"])
    accounts = known.sample(4000, random_state=3)
    names = [f"live-{k:04d}" for k in range(len(accounts))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHADOWPRICE_LOG_SECONDS", "0.2")
        with (
            launch(places, console_port=free_port(), timeout=300) as services,
            DecisionClient(services.predictor_url, services.campaign) as client,
            LedgerClient(services.ledger_url) as ledger,
        ):
            luck = np.random.default_rng(0)
            for k in range(0, len(names), 1000):
                some, part = names[k : k + 1000], accounts[k : k + 1000]
                answers, now = (
                    client.decide(some, part["account_id"].tolist(), part["side"].tolist()),
                    datetime.now(UTC),
                )
                hits = (luck.random(len(some)) < answers.response).tolist()
                rows = zip(some, answers.incentive.tolist(), hits, strict=True)
                report = [
                    Outcome(request_id=name, cost=paid * hit, observed_at=now, redeemed=hit, response=float(hit))
                    for name, paid, hit in rows
                ]
                ledger.settle(report, "shop")
            refund = {"request_id": "live-0001", "event_id": "r1", "kind": "refund", "cost": 0, "redeemed": False}
            ledger.correct([Correction(**refund, observed_at=now, response=0.0)], "shop")
            wanted = ledger.totals()["requests"]
            deadline = time.monotonic() + 60
            while sum(len(part.decisions) for part in read_parts(places.served_dir)) < sum(wanted.values()):
                assert time.monotonic() < deadline
                time.sleep(0.5)
            files = {"result": folder / LIFT, "page": folder / "lift.md"}
            found = run_lift(LiftJob(log=places.served_dir, campaign=campaign_file, **files, mature_hours=0))
            yield services.console_url, found.lifts[0].units


def test_every_page_of_report_and_console_is_well_made_on_a_phone_and_a_desk_in_light_and_dark(
    world, console: tuple[str, int], ended: str, tool: Callable[[str], str]
) -> None:
    folder, (url, units) = world[0], console
    pages = [(folder / name).as_uri() for name in ("summary.html", "report.html")]
    # The day that ended comes last: the picture of its page is kept, and not that of the campaign that goes on.
    pages += [*(f"{url}/{path}" for path in CONSOLE), f"{ended}/campaigns/world"]
    texts = {}
    with browser(tool("chromium")) as opened:
        shown = opened.new_page()
        for address in pages:
            answer = shown.goto(address)
            assert answer is not None
            assert address.startswith("file:") or answer.status == 200, address
            texts[address.rpartition("/")[2]] = shown.inner_text("main")
            for width, look in LOOKS[:4]:
                show(shown, width, look)
                assert faults(shown) == [], (address, width, look)
                pictures = PICTURES.get((address.rpartition("/")[2].partition("?")[0], width, look), "")
                for picture in pictures.split() if SHOTS else ():
                    shown.evaluate("document.querySelectorAll('details').forEach(each => { each.open = false })")
                    path = Path(SHOTS, f"{picture}.png")
                    (shown.locator(FIGURES[picture]).first if picture in FIGURES else shown).screenshot(path=path)
                    Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)
    assert "These sums are those of the ledger" in texts["mix"]
    assert f"{units:,}" in texts["arms"]
    assert "As asked" in texts["budget?budget=900"]
    assert "anyone" in texts["changes"]
    assert "not recorded" not in texts["changes"]
    possible = 100 * world[1]["pacing"]["incremental_share"]
    assert f"{possible:.1f} %" in texts["report.html"]
    assert "in hindsight" not in texts["world"]
    for page in ("report.html", "world"):
        assert world[1]["worth"]["sentence"] in texts[page]
    assert "Curve and prices" in texts["requests?request_id=live-0001"]
    assert re.search(r"Diamonds are the [\d,]+ requests", texts["curves"])
