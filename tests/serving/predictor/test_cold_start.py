"""Accounts that came after training are decided on their own features, and rules read those of the online store."""

import asyncio
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from prometheus_client import CollectorRegistry

from feature_repo.columns import describe
from feature_repo.offline import write_profiles
from feature_repo.online import publish_embeddings
from feature_repo.online.profiles import publish_profiles
from feature_repo.store import create
from operations.common import solver as solve
from operations.common.solver import Solver
from serving.predictor import context, features
from serving.predictor.active import Active, ServedModel
from serving.predictor.bundle import load_bundle
from serving.predictor.context import read_requests
from serving.predictor.features import Features, open_reader
from serving.predictor.metrics import PredictorMetrics
from serving.predictor.predictor import Predictor
from serving.protocol import Requests
from shadowprice.errors import Unavailable
from shadowprice.graphs.scaling import Scaling
from shadowprice.limits import GroupBudget, Limits, Rule
from shadowprice.limits.attributes import Attributes
from shadowprice.limits.coverage import SideRequests
from shadowprice.responses.layers.own import ServedEncoder, save_encoders
from shadowprice.responses.layers.request import account_vectors, embed_requests
from shadowprice.responses.layers.tower import stored_defaults

BARS = Rule(name="bars", expression='partner.c_kind == "bar"', side="customer")
MINORS = Rule(name="minors", expression="account.x_age < 18.0", side="customer")
TAKEN = pd.Timestamp(datetime.now(UTC) - timedelta(minutes=7)).floor("s")


@pytest.fixture
def profiles():
    """New accounts of both sides beside some that training knows."""
    rows = [("c1", "customer", 30.0, "bank"), ("new", "customer", 41.0, "bank"), ("child", "customer", 12.0, None)]
    rows += [("m1", "merchant", np.nan, "bar"), ("fresh", "merchant", 3.0, "bar"), ("shop", "merchant", 4.0, "shop")]
    frame = pd.DataFrame(rows, columns=["account_id", "side", "x_age", "c_kind"])
    return frame.assign(snapshot_ts=TAKEN)


@pytest.fixture
def encoders(kit):
    """Two dense layers of each side."""
    rng = np.random.default_rng(7)
    names = ("x_age", "c_kind=bar", "c_kind=shop")
    scaling = Scaling(
        names, np.zeros(3, bool), np.array([35, 0.2, 0.1], np.float32), np.ones(3, np.float32), np.zeros(3, bool)
    )

    def draw(*shape):
        return rng.normal(scale=0.3, size=shape).astype(np.float32)

    def encoder():
        return ServedEncoder(
            features=scaling, weights=(draw(5, 3), draw(kit.width, 5)), biases=(draw(5), draw(kit.width))
        )

    return {"customer": encoder(), "merchant": encoder()}


def by_hand(encoder, age, kind):
    raw = np.array([age, kind == "bar", kind == "shop"], dtype=float)
    scaled = np.where(np.isnan(raw), 0, np.clip((raw - encoder.features.mean) / encoder.features.scale, -8, 8))
    hidden = np.maximum(encoder.weights[0] @ scaled + encoder.biases[0], 0)
    return (encoder.weights[1] @ hidden + encoder.biases[1]).astype(np.float32)


@pytest.fixture
def model(kit, encoders, profiles, tmp_path):
    """A model with towers and encoders over a real store."""
    return lambda towers: _model(kit, encoders, profiles, tmp_path, towers)


def _model(kit, encoders, profiles, tmp_path, towers):
    folder = tmp_path / "model"
    save_encoders(encoders, folder)
    bundle = load_bundle(kit.write_model(kit.heads(), folder, towers=towers), kit.campaign())
    embeddings = kit.embeddings()
    if towers:
        own = iter(np.random.default_rng(3).normal(size=(len(embeddings), kit.width)).astype(np.float32))
        embeddings["own"] = [next(own) if side == "customer" else None for side in embeddings["side"]]
    columns = describe(profiles, embedding_width=kit.width, model_versions=[kit.model])
    store = create(tmp_path / "features", columns)
    write_profiles(store, profiles)
    publish_profiles(store, progress=False)
    publish_embeddings(store, embeddings, progress=False)
    default = stored_defaults(bundle.heads, bundle.towers)
    reader = open_reader(tmp_path / "features", kit.model, widths={side: each.size for side, each in default.items()})
    return ServedModel(
        kit.model, bundle.heads, Features(reader, default, bundle.encoders, bundle.towers), bundle.towers
    )


class Away:
    """A ledger that does not answer; keeps what it was asked to authorize."""

    async def authorize(self, proposals, known, **rest):
        self.proposals = proposals
        raise Unavailable("no route to the ledger")


class Fixed:
    def __init__(self, active):
        self.current = active


def build(campaign, price, served, registry=None, **options):
    ledger, metrics = Away(), PredictorMetrics(campaign, registry or CollectorRegistry())
    source = Fixed(Active(price, served))
    return ledger, Predictor(campaign, source, ledger, metrics, authorization_required=False, window=False, **options)


def customers(accounts, partners=None):
    return Requests(
        request_id=[f"r{number}" for number in range(len(accounts))],
        account_id=accounts,
        side=["customer"] * len(accounts),
        partner_id=partners or [""] * len(accounts),
        context={},
    )


def test_a_new_account_is_decided_on_its_own_features_and_its_reason_stays_cold_start(kit, model, encoders):
    served = model(None)
    read = asyncio.run(served.features.fetch("customer", ["new", "c1", "nobody"]))
    expected = by_hand(encoders["customer"], 41.0, "bank")
    np.testing.assert_allclose(read.matrix[0], expected, rtol=1e-5)
    np.testing.assert_array_equal(read.matrix[2], served.heads["customer"].default_embedding)
    assert read.known.tolist() == [False, True, False]
    assert read.computed_at[0] == TAKEN.timestamp()


def test_the_predictor_answers_from_the_features_of_a_new_account(kit, model, encoders):
    registry, served = CollectorRegistry(), model(None)
    ledger, predictor = build(kit.campaign(), kit.price(), served, registry)
    answers = asyncio.run(predictor.answer(customers(["new", "c1", "nobody"])))
    assert [reason == "cold_start" for reason in answers.reason] == [True, False, True]
    head = served.heads["customer"]
    curve = head.response(by_hand(encoders["customer"], 41.0, "bank")[None])[:, 0]
    assert answers.response[0] == pytest.approx(curve[answers.level[0]], rel=1e-5)
    assert ledger.proposals.features_at[0] == TAKEN.timestamp()
    assert ledger.proposals.features_at[2] is None
    assert registry.get_sample_value("shadowprice_cold_start_total", {"campaign": "spring", "side": "customer"}) == 2
    assert (
        registry.get_sample_value("shadowprice_feature_age_seconds", {"campaign": "spring", "side": "customer"}) < 360
    )


def test_new_accounts_and_partners_are_joined_with_the_request(kit, model, encoders):
    served, tower = model(kit.towers()), kit.towers()["customer"]
    baskets = {"x_basket": [1.5, 1.5, None]}
    asked = SideRequests("customer", ["new", "new", "new"], ["fresh", "never-seen", ""], baskets)
    read = asyncio.run(read_requests(served, asked))
    own, unknown = by_hand(encoders["customer"], 41.0, "bank"), np.full((1, 3), np.nan, np.float32)
    basket, partner = np.array([[1.5, 0, 0]], np.float32), by_hand(encoders["merchant"], 3.0, "bar")
    expected = [
        tower.embed(own[None], basket, partner[None]),
        tower.embed(own[None], basket, np.zeros_like(own)[None]),
        tower.embed(own[None], np.where(np.arange(3) > 0, 0, unknown).astype(np.float32), np.zeros_like(own)[None]),
    ]
    np.testing.assert_allclose(read.matrix, np.concatenate(expected), rtol=1e-4, atol=1e-6)


def test_rules_and_budgets_read_accounts_and_partners_that_came_after_the_start(kit, model):
    shops = GroupBudget(name="shops", limit=1_000_000, where='partner.c_kind == "shop"')
    campaign = kit.campaign(rules=(BARS, MINORS), limits=Limits(budgets=(shops,)))
    ledger, predictor = build(
        campaign,
        kit.price(prices={"budget": 0.004, "shops": 0.0}),
        model(None),
        attributes={
            "customer": Attributes.of(["c1", "c2"], {"x_age": [30.0, 16.0]}),
            "merchant": Attributes.of(["m1", "m2"], {"c_kind": ["bar", "shop"]}),
        },
    )
    asked = [
        ("c1", "shop"),
        ("c1", "fresh"),
        ("new", "m2"),
        ("child", "m2"),
        ("c2", "m2"),
        ("stranger", "m2"),
        ("c1", "m1"),
    ]
    answers = asyncio.run(predictor.answer(customers(*map(list, zip(*asked, strict=True)))))
    allowed = [reason != "ineligible" for reason in answers.reason]
    assert allowed == [True, False, True, False, False, False, False]
    assert ledger.proposals.groups == ["shops", "shops"]


def test_rules_that_cannot_read_a_new_account_say_that_the_answer_is_degraded(kit, model, monkeypatch):
    attributes = {"customer": Attributes.of(["c1"], {"x_age": [30.0]})}
    registry = CollectorRegistry()
    _, predictor = build(kit.campaign(rules=(MINORS,)), kit.price(), model(None), registry, attributes=attributes)

    async def fails(*_):
        return None

    def degraded():
        return registry.get_sample_value("shadowprice_degraded_total", {"campaign": "spring", "reason": "features"})

    asyncio.run(predictor.answer(customers(["new"])))
    assert degraded() == 0
    monkeypatch.setattr(Features, "profiles", fails)
    assert asyncio.run(predictor.answer(customers(["new"]))).reason == ["ineligible"]
    assert degraded() == 1
    asyncio.run(predictor.answer(customers(["c1"])))
    assert degraded() == 1


def test_the_solve_embeds_requests_by_the_function_of_the_service_and_has_its_curves(kit, model, tmp_path, monkeypatch):
    served = model(kit.towers())
    kit.write_campaign(kit.campaign(), tmp_path / "campaign.json")
    asked = [
        ("new", "fresh", 1.5),
        ("c1", "m1", None),
        ("c1", "", None),
        ("nobody", "never-seen", 2.0),
        ("new", "", None),
    ]
    accounts, partners, baskets = map(list, zip(*asked, strict=True))
    calls = set()
    both = {(solve, embed_requests), (solve, account_vectors), (context, embed_requests), (features, account_vectors)}
    for module, function in both:
        assert getattr(module, function.__name__) is function

        def counted(*asked, function=function, module=module):
            calls.add((module, function))
            return function(*asked)

        monkeypatch.setattr(module, function.__name__, counted)
    read = asyncio.run(read_requests(served, SideRequests("customer", accounts, partners, {"x_basket": baskets})))
    found = Solver(tmp_path).curves("customer", np.array(accounts), np.array(partners), {"x_basket": baskets})
    np.testing.assert_array_equal(found.response, served.heads["customer"].response(read.matrix))
    assert len(np.unique(found.response, axis=1).T) == 5
    assert calls == both
