"""Serving a run: a window of its own with an opening price, a ledger without spend, and the policy in words."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree

import httpx
import numpy as np
import pytest
from bonus_trial import BUDGET, learned_flat

from operations.common.workspace import CAMPAIGN, instead_of, read_campaign
from operations.register import RegisterJob
from operations.register import run as register
from serving.client.client import DecisionClient, LedgerClient
from serving.ledger.sqlite.claim import Claim
from serving.local.launch import LEDGER, Deployment, free_port, launch
from serving.local.policy import policy_in_words, shares_in_words
from serving.local.window import EARLIER, open_window
from shadowprice.errors import Conflict, NotFound
from shadowprice.pacing.price_store import PriceStore

NOW = datetime.now(UTC).replace(second=0, microsecond=0)


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a trial of 2025 with a strong effect, whose policy is flat."""
    return learned_flat(tmp_path_factory.mktemp("learned"), accounts=1500, effect=8)


@pytest.fixture
def run(learned: Path, tmp_path: Path) -> Path:
    copytree(learned, tmp_path / "run", symlinks=True)
    return tmp_path / "run"


def test_the_window_of_a_past_campaign_begins_anew_with_the_price_of_the_whole_budget(run: Path) -> None:
    first = PriceStore(run / "prices").latest("bonus")
    assert first is not None
    assert open_window(run, NOW)
    campaign, found = read_campaign(run), PriceStore(run / "prices").latest("bonus")
    assert found is not None
    assert (campaign.starts_at, campaign.ends_at) == (NOW, NOW + timedelta(hours=24))
    assert (found.version, found.slot, found.window, found.spent) == (2, -1, NOW, 0)
    assert found.remaining == 100 * BUDGET
    assert found.prices == pytest.approx(first.prices, rel=1e-9)
    assert not open_window(run, NOW + timedelta(hours=1))
    assert PriceStore(run / "prices").versions("bonus") == [1, 2]


def test_the_ledger_of_a_window_that_is_over_is_put_aside_and_never_under_a_running_one(run: Path) -> None:
    open_window(run, NOW - timedelta(days=2))
    (run / LEDGER).write_text("of the first window")
    (run / "served" / "ledger").mkdir(parents=True)
    held = Claim(run / LEDGER)
    with pytest.raises(Conflict, match="another process"):
        open_window(run, NOW)
    assert read_campaign(run).starts_at == NOW - timedelta(days=2)
    held.close()
    assert open_window(run, NOW)
    assert not (run / LEDGER).exists()
    assert not (run / "served" / "ledger").exists()
    kept = run / EARLIER / f"{NOW - timedelta(days=2):%Y%m%dT%H%M}"
    assert (kept / LEDGER).read_text() == "of the first window"


def test_an_opening_price_that_expired_before_the_first_request_is_renewed(run: Path) -> None:
    open_window(run, NOW)
    assert not open_window(run, NOW + timedelta(hours=3))
    found = PriceStore(run / "prices").latest("bonus")
    assert found is not None
    assert (found.version, found.slot, found.window) == (3, -1, NOW)
    (run / LEDGER).write_text("somebody has asked")
    assert not open_window(run, NOW + timedelta(hours=3))
    assert PriceStore(run / "prices").versions("bonus") == [1, 2, 3]


def test_the_first_caller_is_answered_at_the_opening_price_and_the_console_shows_the_new_window(run: Path) -> None:
    open_window(run)
    places = Deployment.of_run(run, run / CAMPAIGN)
    with (
        launch(places, console_port=free_port()) as services,
        DecisionClient(services.predictor_url, "bonus") as client,
        LedgerClient(services.ledger_url) as ledger,
    ):
        names = [f"r{place}" for place in range(400)]
        accounts = [f"{100_000 + place}" for place in range(400)]
        answers = client.decide(names, accounts, ["customer"] * 400)
        page = httpx.get(f"{services.console_url}/campaigns/bonus", timeout=30).text
        assert ledger.totals()["net_spent"] == 0
    opening = PriceStore(run / "prices").latest("bonus")
    assert opening is not None
    assert opening.prices["bonuses"] > 0
    assert set(answers.price_version.tolist()) == {opening.version}
    assert "running" in page
    assert "ended" not in page
    # The tie share is the chance of the dearer of two levels; the budget covers seven of them.
    spent = answers.reason == "budget_exhausted"
    assert np.mean(spent | (answers.level > 0)) == pytest.approx(opening.tie_share, abs=0.06)
    assert answers.incentive.sum() <= 100 * BUDGET
    assert spent.any()
    assert (answers.level[spent] == 0).all()
    assert (answers.response[spent] > 0.3).all()


def test_a_flat_policy_is_told_in_words_and_why_it_is_served(run: Path, tmp_path: Path) -> None:
    chances = shares_in_words(run)
    assert chances.startswith("customers €0.00 ")
    assert policy_in_words(run) == ["the policy of the campaign is flat", f"whoever asks, the price gives {chances}"]
    # The same model, now in place of one that was refused.
    refused = tmp_path / "refused"
    refused.mkdir()
    (refused / "model.json").write_text(json.dumps({"model_version": "joint_gnn-1"}))
    bundle = run.parent / "bundle"
    copytree(run / "model", bundle)
    meta = json.loads((bundle / "model.json").read_text())
    (bundle / "model.json").write_text(json.dumps(meta | {"model_version": "flat-other"}))
    verdict = {"gate": {"passed": False, "checks": [], "override": None}}
    (refused / "evaluation.json").write_text(json.dumps(verdict))
    register(RegisterJob(model=bundle, workspace=run, instead_of=refused, refusal=refused / "evaluation.json"))
    assert instead_of(run, "flat-other") == {"model_version": "joint_gnn-1", "broken": []}
    assert "because the gate refused model joint_gnn-1" in policy_in_words(run)[0]


def test_where_the_log_shows_no_effect_everybody_gets_the_level_that_costs_nothing(tmp_path: Path) -> None:
    run = learned_flat(tmp_path, accounts=600, effect=0)
    assert shares_in_words(run) == "every customer €0.00, because no other level has an effect that the log shows"
    found = PriceStore(run / "prices").latest("bonus")
    assert found is not None
    assert (found.prices, found.plan[-1]) == ({"bonuses": 0.0}, 0.0)


def test_a_run_without_a_model_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="has no model to serve; `shadowprice run --resume` goes on"):
        policy_in_words(tmp_path)
    (tmp_path / "report.html").write_text("")
    with pytest.raises(NotFound, match=r"read .*report\.html"):
        policy_in_words(tmp_path)


def test_a_run_without_traffic_keeps_its_window(tmp_path: Path) -> None:
    assert not open_window(tmp_path, NOW)
