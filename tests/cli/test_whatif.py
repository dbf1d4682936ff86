"""``shadowprice whatif`` and ``plan`` print what the jobs answer."""

import json
import re
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from asked import make_workspace

import cli.main as command
from operations.common.workspace import CAMPAIGN, PRICES, read_campaign
from operations.plan import PlanJob
from operations.plan import run as run_plan
from operations.questions.question import open_what_if
from operations.whatif import WhatifJob, run
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_workspace(tmp_path_factory.mktemp("workspace"))


def test_the_answer_is_that_of_the_job_at_amounts_in_minor_units(
    asked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--budget", "1800", "--levels", "customer=0,0.50,1", "--limit", "merchant=$400", "--cap", "customer=3.00"]
    assert command.main(["whatif", str(asked), *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    wanted = run(
        WhatifJob(
            workspace=asked,
            answer=tmp_path / "answer.json",
            budget=180_000,
            levels={"customer": [0, 50, 100]},
            limits={"merchant": 40_000},
            caps={"customer": 300},
        )
    )
    assert found["asked"]["budget"] == 180_000
    assert found["asked"]["value"] == wanted["asked"]["value"]
    assert found["current"]["budget"] == 150_000
    assert not list(asked.glob("answer*"))


def test_a_mean_is_asked_about_without_rounding_and_nothing_may_be_spent(
    asked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["whatif", str(asked), "--budget", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["asked"]["budget"] == 0
    shutil.copytree(asked, tmp_path / "run")
    campaign = json.loads((tmp_path / "run" / CAMPAIGN).read_text())
    campaign["budget"] = {"name": "day", "limit": 12.5, "form": "per_account"}
    (tmp_path / "run" / CAMPAIGN).write_text(json.dumps(campaign))
    assert command.main(["whatif", str(tmp_path / "run"), "--budget", "110%", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["asked"]["budget"] == pytest.approx(13.75)


def test_the_table_has_a_line_for_each_answer(asked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["whatif", str(asked), "--budget", "$3,000.00", "--rows", "500"]) == 0
    shown = capsys.readouterr().out
    assert "Asked: a budget of $3,000.00, 2 times the campaign's." in shown
    for words in ("current", "asked", "$1,500.00", "$3,000.00", " 50% ", " 200% ", "λ per $1"):
        assert words in shown
    # An answer on all accounts has no interval of a sample, and the errors of the curves are not in it.
    assert command.main(["whatif", str(asked), "--budget", "$3,000.00", "--rows", "0"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"\[[0-9.,]+, [0-9.,]+\]", shown.split("Added value:")[0]) is None
    assert "predictions of the model, without the errors of its curves" in shown or "With the errors" in shown


def test_the_budget_for_a_return_is_asked_for_by_the_return(
    asked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(asked, tmp_path / "run")
    campaign = json.loads((tmp_path / "run" / CAMPAIGN).read_text())
    for terms in campaign["sides"].values():
        terms["weight"] = 900.0
    (tmp_path / "run" / CAMPAIGN).write_text(json.dumps(campaign | {"objective": "margin"}))
    assert command.main(["whatif", str(tmp_path / "run"), "--return", "1.5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["asked"]
    assert found["price"]["value"] == pytest.approx(1.5)
    assert found["spend"]["value"] == pytest.approx(found["budget"], rel=1e-3)
    assert command.main(["whatif", str(tmp_path / "run"), "--return", "1.5"]) == 0
    shown = capsys.readouterr().out
    assert f"Asked: a budget of ${found['budget'] / 100:,.2f}" in shown
    assert "The last $1 returns $1.50 of margin at the budget asked for." in shown
    assert "Added value: dollars of margin above the lowest incentive" in shown
    assert f"{found['added']['value'] / 100:,.5g}" in shown
    assert command.main(["whatif", str(asked), "--return", "1.5"]) == 1
    assert "must be 0 unless the objective is value or margin" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["--levels", "customer=0.07"], 1, "must be some of [0, 50, 100, 200], got [7]"),
        (["--limit", "north=0.05"], 1, "neither a side nor in a table of groups"),
        (["--levels", "customer"], 2, "write NAME=VALUE"),
        (["--cap", "customer=much"], 1, "--cap: must be an amount in dollars such as 5000.00, got 'much'"),
        (["--budget", "-1"], 1, "--budget: must be an amount in dollars"),
        (["--budget", "12.345"], 1, "--budget: must be whole cents"),
        (["--budget", "-5%"], 1, "must not be below 0%"),
        (["--budget", "inf"], 1, "must be an amount"),
    ],
)
def test_a_wrong_term_is_refused_without_a_traceback(
    words: list[str], status: int, text: str, asked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["whatif", str(asked), *words]) == status
    told = capsys.readouterr().err
    assert text in told
    assert "Traceback" not in told


PLAN = ["--accounts", "200000", "--response", "0.1,0.14", "--money", "0.06", "--lift", "0.005"]


def test_a_plan_is_that_of_the_job(workspace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["plan", str(workspace), *PLAN, "--salt", "s1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    job = PlanJob(
        campaign=workspace,
        result=tmp_path / "plan.json",
        page=tmp_path / "plan.md",
        accounts=200_000,
        prior={"response": [0.1, 0.14], "money": 6.0},
        precision={"lift": 0.005},
        salt="s1",
    )
    run_plan(job)
    assert found == {"currency": "USD", "money_unit": "minor units", **json.loads(job.result.read_text())}
    assert command.main(["plan", str(workspace), *PLAN]) == 0
    assert "Trial of campaign spring" in capsys.readouterr().out


def test_a_trial_is_planned_with_the_weights_of_the_campaign(workspace: Path, tmp_path: Path) -> None:
    campaign = read_campaign(workspace)
    low, high = campaign.offer_ids["customer"]
    money = {}
    for name, weights in (("uniform", {}), ("dear", {"customer": {low: 1.0, high: 3.0}})):
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(campaign.with_fields({"exploration_weights": weights}).to_dict()))
        files = {kind: tmp_path / f"plan.{kind}" for kind in ("result", "page")}
        prior, accounts = {"response": [0.1, 0.14], "money": 6.0}, 200_000
        found = run_plan(PlanJob(campaign=file, **files, accounts=accounts, prior=prior, precision={"curve": 0.01}))
        money[name] = found.money["explore"] / found.accounts["explore"]
    assert money["dear"] == pytest.approx(1.5 * money["uniform"])


def test_draws_are_proposed_as_fields_that_the_campaign_takes(
    asked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(asked, tmp_path / "run")
    words = ["plan", str(tmp_path / "run"), "--explore", "0.05"]
    assert command.main(words) == 1
    assert "has no price of 'all'; run `shadowprice resolve` first" in capsys.readouterr().err
    campaign, question = read_campaign(tmp_path / "run"), open_what_if(tmp_path / "run")
    found = question.solver.ask()
    record = PriceRecord(
        campaign=campaign.name,
        version=1,
        slot=0,
        prices=dict(found.prices),
        tie_share=0.5,
        status="optimal",
        **dict.fromkeys(("primal", "dual", "gap", "violation"), 0.0),
        **dict.fromkeys(("spent", "remaining", "sample_rows"), 0),
        model_version="m1",
        solved_at=campaign.starts_at,
        expires_at=campaign.starts_at + timedelta(hours=2),
    )
    PriceStore(tmp_path / "run" / PRICES).publish(record.sealed())
    assert command.main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    lost = {name: sum(draw["lost"] for draw in told[name].values()) for name in ("near", "uniform")}
    assert lost["near"] == pytest.approx(lost["uniform"], rel=5e-3)
    assert command.main(words) == 0
    shown = capsys.readouterr().out
    fields = yaml.safe_load(shown[shown.index("exploration: ") :])
    assert fields == told["fields"]
    plain, own = campaign.with_fields({"exploration": 0.05}), campaign.with_fields(fields)
    assert own.exploration > 0.05
    # Both leave about the same value to the window, as its own solve finds.
    left = [open_what_if(tmp_path / "run", campaign=each).solver.ask().value.value for each in (plain, own)]
    assert abs(left[1] - left[0]) < 0.5 * (found.value.value - left[0])
    assert command.main([*words[:3], "0.99"]) == 1
    assert "costs more than the budget; ask for less" in capsys.readouterr().err
    assert command.main([*words[:3], "1.5"]) == 1
    assert "explore: must lie between 0 and 1, got 1.5" in capsys.readouterr().err


def test_a_plan_that_cannot_be_is_a_sentence(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["plan", str(workspace), *PLAN[:-2]]) == 1
    assert "name at least one of lift, curve and price" in capsys.readouterr().err
    assert command.main(["plan", str(workspace)]) == 2
