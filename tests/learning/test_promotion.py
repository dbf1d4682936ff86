"""A model is served only when the trial shows that it brings more at the campaign's budget than what it replaces."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.errors import InvalidInput
from shadowprice.evaluation import metrics
from shadowprice.evaluation.policy.gate import Requirements
from shadowprice.evaluation.policy.uniform import best_flat
from shadowprice.graphs.build import build_snapshot
from shadowprice.learning.comparison.value import CampaignWindow
from shadowprice.learning.evaluate import Comparison, Facts, evaluate
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.separate import SeparateModels

LEVELS = (10, 50, 100)
CAMPAIGN = Campaign(
    name="spring",
    sides={"customer": Terms(levels=LEVELS, cost_basis="on_grant")},
    budget=Budget(form="per_account", limit=50.0),
    starts_at=datetime(2026, 2, 1, tzinfo=UTC),
)
SIZE = 9000


def trial(scrambled: bool = False) -> TrainingSet:
    """Accounts with a high trait respond to the level, others hardly; ``scrambled`` traits tell nothing."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=SIZE)
    level = rng.integers(0, 3, SIZE)
    logit = -1.5 + np.array([0.0, 1.0, 2.0])[level] * 2 / (1 + np.exp(-4 * x))
    response = (rng.uniform(size=SIZE) < 1 / (1 + np.exp(-logit))).astype(float)
    users = [f"u{i}" for i in range(SIZE)]
    trait = rng.permutation(x) if scrambled else x
    nodes = pd.DataFrame({"account_id": users, "side": "customer", "x_trait": trait})
    edges = pd.DataFrame({"src": [], "dst": [], "weight": [], "ts": pd.to_datetime([], utc=True)})
    snapshot = build_snapshot(nodes, edges, pd.Timestamp("2026-01-01", tz="UTC"))
    rows = pd.DataFrame(
        {
            "account_id": users,
            "partner_id": None,
            "level": level,
            "response": response,
            "propensity": 1 / 3,
            "split": np.repeat(["train", "validation", "test"], SIZE // 3),
            "snapshot_at": snapshot.at.timestamp() + 60.0,
        }
    )
    return TrainingSet(
        {"customer": rows},
        {"customer": rows[["account_id"]].head(5)},
        Inputs(snapshots=[snapshot]),
        {"customer": LEVELS},
        {"customer": ()},
    )


def traits(data: TrainingSet) -> np.ndarray:
    """Return the trait of the account of each row."""
    snapshot = data.snapshots[0]
    known = pd.Series(snapshot.features["customer"][:, 0], index=snapshot.account_id)
    return known[data.rows["customer"]["account_id"]].to_numpy(dtype=float)


def fitted(data: TrainingSet) -> SeparateModels:
    model = SeparateModels.prepare({"customer": "gbdt"}, {"customer": LEVELS})
    model.fit(data.inputs, data.part("train"))
    return model


@pytest.fixture(scope="module")
def data() -> TrainingSet:
    return trial()


@pytest.fixture(scope="module")
def good(data) -> SeparateModels:
    return fitted(data)


@pytest.fixture(scope="module")
def bad() -> SeparateModels:
    return fitted(trial(scrambled=True))


def judged(model, data, incumbent, *, required=True, looks="once", **options):
    against = Comparison(incumbent=incumbent, required=required, looks=looks)
    return evaluate(model, data, replications=200, window=CampaignWindow(CAMPAIGN), against=against, **options)


def value_check(found):
    return next(each for each in found.gate.checks if "at the campaign's budget" in each.rule)


def test_it_is_promoted_over_one_that_knows_less_and_not_the_other_way(data, good, bad) -> None:
    better = judged(good, data, bad)
    assert value_check(better).passed
    assert better.value.difference.low > 0
    assert better.value.budget == 50.0 * SIZE / 3
    worse = judged(bad, data, good)
    assert not value_check(worse).passed
    assert not worse.gate.passed
    assert "above that of the incumbent" in " ".join(worse.gate.reasons)
    assert "squared error not above" in " ".join(worse.gate.reasons)


def test_an_equal_model_is_not_shown_to_be_better_but_may_pass_with_a_margin(data, good) -> None:
    assert not value_check(judged(good, data, good)).passed
    found = judged(good, data, good, limits=Requirements(value_margin=0.01, ece_share=0.5))
    assert value_check(found).passed
    assert found.gate.passed, "nothing speaks against the change"


def test_a_model_of_the_newest_responses_is_taken_within_a_margin_and_not_without(data, good, bad) -> None:
    """Everybody responds half as often as when the incumbent learnt: its order, and so its value, is as good."""
    rng = np.random.default_rng(5)
    rows = data.rows["customer"]
    faded = replace(data, rows={"customer": rows.assign(response=rows["response"] * (rng.random(SIZE) < 0.5))})
    fresh = fitted(faded)
    assert not judged(fresh, faded, good).gate.passed
    assert judged(fresh, faded, good, limits=Requirements(value_margin=0.2, ece_share=0.5)).gate.passed
    for worse, best in ((good, fresh), (bad, fresh)):
        assert not judged(worse, faded, best, limits=Requirements(value_margin=0.2, ece_share=0.5)).gate.passed


def test_a_model_that_is_shown_to_bring_less_is_refused_within_any_margin(data, good, bad) -> None:
    found = judged(bad, data, good, limits=Requirements(value_margin=0.9))
    assert "value not below that of the incumbent by its upper bound" in " ".join(found.gate.reasons)


def test_a_first_model_must_beat_uniform_dosing(data, good, bad) -> None:
    # Trees without the interaction of trait and level predict 73 % where 93 % respond.
    assert "prediction and response of each tenth" in " ".join(judged(good, data, None).gate.reasons)
    found = judged(good, data, None, limits=Requirements(ece_share=0.5))
    assert value_check(found).passed
    assert found.gate.passed
    assert "uniform dosing" in value_check(found).rule
    assert not value_check(judged(bad, data, None)).passed


def test_uniform_dosing_need_not_be_beaten_where_the_log_does_not_identify_the_effect(data, bad) -> None:
    """One level a shop: nothing tells the effect of the level from that of the shop; random levels do."""
    rows = data.rows["customer"]
    rows = rows.assign(snapshot_at=rows["snapshot_at"] + 86_400.0 * 7 * (np.arange(SIZE) % 6))
    drawn = pd.Series(np.random.default_rng(3).integers(0, 20, SIZE))
    for shop, required in ((rows["level"], False), (drawn, True)):
        log = replace(data, rows={"customer": rows.assign(shop=shop.astype(str))})
        found = judged(bad, log, None, facts=Facts(confounders={"customer": ["shop"]}))
        assert not value_check(found).passed
        assert value_check(found).required == required
        assert any("uniform dosing" in reason for reason in found.gate.reasons) == required


def test_a_first_model_that_only_knows_who_responds_anyway_is_refused_for_all_its_auc() -> None:
    rng = np.random.default_rng(1)
    data = trial()
    rows = data.rows["customer"]
    x = traits(data)
    chance = 1 / (1 + np.exp(-(x - 1.5 + 0.8 * rows["level"].to_numpy())))
    same = replace(data, rows={"customer": rows.assign(response=(rng.random(SIZE) < chance).astype(float))})
    found = judged(fitted(same), same, None)
    assert found.sides["customer"].metrics["auc"].low > 0.65
    assert not found.gate.passed
    assert ["uniform dosing" in reason for reason in found.gate.reasons] == [True]


def test_without_a_campaign_only_the_metrics_are_judged(data, good) -> None:
    found = evaluate(good, data, replications=50)
    assert found.value is None
    assert all(each.side == "customer" for each in found.gate.checks)
    with pytest.raises(InvalidInput, match="campaign"):
        evaluate(good, data, against=Comparison(incumbent=good))


def test_a_value_that_is_not_required_is_still_compared(data, good, bad) -> None:
    found = judged(bad, data, good, required=False)
    assert found.value.difference.value < 0
    assert not value_check(found).passed
    assert value_check(found).found in found.gate.warnings[0]
    assert all("campaign" not in reason for reason in found.gate.reasons)


def test_a_confounded_log_is_judged_with_its_balancing_weights(data, good) -> None:
    """Those who respond anyway were given more: a log in which the incentive seems to do far more than it does."""
    rng = np.random.default_rng(2)
    rows = data.rows["customer"]
    x = traits(data)
    p = np.exp(np.outer(x, [-1.0, 0.0, 1.0]))
    p /= p.sum(axis=1, keepdims=True)
    level = (rng.random(SIZE)[:, None] > np.cumsum(p, axis=1)).sum(axis=1).clip(max=2)
    chance = 1 / (1 + np.exp(-(np.outer(x, np.ones(3)) - 1.5 + np.array([0.0, 0.4, 0.8]))))
    response = (rng.random(SIZE) < chance[np.arange(SIZE), level]).astype(float)
    own = p[np.arange(SIZE), level]
    logged = rows.assign(level=level, response=response).drop(columns="propensity")
    weight = (np.bincount(level) / SIZE)[level] / own
    weighed = replace(data, rows={"customer": logged.assign(balancing_weight=weight / weight.mean())})
    plain = replace(data, rows={"customer": logged})
    model = fitted(weighed)
    found, naive = judged(model, weighed, None), judged(model, plain, None)
    assert "propensity or a balancing weight" in value_check(naive).found

    test = rows["split"].to_numpy() == "test"
    predicted = model.curves(weighed.inputs, weighed.part("test"))["customer"].response
    mine = predicted[level[test], np.arange(test.sum())]
    expected = metrics.mse(response[test], mine, weight=weight[test])
    assert found.sides["customer"].metrics["mse"].value == pytest.approx(expected)
    assert naive.sides["customer"].metrics["mse"].value != pytest.approx(expected, rel=1e-3)
    means = chance[test].mean(axis=0)
    np.testing.assert_allclose(found.sides["customer"].by_level.observed, means, atol=0.06)
    assert abs(naive.sides["customer"].by_level.observed - means).max() > 0.1
    best = best_flat({"customer": means}, {"customer": LEVELS}, 50.0).value * test.sum()
    assert found.value.rival.low < best < found.value.rival.high
    # Nobody is moved more than others, so nothing beats uniform dosing.
    assert not value_check(found).passed


def test_what_cannot_be_compared_is_not_promoted_and_says_why(data, good, bad) -> None:
    rows = data.rows["customer"]
    unlogged = replace(data, rows={"customer": rows.drop(columns="propensity")})
    test = rows["split"] == "test"
    few = replace(data, rows={"customer": pd.concat([rows[~test], rows[test].head(45)])})
    other = SeparateModels.prepare({"customer": "gbdt"}, {"customer": (10, 50, 101)})
    other.fit(data.inputs, data.part("train"))
    for set_, incumbent, words in (
        (unlogged, bad, "a propensity"),
        (few, bad, "log more exploration"),
        (data, other, "other levels"),
        (data, SeparateModels.prepare({"customer": "gbdt"}, {"customer": LEVELS}), "cannot read these rows"),
    ):
        check = value_check(judged(good, set_, incumbent))
        assert not check.passed
        assert words in check.found


def test_asked_at_every_look_it_needs_more_rows_and_says_what_cannot_be_asked_so(data, good, bad) -> None:
    def check(model, set_, incumbent, **options):
        found = judged(model, set_, incumbent, looks="every", **options)
        return next(each for each in found.gate.checks if each.side == "campaign")

    better = check(good, data, bad)
    assert "every interim analysis" in better.rule
    assert not better.passed, "3,000 rows tell at one look that it is better, not at all looks at once"
    allowed = Requirements(value_margin=0.15)
    assert check(good, data, bad, limits=allowed).passed
    assert not check(bad, data, good, limits=allowed).passed
    rows = data.rows["customer"]
    test = rows["split"] == "test"
    rarer = replace(data, rows={"customer": rows.assign(propensity=np.where(test, 0.2, 1 / 3))})
    assert "not as the earlier ones" in check(good, rarer, bad).found
    assert "no earlier rows" in check(good, replace(data, rows={"customer": rows[test]}), bad).found
    with pytest.raises(InvalidInput, match="looks"):
        judged(good, data, bad, looks="daily")
