"""The measure step against a real ledger: what an hourly re-solve is based on."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import numpy as np
import pytest

from operations.common.ledger_reads import read_traffic
from operations.common.ledger_tokens import TOKEN_TEXT, TOKEN_VARIABLE
from operations.common.workspace import CAMPAIGN
from operations.measure import MeasureJob, run
from serving.local.launch import Deployment, Service, free_port, start_ledger
from shadowprice import progress
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.errors import InvalidInput, NotCertified, Unavailable
from shadowprice.groups import hashes
from shadowprice.limits import Cap, GroupBudget, Limits
from shadowprice.pacing.forecast import Profile
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.pacers import BEFORE, make_pacer, scheduled_slot
from shadowprice.pacing.replay.day import Accounts
from shadowprice.pacing.state import PricingState

HOUR = timedelta(hours=1)
SECRET = "s" * 20
ITEM = {
    "side": "customer",
    "level": 1,
    "incentive": 20,
    "response": 0.5,
    "expected_cost": 10.0,
    "propensity": 1.0,
    "propensities": [0.0, 1.0],
    "reason": "optimal",
}


def measure(workspace: Path, out: Path, ledger_url: str, metrics_urls: list[str], prometheus_url: str) -> None:
    places = {"workspace": workspace, "state": out, "ledger_url": ledger_url}
    run(MeasureJob(**places, metrics_urls=tuple(metrics_urls), prometheus_url=prometheus_url))


@pytest.fixture(params=[0, 5], ids=["on the hour", "not on a quarter"])
def workspace(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A campaign whose window opened two hours ago, and its ordinary traffic."""
    starts = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 2 * HOUR - timedelta(minutes=request.param)
    campaign = Campaign(
        name="live",
        sides={"customer": Terms(levels=(10, 20))},
        budget=Budget(name="day", limit=100_000),
        starts_at=starts,
        hours=24,
    )
    (tmp_path / CAMPAIGN).write_text(json.dumps(campaign.to_dict()))
    accounts = Accounts(np.array(["past1", "past2"]), np.ones(2))
    Traffic({"customer": Profile(np.ones(24), 240.0)}, {"customer": accounts}).save(tmp_path)
    return tmp_path


def test_before_the_first_request_nothing_is_spent_and_nobody_asked(workspace: Path) -> None:
    measure(workspace, workspace / "state.json", "", [], "")
    state = PricingState.load(workspace / "state.json")
    assert (state.at, state.spend.spent) == (-1, 0)
    assert state.remaining["customer"].sum() == pytest.approx(240)
    assert state.accounts == {}


def test_a_long_measure_shows_its_progress(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.0001)
    # A measure this short may end before the thread that shows the progress has had a turn.
    shown = ""
    for _ in range(100):
        measure(workspace, workspace / "state.json", "", [], "")
        if shown := capsys.readouterr().err:
            break
    assert "measure: " in shown.splitlines()[-1]


def test_spend_and_traffic_of_the_running_ledger_are_what_the_solve_sees(workspace: Path) -> None:
    places = replace(Deployment.of_run(workspace, workspace / CAMPAIGN), logs_dir=workspace)
    ledger = start_ledger(places, free_port())
    try:
        ledger.wait_ready(60)
        items = {name: [value] * 30 for name, value in {"account_id": "new", **ITEM}.items()} | {
            "request_id": [f"r{k}" for k in range(30)]
        }
        body = {"campaign": "live", "model_version": "m", "price_version": 1, "items": items}
        answered = httpx.post(f"{ledger.url}/v1/authorizations", json=body)
        assert answered.status_code == 200, answered.text
        events = [
            {
                "specversion": "1.0",
                "type": "shadowprice.outcome",
                "source": "test",
                "id": f"r{k}",
                "data": {
                    "request_id": f"r{k}",
                    "redeemed": True,
                    "cost": 20,
                    "observed_at": datetime.now(UTC).isoformat(),
                },
            }
            for k in range(7)
        ]
        headers = {"content-type": "application/cloudevents-batch+json"}
        settled = httpx.post(f"{ledger.url}/v1/outcomes", content=json.dumps(events), headers=headers)
        assert settled.status_code < 300, settled.text
        measure(workspace, workspace / "state.json", ledger.url, [], "")
    finally:
        ledger.stop()
    state = PricingState.load(workspace / "state.json")
    assert 2 <= state.at < 3.1
    assert state.spend.spent == 140
    assert state.spend.requests["customer"] == 30
    assert state.spend.responses["customer"] == 7
    assert (state.accounts["customer"] == "new").sum() == 30
    # Two silent hours where ten requests each were expected, then thirty in part of one: the hour in progress counts.
    ahead = state.remaining["customer"]
    assert ahead.size == 24 - int(state.at)
    assert 0 < ahead.sum() < 3 * 10 * ahead.size


def test_the_use_of_caps_and_shared_budgets_is_measured_with_that_of_the_campaigns_that_share_them(
    workspace: Path,
) -> None:
    folder, names = workspace / "campaigns", ("live", "other")
    caps = (
        Cap(name="either", per="account", exclusive=True, campaigns=names),
        Cap(name="shop", per="partner", count=5),
    )
    for name in names:
        own = Campaign.from_dict(json.loads((workspace / CAMPAIGN).read_text()))
        (folder / name).mkdir(parents=True)
        together = GroupBudget(name="together", limit=500, where='side == "customer"', campaigns=names)
        campaign = replace(own, name=name, limits=Limits(budgets=(together,), caps=caps))
        (folder / name / CAMPAIGN).write_text(json.dumps(campaign.to_dict()))
    Traffic.load(workspace).save(folder / "live")
    port = free_port()
    command = ["serving.ledger", "--campaigns", str(folder), "--db", str(workspace / "db"), "--port", str(port)]
    ledger = Service("ledger", command, port, "/readyz", workspace / "ledger.log")
    try:
        ledger.wait_ready(60)
        for campaign, asked in (("live", "ab"), ("other", "bcc"), ("live", "d")):
            columns = {
                "request_id": [f"{campaign}-{account}-{place}" for place, account in enumerate(asked)],
                "account_id": list(asked),
                "partner_id": ["p"] * len(asked),
                **{name: [value] * len(asked) for name, value in ITEM.items()},
                "groups": ["together"] * len(asked),
            }
            body = {"campaign": campaign, "model_version": "m", "price_version": 1, "items": columns}
            answered = httpx.post(f"{ledger.url}/v1/authorizations", json=body)
            assert answered.status_code == 200, answered.text
        measure(folder / "live", workspace / "state.json", ledger.url, [], "")
    finally:
        ledger.stop()
    use = PricingState.load(workspace / "state.json").spend.caps
    # Account b was of the first campaign when the second asked for it.
    expected = {"a": (20, 1, 0, 0), "b": (20, 1, 0, 0), "c": (0, 0, 40, 2), "d": (20, 1, 0, 0), "z": (0, 0, 0, 0)}
    np.testing.assert_array_equal(use["either"].at(hashes(list(expected))).T, list(expected.values()))
    np.testing.assert_array_equal(use["together"].at(hashes([""]))[:, 0], (60, 3, 40, 2))
    np.testing.assert_array_equal(use["shop"].at(hashes(["p"]))[:, 0], (60, 3, 0, 0))
    assert 0 < use["either"].hours < 0.1
    assert use["shop"].hours == 0


@pytest.mark.parametrize("content", [SECRET, json.dumps({"read": ["r" * 20, SECRET], "report": SECRET})])
def test_a_ledger_with_tokens_is_shown_the_one_for_reading(workspace: Path, content: str, monkeypatch) -> None:
    tokens = workspace / "tokens"
    tokens.write_text(content)
    monkeypatch.setenv(TOKEN_VARIABLE, str(tokens))
    ledger = start_ledger(replace(Deployment.of_run(workspace, workspace / CAMPAIGN), logs_dir=workspace), free_port())
    try:
        ledger.wait_ready(60)
        measure(workspace, workspace / "state.json", ledger.url, [], "")
        assert PricingState.load(workspace / "state.json").spend.spent == 0
        monkeypatch.delenv(TOKEN_VARIABLE)
        # A step of a pipeline has the text itself.
        monkeypatch.setenv(TOKEN_TEXT, content)
        measure(workspace, workspace / "state.json", ledger.url, [], "")
        monkeypatch.delenv(TOKEN_TEXT)
        with pytest.raises(Unavailable, match="401"):
            measure(workspace, workspace / "state.json", ledger.url, [], "")
    finally:
        ledger.stop()


def test_a_file_without_a_token_for_reading_is_told(tmp_path: Path, monkeypatch) -> None:
    since = datetime(2026, 3, 2, tzinfo=UTC)
    monkeypatch.setenv(TOKEN_VARIABLE, str(tmp_path / "tokens"))
    with pytest.raises(InvalidInput, match="cannot be read: FileNotFoundError"):
        read_traffic("http://127.0.0.1:9", "world", since)
    (tmp_path / "tokens").write_text(json.dumps({"report": SECRET}))
    with pytest.raises(Unavailable, match="no token of the role 'read'"):
        read_traffic("http://127.0.0.1:9", "world", since)


def test_before_the_window_a_running_ledger_is_measured_again_and_again(workspace: Path) -> None:
    campaign = json.loads((workspace / CAMPAIGN).read_text())
    campaign["starts_at"] = (datetime.now(UTC) + 20 * HOUR).isoformat()
    (workspace / CAMPAIGN).write_text(json.dumps(campaign))
    places = replace(Deployment.of_run(workspace, workspace / CAMPAIGN), logs_dir=workspace)
    ledger = start_ledger(places, free_port())
    try:
        ledger.wait_ready(60)
        measure(workspace, workspace / "state.json", ledger.url, [], "")
    finally:
        ledger.stop()
    state = PricingState.load(workspace / "state.json")
    assert state.at == pytest.approx(-20, abs=0.1)
    assert scheduled_slot(make_pacer("hourly").moments(24), state.at) == BEFORE
    assert state.remaining["customer"].size == 24
    assert state.remaining["customer"].sum() == pytest.approx(240)


def test_a_ledger_that_does_not_answer_and_a_window_that_is_over_are_told_apart(workspace: Path) -> None:
    with pytest.raises(Unavailable):
        measure(workspace, workspace / "state.json", "http://127.0.0.1:9", ["http://127.0.0.1:9/metrics"], "")
    campaign = json.loads((workspace / CAMPAIGN).read_text())
    campaign["starts_at"] = (datetime.now(UTC) - 30 * HOUR).isoformat()
    (workspace / CAMPAIGN).write_text(json.dumps(campaign))
    with pytest.raises(NotCertified, match="ended"):
        measure(workspace, workspace / "state.json", "http://127.0.0.1:9", ["http://127.0.0.1:9/metrics"], "")
    assert not (workspace / "state.json").exists()
