"""Levels without an order: what is trained, what is refused, what the gate asks, and what the decisions are worth."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.trials import TrialFiles, draw
from benchmarks.world.training_set import training_set_of
from shadowprice.allocation import solve
from shadowprice.allocation.sources.campaign import CampaignProblem
from shadowprice.campaign import Budget, Campaign
from shadowprice.curves import Curves
from shadowprice.datasets import load
from shadowprice.errors import InvalidInput
from shadowprice.learning.bundle import META
from shadowprice.learning.comparison.value import CampaignWindow
from shadowprice.learning.evaluate import Comparison, Facts, evaluate
from shadowprice.learning.fit import fit_bundle
from shadowprice.learning.recipes import WITHOUT_ORDER, Separate, Training, recipe
from shadowprice.learning.train import train
from shadowprice.learning.training_set import TrainingSet
from shadowprice.mapping.proposal import propose, write_mapping
from shadowprice.reports.evaluation import side_reports
from shadowprice.responses.integrity import OFFERS, check_offers
from shadowprice.responses.joint.model import JointSpec
from shadowprice.responses.training import TrainingConfig
from shadowprice.tables import campaign_from_tables

NAMES = ("No E-Mail", "Mens E-Mail", "Womens E-Mail")


def emails(folder: Path, accounts: int, effect: float = 1.0, seed: int = 0) -> tuple[TrialFiles, Campaign, TrainingSet]:
    """A drawn e-mail trial, read as a user's files."""
    trial = draw("email", seed=seed, accounts=accounts, effect=effect)
    files = trial.write(folder)
    found = propose(folder, {"trials": files["offers"], "customers": files["people"]})
    path = write_mapping(folder, found, currency="", timezone="UTC", campaign="mail")
    dataset = load("mapping", data=str(path))
    return trial, campaign_from_tables(dataset.tables), training_set_of(dataset)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrialFiles, Campaign, TrainingSet]:
    return emails(tmp_path_factory.mktemp("small"), 3000, effect=3.0)


def test_decided_offers_bring_more_than_the_best_single_offer_at_equal_cost(tmp_path: Path) -> None:
    trial, campaign, data = emails(tmp_path, 24_000)
    model, _ = train(data, "gbdt_free", TrainingConfig(seed=0))
    test = data.part("test")["customer"]
    curves = model.curves(data.inputs, {"customer": test})["customer"]
    place = {str(name): at for at, name in enumerate(trial.people["customer"])}
    truth = trial.truth[:, [place[name] for name in test["account_id"]]]
    n, columns = len(test), np.arange(len(test))
    # Enough for all, where only the choice between the e-mails counts, and for half of them.
    for limit in (n, n // 2):
        plan = replace(campaign, budget=Budget(limit=limit))
        level = solve(CampaignProblem(plan, {"customer": curves}).whole()).level
        share = float((level > 0).mean())
        assert share * n <= limit
        single = max((truth[0] + share * (truth[each] - truth[0]) for each in (1, 2)), key=np.mean)
        gained = truth[level, columns] - single
        z = gained.mean() / (gained.std(ddof=1) / np.sqrt(n))
        assert z > 3.0, limit
    assert truth[level, columns].mean() < truth.max(axis=0).mean()


def test_a_joint_network_has_a_score_of_its_own_for_each_level(small: tuple[TrialFiles, Campaign, TrainingSet]) -> None:
    *_, data = small
    assert data.offers == {"customer": NAMES}
    for name in ("joint_gnn", "joint_dnn_h", "joint_dnn", "joint_sage"):
        spec = recipe(name, data)
        assert isinstance(spec, JointSpec)
        assert spec.layers == {"customer": "per_level"}
    ordered = recipe("joint_gnn", replace(data, unordered=()))
    assert isinstance(ordered, JointSpec)
    assert ordered.layers == {"customer": "hazard"}


@pytest.mark.parametrize("name", ["joint_hazard", "joint_dssm_c", "gbdt", "dipn", "isotonic_lr", "dnn_level"])
def test_a_recipe_that_reads_an_order_is_refused_and_others_are_named(
    small: tuple[TrialFiles, Campaign, TrainingSet], name: str
) -> None:
    with pytest.raises(InvalidInput, match=r"No E-Mail, Mens .*; use one of joint_gnn, gbdt_free"):
        recipe(name, small[2])
    assert isinstance(recipe(name, replace(small[2], unordered=())), JointSpec | Separate)


@pytest.mark.parametrize("name", WITHOUT_ORDER)
def test_the_recipes_that_the_refusal_names_are_accepted(
    small: tuple[TrialFiles, Campaign, TrainingSet], name: str
) -> None:
    assert isinstance(recipe(name, small[2]), JointSpec | Separate)


@pytest.mark.parametrize("steps", ["monotone", "effect+pooled"])
def test_a_repair_that_reads_an_order_is_refused_before_training(
    small: tuple[TrialFiles, Campaign, TrainingSet], steps: str, tmp_path: Path
) -> None:
    small[2].save(tmp_path / "training")
    how = Training("joint_gnn", steps)
    with pytest.raises(InvalidInput, match=r"curve_repair: .* those of customers have none"):
        fit_bundle(tmp_path / "training", tmp_path / "model", how, TrainingConfig(), workers=0)
    assert not (tmp_path / "model").exists()


def test_the_gate_asks_neither_for_reversed_pairs_nor_for_a_slope(
    small: tuple[TrialFiles, Campaign, TrainingSet],
) -> None:
    _, campaign, data = small
    model, _ = train(data, "gbdt_free", TrainingConfig(seed=0))
    curves = model.curves(data.inputs, data.part("test"))["customer"].response
    assert (np.diff(curves, axis=0) < 0).any(), "curves that fall, which are no fault here"
    unrequired = {"window": CampaignWindow(campaign), "against": Comparison(required=False), "replications": 20}
    found = evaluate(model, data, **unrequired)
    rules = [check.rule for check in found.gate.checks]
    assert not [rule for rule in rules if "no curve falls" in rule]
    assert [rule for rule in rules if "calibration error" in rule]
    side = found.sides["customer"]
    assert (side.curve_slope, side.data_slope, side.hazard, side.change_points) == (None,) * 4
    (shown,) = side_reports(found, "gbdt_free", data.offers, simulated=False)
    assert (shown.offers, shown.model_slope) == (NAMES, None)
    ordered = evaluate(model, replace(data, unordered=()), **unrequired)
    assert [check for check in ordered.gate.checks if "no curve falls" in check.rule and not check.passed]


def test_confounders_are_refused_where_no_slope_can_hold_them(small: tuple[TrialFiles, Campaign, TrainingSet]) -> None:
    model, _ = train(small[2], "gbdt_free", TrainingConfig(seed=0))
    with pytest.raises(InvalidInput, match="confounders"):
        evaluate(model, small[2], facts=Facts(confounders={"customer": ["c_channel"]}), replications=5)


def test_a_bundle_knows_its_offers_and_is_refused_for_others(
    small: tuple[TrialFiles, Campaign, TrainingSet], tmp_path: Path
) -> None:
    _, campaign, data = small
    data.save(tmp_path / "training")
    again = TrainingSet.load(tmp_path / "training")
    assert (again.offers, again.unordered) == (data.offers, data.unordered)
    assert again.digest() != replace(again, offers={"customer": NAMES[::-1]}).digest()
    fit_bundle(tmp_path / "training", tmp_path / "model", Training(""), TrainingConfig(epochs=3), workers=0)
    meta = json.loads((tmp_path / "model" / META).read_text())
    assert (meta["recipe"], meta[OFFERS]) == ("joint_gnn", {"customer": list(NAMES)})
    check_offers(campaign, meta)
    terms = replace(campaign.terms("customer"), offers=("No E-Mail", "Womens E-Mail", "Mens E-Mail"))
    with pytest.raises(InvalidInput, match="train a model on these offers"):
        check_offers(replace(campaign, sides={"customer": terms}), meta)
    with pytest.raises(InvalidInput, match="train a model on these offers"):
        check_offers(campaign, {name: each for name, each in meta.items() if name != OFFERS})


def test_offers_of_equal_cost_are_decided_by_value() -> None:
    """Whatever the budget, an account gets none of two offers of equal cost that brings less."""
    rng = np.random.default_rng(0)
    response = rng.random((4, 400)).astype(np.float32)
    campaign = Campaign.from_dict(
        {
            "name": "mail",
            "sides": {
                "customer": {
                    "levels": [0, 1, 2, 3],
                    "offers": ["d", "c", "b", "a"],
                    "amounts": [0, 0, 0, 0],
                    "costs": [0, 7, 7, 2],
                    "cost_basis": "on_grant",
                    "ordered": False,
                }
            },
            "budget": {"limit": 0},
            "starts_at": "2026-03-01T00:00:00+00:00",
            "hours": 24,
        }
    )
    for limit in (0, 300, 900, 2000, 5000):
        plan = replace(campaign, budget=Budget(limit=limit))
        found = solve(CampaignProblem(plan, {"customer": Curves(np.arange(4), response)}).whole())
        assert found.spend[0] <= limit + 1e-9
        given = found.level
        assert not np.any((given == 1) & (response[2] > response[1]))
        assert not np.any((given == 2) & (response[1] > response[2]))
