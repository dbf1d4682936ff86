"""What-if questions about a workspace: the stored population is what the price is solved on."""

import json
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from asked import LEVELS, make_head, make_workspace

from cli.main import main as cli
from operations.__main__ import main
from operations.common.solver import Solver
from operations.common.workspace import CAMPAIGN, MODEL, POPULATION
from operations.measure import before_start
from operations.questions.question import open_what_if
from operations.whatif import WhatifJob, run
from shadowprice.campaign import Budget, Campaign, Segment, Side, Terms
from shadowprice.errors import InvalidInput
from shadowprice.learning.bundle import POSTERIOR
from shadowprice.pacing.history import Traffic, traffic_file
from shadowprice.pacing.population import read_population
from shadowprice.pacing.questions import Change
from shadowprice.pacing.resolve import CampaignState
from shadowprice.responses.layers.heads import Head
from shadowprice.responses.posterior import CurvePosterior


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model, population, traffic and campaign, and a table of groups."""
    return make_workspace(tmp_path_factory.mktemp("workspace"))


def test_the_current_terms_get_the_price_that_the_solve_job_would_publish(workspace: Path, tmp_path: Path) -> None:
    found = run(WhatifJob(workspace=workspace, answer=tmp_path / "answer.json", rows=0))
    campaign = Campaign.from_dict(json.loads((workspace / CAMPAIGN).read_text()))
    heads: dict[Side, Head] = {side: make_head(levels, at) for at, (side, levels) in enumerate(LEVELS.items())}
    stored = read_population(workspace / POPULATION / "m1", heads)
    state = before_start(campaign, Traffic.load(workspace))
    wanted = CampaignState(
        campaign=campaign,
        at=state.at,
        slot_and_step=(-1, 0),
        spend=state.spend,
        remaining=state.remaining,
        curves=lambda: {side: each.curves for side, each in stored.items()},
        newest=None,
        version=1,
        model_version="m1",
        now=datetime.now(UTC),
    )
    record = wanted.solve().record
    assert found["current"]["price"]["value"] == pytest.approx(record.prices["day"], rel=1e-9)
    assert found["current"]["value"]["value"] == pytest.approx(record.primal, rel=1e-9)
    assert found == json.loads((tmp_path / "answer.json").read_text())
    curve = pd.DataFrame(found["curve"])
    assert (curve["share"].min(), curve["share"].max()) == (0.5, 2.0)
    value = np.array([each["value"] for each in curve["value"]])
    assert (np.diff(value) > 0).all()
    now = curve[curve["share"] == 1.0].iloc[0]
    assert now["value"] == found["current"]["value"]
    # Of a concave curve, the slope between two budgets lies between their prices.
    price = np.array([each["value"] for each in curve["price"]])
    slope = np.diff(value) / np.diff(curve["budget"])
    assert (slope <= price[:-1] * (1 + 1e-9)).all()
    assert (slope >= price[1:] * (1 - 1e-9)).all()


FURTHER = {
    "a group and rules": {
        "limits": {
            "budgets": [{"name": "north", "limit": 9000, "where": "account.c_region == 'north'", "side": "customer"}]
        },
        "rules": [
            {"name": "south", "expression": "account.c_region == 'south' && offer.incentive > 100", "side": "customer"}
        ],
    },
    "hours, partners and caps": {
        "limits": {
            "budgets": [{"name": "rush", "limit": 100, "period": "hour", "partners": ["m1"]}],
            "caps": [{"name": "one", "per": "partner", "amount": 12_000}],
        }
    },
}


@pytest.mark.parametrize("further", FURTHER)
def test_further_budgets_rules_and_caps_of_the_campaign_are_those_of_the_solve(
    workspace: Path, tmp_path: Path, further: str
) -> None:
    own = shutil.copytree(workspace, tmp_path / "own")
    for side, other in (("customer", "merchant"), ("merchant", "customer")):
        pairs = {
            f"{name}_id": [f"{of[0]}{i % n}" for i in range(2000)]
            for name, of, n in (("account", side, 1500), ("partner", other, 7))
        }
        pd.DataFrame(pairs | {"activity": 1.0}).to_parquet(own / traffic_file(side, "pairs"), index=False)
    given = json.loads((workspace / CAMPAIGN).read_text()) | FURTHER[further]
    state = before_start(Campaign.from_dict(given), Traffic.load(own))
    for budget in (150_000, 75_000):
        (own / CAMPAIGN).write_text(json.dumps(given | {"budget": {"name": "day", "limit": budget}}))
        solved = Solver(own).solve(state).record
        asked = open_what_if(own, rows=0).solver
        began = time.process_time()
        found, less = asked.ask(), asked.ask(Change(budget=75_000))
        assert time.process_time() - began < 2
        assert found.prices == pytest.approx(solved.prices, rel=1e-9)
        assert found.value.value == pytest.approx(solved.primal, rel=1e-9)
        assert all(price > 0 for price in solved.prices.values())
    assert less.prices == found.prices
    # The rest of the window, after some of each limit is used.
    used = {each.name: int(each.limit // 3) for each in Campaign.from_dict(given).group_budgets}
    spend = replace(state.spend, spent=20_000, used_of=used, requests=dict.fromkeys(LEVELS, 700))
    later = replace(state, at=5.0, spend=spend, remaining={side: each[5:] for side, each in state.remaining.items()})
    later.save(tmp_path / "state.json")
    rest = open_what_if(own, tmp_path / "state.json", rows=0).solver.ask()
    assert rest.prices == pytest.approx(Solver(own).solve(later).record.prices, rel=1e-9)
    assert rest.prices != found.prices


def test_what_is_spent_and_held_already_is_not_spent_again(workspace: Path, tmp_path: Path) -> None:
    campaign = Campaign.from_dict(json.loads((workspace / CAMPAIGN).read_text()))
    state = before_start(campaign, Traffic.load(workspace))
    spend = replace(state.spend, spent=60_000, outstanding={"customer": 10_000})
    replace(state, at=5.0, spend=spend).save(tmp_path / "state.json")
    rest = run(WhatifJob(workspace=workspace, answer=tmp_path / "a", state=tmp_path / "state.json", rows=0))
    less = run(WhatifJob(workspace=workspace, answer=tmp_path / "b", budget=80_000, rows=0))
    assert rest["current"]["spend"]["value"] == pytest.approx(80_000)
    assert rest["current"]["price"]["value"] == pytest.approx(less["asked"]["price"]["value"], rel=1e-9)


def test_a_question_on_the_command_line_has_limits_on_sides_and_groups_and_caps(
    workspace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--workspace", str(workspace), "--answer", str(tmp_path / "answer.json"), "--rows", "2000"]
    asked += ["--groups", str(workspace / "regions.parquet"), "--limits", '{"north": 4000, "merchant": 30000}']
    asked += ["--levels", '{"customer": [0, 100, 200]}', "--caps", '{"merchant": 500}']
    assert main(["whatif", *asked]) == 0, capsys.readouterr().err
    answer = json.loads((tmp_path / "answer.json").read_text())["asked"]
    assert list(answer["prices"]) == ["day", "north", "merchant"]
    assert answer["prices"]["north"] > 0
    assert answer["rows"] == 2000
    assert answer["seconds"] < 1
    assert answer["value"]["low"] < answer["value"]["value"] < answer["value"]["high"]
    of_condition = json.dumps({"account.c_region == 'north'": 4000, "merchant": 30000})
    assert main(["whatif", *asked[:6], "--limits", of_condition, *asked[10:]]) == 0, capsys.readouterr().err
    same = json.loads((tmp_path / "answer.json").read_text())["asked"]
    assert list(same["prices"].values()) == list(answer["prices"].values())
    # Programs that write tables make whole numbers floats.
    numbered = pd.read_parquet(workspace / "regions.parquet").assign(group=7.0)
    numbered.to_parquet(tmp_path / "numbered.parquet")
    of_number = ["--groups", str(tmp_path / "numbered.parquet"), "--limits", '{"7": 4000, "merchant": 30000}']
    assert main(["whatif", *asked[:6], *of_number, *asked[10:]]) == 0, capsys.readouterr().err
    same = json.loads((tmp_path / "answer.json").read_text())["asked"]
    assert list(same["prices"].values()) == list(answer["prices"].values())
    assert main(["whatif", *asked[:6], "--limits", "{\"account.c_town == 'x'\": 5}"]) == 1
    assert "have no column 'c_town'" in capsys.readouterr().err
    assert main(["whatif", *asked[:6], "--limits", '{"nowhere": 5}']) == 1
    assert "neither a side nor in a table of groups" in capsys.readouterr().err
    assert main(["whatif", *asked[:8], "--limits", '{"nowhere": 5}']) == 1
    assert "no account of the model is in group" in capsys.readouterr().err


def test_a_model_that_knows_its_errors_answers_with_them_and_says_whether_money_pays(
    workspace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    doubtful = tmp_path / "doubtful"
    shutil.copytree(workspace, doubtful)
    law = CurvePosterior(np.array([0.0, -0.1, 0.0, -0.3]), np.diag([1e-5, 0.02, 0.02, 0.05])).to_dict()
    meta = json.loads((doubtful / MODEL / "model.json").read_text()) | {POSTERIOR: dict.fromkeys(LEVELS, law)}
    (doubtful / MODEL / "model.json").write_text(json.dumps(meta))
    terms = json.loads((doubtful / CAMPAIGN).read_text()) | {"objective": "margin"}
    for side in terms["sides"].values():
        side["weight"] = 400.0
    (doubtful / CAMPAIGN).write_text(json.dumps(terms))
    found = run(WhatifJob(workspace=doubtful, answer=tmp_path / "answer.json", budget=40_000, rows=500))
    assert found == json.loads((tmp_path / "answer.json").read_text())
    for answer in (found["current"], found["asked"], *found["curve"]):
        believed = answer["believed"]
        assert believed["added"]["value"] == answer["added"]["value"]
        # The sample's error is a part of the whole one.
        assert believed["added"]["high"] - believed["added"]["low"] > answer["added"]["high"] - answer["added"]["low"]
    pays = [point["believed"]["pays"] for point in found["curve"]]
    assert 0 <= min(pays) < max(pays) <= 1
    assert cli(["whatif", str(doubtful), "--rows", "500"]) == 0
    shown = capsys.readouterr().out
    assert "With the errors of the curves" in shown
    assert "Probability that one more $1 pays: " in shown
    # Without the law only the error of the sample is known.
    assert "believed" not in run(WhatifJob(workspace=workspace, answer=tmp_path / "plain.json", rows=500))["current"]


def test_a_delivery_has_no_budget_to_ask_about(workspace: Path, tmp_path: Path) -> None:
    segments = tuple(Segment(name=f"fund{k}", demand=10) for k in range(2))
    campaign = Campaign(
        name="funds",
        sides={"customer": Terms(levels=(0, 1), cost_basis="on_grant", segments=segments)},
        budget=Budget(limit=0),
        starts_at=datetime.now(UTC),
    )
    (tmp_path / CAMPAIGN).write_text(json.dumps(campaign.to_dict()))
    for asked in ({"budget": 100.0}, {"least_return": 1.5}):
        with pytest.raises(InvalidInput, match="delivery"):
            run(WhatifJob(workspace=tmp_path, answer=tmp_path / "answer.json", **asked))
