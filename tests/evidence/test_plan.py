"""The planned trial identifies the effect that it assumes, and its command is one that runs."""

import json
import shlex
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cli.main import main
from shadowprice.arms import Holdout
from shadowprice.campaign import Campaign, Side
from shadowprice.currency import Currency
from shadowprice.datasets import load
from shadowprice.evaluation.statistics.level_means import LevelMeans
from shadowprice.evaluation.uplift.comparisons import side_evidence
from shadowprice.evaluation.uplift.shares import shares
from shadowprice.evidence.sides import evidence_of
from shadowprice.tables import campaign_from_tables


def assert_means_the_cost(words: list[str], campaign: Campaign, side: Side) -> None:
    """The amount that the command prints is read as the mean cost of a request whose level is drawn."""
    option = dict(pairwise(words))
    response = np.array([float(each) for each in option["--response"].split(",")])
    cost = float(campaign.terms(side).cost(response[:, None]).mean())
    read = Currency.of(campaign.currency).read(option["--money"], field="--money", whole=False)
    assert read == pytest.approx(cost, rel=0.001)


@pytest.mark.parametrize("shape", ["bonus", "gift"])
def test_the_command_runs_and_its_trial_identifies_the_assumed_rise_in_four_of_five_trials(
    shape: str, make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = make(shape, effect=0.0, seed=3)[1]
    campaign = campaign_from_tables(tables)
    file = tmp_path / "campaign.json"
    file.write_text(json.dumps(campaign.to_dict()))
    (found,) = evidence_of(tables, campaign, Currency(), workspace=file)
    assert found.verdict == "not identified"
    words = shlex.split(found.plan)
    assert words[0] == "shadowprice"
    assert main([*words[1:], "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["levels"] == list(campaign.terms("customer").levels)
    response = np.array([float(each) for each in words[words.index("--response") + 1].split(",")])
    rng, identified = np.random.default_rng(0), 0
    assert_means_the_cost(words, campaign, "customer")
    size, levels = plan["accounts"]["explore"], response.size
    for _ in range(40):
        level = rng.integers(0, levels, size)
        y = (rng.random(size) < response[level]).astype(float)
        planned = shares(level, np.full(size, 1 / levels), levels)
        rows = LevelMeans(level, levels)
        identified += side_evidence("customer", plan["levels"], rows, y, y, planned).verdict == "identified"
    # The trend uses all levels, so its power is above the 80 % of the comparison of the ends.
    assert identified >= 28


def test_the_command_of_a_side_whose_response_is_no_probability_runs_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = load("world", customers=300, merchants=80, both=10, trials=2)
    campaign = campaign_from_tables(world.tables)
    file = tmp_path / "campaign.json"
    file.write_text(json.dumps(campaign.to_dict()))
    merchants = evidence_of(world.tables, campaign, Currency(), workspace=file)[1]
    assert merchants.verdict == "not identified"
    assert "--side merchant --variance " in merchants.plan
    words = shlex.split(merchants.plan)
    assert_means_the_cost(words, campaign, "merchant")
    assert main([*words[1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accounts"]["explore"] > 100


def test_the_trial_of_offers_without_an_order_believes_that_each_brings_as_much(
    make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = make("email", effect=0.0, seed=3)[1]
    tables = tables.replaced(offer=tables.offer.assign(face_value=None, cost=[0, 1, 1]))
    campaign = campaign_from_tables(tables, "offers")
    assert not campaign.terms("customer").ordered
    file = tmp_path / "campaign.json"
    file.write_text(json.dumps(campaign.to_dict()))
    (found,) = evidence_of(tables, campaign, Currency.of("offers"), workspace=file)
    assert found.verdict == "not identified"
    words = shlex.split(found.plan)
    response = [float(each) for each in words[words.index("--response") + 1].split(",")]
    assert response[0] < response[1] == response[2]
    assert_means_the_cost(words, campaign, "customer")
    assert main([*words[1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["levels"] == [0, 1, 2]


def test_accounts_that_the_company_holds_out_are_in_no_arm(
    make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = make("bonus", effect=0.0, seed=3)[1]
    campaign = campaign_from_tables(tables)
    plans = {}
    for name, holdout in (("all", None), ("held", Holdout(key="company", share=2_000))):
        own, file = replace(campaign, holdout=holdout), tmp_path / f"{name}.json"
        file.write_text(json.dumps(own.to_dict()))
        (found,) = evidence_of(tables, own, Currency(), workspace=file)
        assert main([*shlex.split(found.plan)[1:], "--json"]) == 0
        plans[name] = json.loads(capsys.readouterr().out)
    # The command of a campaign with a holdout asks for more accounts, so that its arms are as large.
    assert plans["held"]["accounts"]["explore"] == pytest.approx(plans["all"]["accounts"]["explore"], rel=0.001)
    arms = sum(plans["held"]["accounts"].values())
    assert plans["held"]["company_holdout"] == pytest.approx(arms / 4, abs=1)
    assert "company_holdout" not in plans["all"]
