"""Arms, holdouts, canaries and units: who decides for a request."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from local_ledger import Asked, Fixed, LocalLedger, TableReader, customers
from prometheus_client import CollectorRegistry

from serving.predictor.active import Active, Beside, ServedModel
from serving.predictor.features import Features
from serving.predictor.metrics import PredictorMetrics
from serving.predictor.predictor import Predictor
from serving.protocol import Requests
from shadowprice.arms import COMPANY, Arm, Experiment, Holdout
from shadowprice.campaign import SIDES
from shadowprice.curves import Curves
from shadowprice.decision import decide
from shadowprice.groups import Groups
from shadowprice.pacing.canary import Canary
from shadowprice.pacing.replay.day import Day
from shadowprice.pacing.replay.ledger import SimulatedLedger
from shadowprice.pacing.replay.outcomes import NamedCurves
from shadowprice.pacing.replay.policies import PricedPolicy

ARMS = Experiment(
    arms=(
        Arm(name="holdout", kind="holdout", share=2500),
        Arm(name="new", kind="policy", share=2500),
        Arm(name="explore", kind="explore", share=2500),
    ),
    salt="spring",
)
TRIAL = Canary(
    campaign="spring",
    model_version="m2",
    incumbent="test-model-1",
    stage=0,
    share=4000,
    since=datetime(2026, 3, 1, tzinfo=UTC),
    prices={"budget": 0.004},
)


@pytest.mark.parametrize("unit", ["account", "cluster"])
def test_each_arm_is_answered_as_the_replay_answers_it(build, kit, heads, unit):
    """Service and simulation: levels, propensities, arms and reasons of the same requests."""
    out = Holdout(key="company", share=2000)
    terms = kit.campaign(experiment=replace(ARMS, unit=unit), exploration=0.2, holdout=out)
    groups = Groups.of([f"c{i}" for i in range(50)], np.arange(50) // 3)
    accounts, ids = [f"c{i}" for i in range(60)], [f"r{i}" for i in range(60)]
    frame = kit.embeddings().set_index(["side", "account_id"])["embedding"]
    curve = heads["customer"].response(np.stack([frame["customer", name] for name in accounts]))
    price = kit.price(price=0.006)
    answers = build(terms=terms, price=price, groups=groups)[0].answer(Requests(ids, accounts, ["customer"] * 60))
    model = {"customer": NamedCurves(np.array(accounts), Curves(terms.terms("customer").levels, curve))}
    policy = PricedPolicy(terms, model, SimulatedLedger(terms, {}), groups=groups, price=price)
    replayed = policy(Day(np.array(ids), np.array(accounts), np.full(60, "customer"), np.zeros(60), 1))
    for name in ("level", "propensity", "arm", "reason"):
        assert list(getattr(answers, name)) == list(getattr(replayed, name))
    assert set(answers.arm) == {"holdout", "new", "explore", "unassigned", COMPANY}
    held = np.array(answers.arm) == COMPANY
    assert held.tolist() == out.holds(accounts).tolist()
    assert not np.array(answers.level)[held].any()
    assert (np.array(answers.propensity)[held] == 1.0).all()
    if unit == "cluster":
        arms = np.where(held, "", answers.arm)
        assert all(len(set(arms[place : place + 3]) - {""}) <= 1 for place in range(0, 48, 3))
    reasons = {why for why, arm in zip(answers.reason, answers.arm, strict=True) if arm in ("holdout", COMPANY)}
    assert reasons == {"holdout"}
    # Others are decided as by the campaign without the holdout.
    plain = build(terms=replace(terms, holdout=None), price=price, groups=groups)[0]
    alone = plain.answer(Requests(ids, accounts, ["customer"] * 60))
    for name in ("level", "propensity", "arm", "reason"):
        assert (np.array(getattr(alone, name)) == np.array(getattr(answers, name)))[~held].all()


def test_a_holdout_is_held_whatever_is_known_of_it_and_its_arm_is_recorded(build, kit):
    terms = kit.campaign(experiment=ARMS)
    names = [f"stranger-{i}" for i in range(40)]
    ledger = LocalLedger(terms)
    answers = build(terms=terms, ledger=ledger)[0].answer(customers(*names))
    arms = ARMS.arm_of(names).tolist()
    assert list(answers.arm) == arms
    assert list(answers.reason) == ["holdout" if arm == "holdout" else "cold_start" for arm in arms]
    assert not answers.incentive[np.array(arms) == "holdout"].any()
    rows = ledger.database.execute("SELECT arm, propensity, propensities FROM decision ORDER BY sequence").fetchall()
    assert [arm for arm, *_ in rows] == arms
    assert {(given, shares) for arm, given, shares in rows if arm == "holdout"} == {(1.0, "[1.0,0.0,0.0,0.0]")}
    assert {given for arm, given, _ in rows if arm == "explore"} == {0.25}


def test_outside_the_window_the_arm_is_named_and_a_repeat_keeps_the_arm_of_its_decision(build, kit):
    terms = kit.campaign(experiment=ARMS, holdout=Holdout(key="company", share=1000))
    names = [f"c{i}" for i in range(40)]
    ledger = LocalLedger(terms)
    asked, registry = build(terms=terms, ledger=ledger)
    first = asked.answer(customers(*names))
    asked.answer(customers(*names))
    for arm, count in Counter(first.arm).items():
        labels = {"campaign": "spring", "side": "customer", "arm": arm}
        assert registry.get_sample_value("shadowprice_arm_decisions_total", labels) == count
    raised = replace(terms, experiment=ARMS.raised("new", 5000))
    again = build(terms=raised, ledger=ledger)[0].answer(customers(*names))
    assert list(again.arm) == list(first.arm)
    other = build(terms=raised, window=True)[0].answer(customers(*names))
    held = raised.holdout.holds(names)
    assert held.any()
    assert list(other.arm) == np.where(held, COMPANY, raised.experiment.arm_of(names)).tolist() != list(first.arm)
    assert set(other.reason) == {"outside_window"}


@pytest.mark.parametrize("unit", ["partner", "hour"])
def test_partners_and_hours_are_units_of_an_experiment(build, kit, unit):
    arms = (Arm(name="none", kind="holdout", share=5000), Arm(name="all", kind="policy", share=5000))
    test = Experiment(arms=arms, salt="spring", unit=unit)
    predictor, _ = build(terms=kit.campaign(experiment=test), price=kit.price(price=0.0))
    partners = [*(f"m{row}" for row in range(39)), ""]
    names = [f"c{row}" for row in range(40)]
    answers = predictor.answer(Requests(names, names, ["customer"] * 40, partners))
    now = predictor.predictor.clock()
    units = partners if unit == "partner" else [f"{now:%Y-%m-%dT%H}"] * 40
    assert list(answers.arm) == test.arm_of(units).tolist()
    assert answers.arm[-1] == ("unassigned" if unit == "partner" else answers.arm[0])
    assert [incentive == 0 for incentive in answers.incentive] == [arm == "none" for arm in answers.arm]


def served(kit, version: str, seed: int) -> ServedModel:
    heads = kit.heads(seed)
    features = Features(TableReader(kit.embeddings()), {side: heads[side].default_embedding for side in SIDES})
    return ServedModel(version, heads, features)


def test_each_unit_is_decided_by_its_own_model_and_price_and_so_recorded(kit, campaign) -> None:
    own = served(kit, "test-model-1", 0)
    trial = Active(replace(kit.price(price=0.002), version=7, model_version="m2").sealed(), served(kit, "m2", 5))
    active = Active(kit.price(price=0.006), own, Beside(TRIAL, trial))
    ledger, registry = LocalLedger(campaign), CollectorRegistry()
    predictor = Predictor(
        campaign=campaign,
        source=Fixed(active),
        ledger=ledger,
        metrics=PredictorMetrics(campaign, registry),
        window=False,
    )
    names = [f"c{i}" for i in range(50)]
    ids = [f"r{i}" for i in range(50)]
    answers = Asked(predictor).answer(Requests(ids, names, ["customer"] * 50))
    on_trial = TRIAL.takes(names)
    assert 5 < on_trial.sum() < 45
    assert (np.array(answers.arm) == np.where(on_trial, "canary", "unassigned")).all()
    frame = kit.embeddings().set_index(["side", "account_id"])["embedding"]
    for rows, pair in ((on_trial, trial), (~on_trial, active)):
        asked = np.flatnonzero(rows)
        curve = pair.model.heads["customer"].response(np.stack([frame["customer", names[row]] for row in asked]))
        paid = np.array([0, 50, 80, 130])[:, None] * curve.astype(float)
        expected = decide(curve, paid, [pair.price.prices["budget"]], 0.4, [ids[row] for row in asked])
        np.testing.assert_array_equal(answers.level[asked], expected.level)
        assert {answers.model_version[row] for row in asked} == {pair.model.version}
        assert set(answers.price_version[asked].tolist()) == {pair.price.version}
    recorded = ledger.database.execute("SELECT account_id, arm, model_version, price_version FROM decision").fetchall()
    assert {(arm, model, price) for _, arm, model, price in recorded} == {
        ("canary", "m2", 7),
        ("unassigned", "test-model-1", 1),
    }
    assert len(ledger.messages) == 1
    given = registry.get_sample_value(
        "shadowprice_arm_decisions_total", {"campaign": "spring", "side": "customer", "arm": "canary"}
    )
    assert given == on_trial.sum()
    # A canary whose price is stale decides for nobody.
    stale = replace(trial.price, expires_at=datetime.now(UTC) - timedelta(seconds=1)).sealed()
    late = Asked(
        replace(predictor, source=Fixed(replace(active, beside=Beside(TRIAL, Active(stale, trial.model)))))
    ).answer(Requests([f"s{i}" for i in range(50)], names, ["customer"] * 50))
    assert set(late.arm) == {"unassigned"}


def test_while_the_watch_alarms_the_campaign_explores_more(kit, campaign) -> None:
    doubtful = replace(campaign, alarm_exploration=0.5)
    answers = {}
    for alarmed in (False, True):
        active = Active(kit.price(), served(kit, "test-model-1", 0), alarmed=alarmed)
        predictor = Predictor(
            campaign=doubtful,
            source=Fixed(active),
            ledger=LocalLedger(doubtful),
            metrics=PredictorMetrics(doubtful, CollectorRegistry()),
            window=False,
        )
        rows = range(50)
        asked = Requests([f"r{i}" for i in rows], [f"c{i}" for i in rows], ["customer"] * 50)
        answers[alarmed] = Asked(predictor).answer(asked)
    explored = [list(answers[alarmed].reason).count("explored") for alarmed in (False, True)]
    assert explored[0] == 0
    assert 12 < explored[1] < 38
    assert max(answers[True].propensity) < 0.7
