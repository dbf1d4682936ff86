"""Requests that carry context: the decision is that of the curve computed from account, partner and context."""

import itertools
import json
import random
from collections import Counter
from contextlib import closing
from types import SimpleNamespace

import grpc
import httpx
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages
from kserve.protocol.grpc import grpc_predict_v2_pb2_grpc as service

from serving.client.client import DecisionClient
from serving.ledger.sqlite.reader import open_for_reading
from serving.local.replay import ServiceDay
from shadowprice.curves import Curves
from shadowprice.decision import decide
from shadowprice.errors import InvalidRequest
from shadowprice.learning.comparison.value import marked
from shadowprice.learning.training_set import TrainingSet
from shadowprice.pacing.replay.day import Day
from shadowprice.pacing.replay.ledger import SimulatedLedger
from shadowprice.pacing.replay.policies import PricedPolicy
from shadowprice.policy import Choices
from shadowprice.responses.inputs import Inputs

LEVELS = np.array([0, 50, 80, 130])
COUNT = itertools.count()
CHANNELS = {"app": 1, "web": 2}


@pytest.fixture
def client(world):
    world.publish(prices={"budget": 0.004, "customers": 0.001, "apps": 0.006})
    with DecisionClient(world.predictor.url, "spring") as client:
        yield client


def by_evaluator(world, accounts, partners, basket, channel, response, names):
    """Levels by which the offline evaluator compares models, at the prices of the service."""
    columns = {"account_id": accounts, "partner_id": partners, "x_basket": basket, "c_channel": channel}
    rows, context = pd.DataFrame(columns).assign(split="test"), ("x_basket", "c_channel")
    data = TrainingSet({"customer": rows}, {}, Inputs(), {"customer": tuple(LEVELS)}, {"customer": context})
    (curves,) = marked(world.coverage, data, {"customer": Curves(LEVELS, response)}).values()
    main, *further = world.price.of(world.campaign.priced)
    choices = Choices.of(world.campaign, "customer", response, curves.bits, curves.allowed)
    return choices.net_of(np.array(further)).decide([main], 0.4, names).level


def by_replay(world, accounts, partners, basket, channel, response, names, ledger=None):
    """Levels of a simulated day; with a ledger, under the hard stop of what it holds."""
    return answers_of_replay(world, accounts, partners, basket, channel, response, names, ledger).level


def answers_of_replay(world, accounts, partners, basket, channel, response, names, ledger):
    context = {name: np.array(values, dtype=object) for name, values in (("x_basket", basket), ("c_channel", channel))}
    at = np.linspace(0, 0.5, len(names))
    day = Day(np.array(names), np.array(accounts), np.full(len(names), "customer"), at, 24, np.array(partners), context)
    # A replay has the curves of accounts; here each request has its own.
    model = {"customer": SimpleNamespace(of=lambda _: Curves(LEVELS, response))}
    kept = ledger or SimulatedLedger(world.campaign, {}, world.coverage)
    return PricedPolicy(world.campaign, model, kept, hard_stop=ledger is not None, price=world.price)(day)


def curves_by_hand(world, requests):
    """Response (J, n) of requests, from the stored vectors."""
    frame = world.embeddings.set_index(["side", "account_id"])
    head, tower = world.heads["customer"], world.towers["customer"]
    vectors = []
    for account, partner, x, c in requests:
        known = account != "nobody"
        if not partner and x is None and c is None:
            vectors.append(frame.loc[("customer", account), "embedding"] if known else head.default_embedding)
            continue
        own = frame.loc[("customer", account), "own"] if known else tower.default_own
        theirs = frame.loc[("merchant", partner), "embedding"] if partner.startswith("m") else np.zeros(own.size)
        vectors.append(by_hand(tower, own, x, c, theirs).astype(np.float32))
    return head.response(np.stack(vectors)).astype(float)


def ids(count):
    return [f"context-{next(COUNT)}" for _ in range(count)]


def by_hand(tower, own, basket, channel, partner):
    """The embedding of a request, written as plain matrix algebra."""
    raw = np.array([np.nan if basket is None else basket, channel == "app", channel == "web"], dtype=np.float64)
    scaled = np.where(np.isnan(raw), 0.0, np.clip((raw - tower.context.mean) / tower.context.scale, -8, 8))
    inputs = np.concatenate([own, scaled, partner]).astype(np.float64)
    hidden = np.maximum(tower.hidden_weight.astype(np.float64) @ inputs + tower.hidden_bias, 0.0)
    return own + tower.out_weight.astype(np.float64) @ hidden + tower.out_bias


def over_v2(world, names, accounts, partners, basket, channel):
    with DecisionClient(world.predictor.url, "spring") as client:
        context = {"x_basket": basket, "c_channel": channel}
        found = client.decide(names, accounts, ["customer"] * len(names), partners, context)
    return found.level.tolist(), found.response.tolist()


def over_v1(world, names, accounts, partners, basket, channel):
    instances = []
    for name, account, partner, x, c in zip(names, accounts, partners, basket, channel, strict=True):
        instance = {"request_id": name, "account_id": account, "side": "customer"}
        instance |= {"partner_id": partner} if partner else {}
        context = {key: value for key, value in (("x_basket", x), ("c_channel", c)) if value is not None}
        instances.append(instance | ({"context": context} if context else {}))
    answer = httpx.post(f"{world.predictor.url}/v1/models/spring:predict", json={"instances": instances}).json()
    return [each["level"] for each in answer["predictions"]], [each["response"] for each in answer["predictions"]]


def over_grpc(world, names, accounts, partners, basket, channel):
    message = messages.ModelInferRequest(model_name="spring")
    texts = {"request_id": names, "account_id": accounts, "side": ["customer"] * len(names), "partner_id": partners}
    for name, values in (texts | {"c_channel": [each or "" for each in channel]}).items():
        tensor = message.inputs.add(name=name, datatype="BYTES", shape=[len(values)])
        tensor.contents.bytes_contents.extend([value.encode() for value in values])
    tensor = message.inputs.add(name="x_basket", datatype="FP64", shape=[len(names)])
    tensor.contents.fp64_contents.extend([np.nan if each is None else each for each in basket])
    with grpc.insecure_channel(f"127.0.0.1:{world.grpc_port}") as wire:
        found = service.GRPCInferenceServiceStub(wire).ModelInfer(message)
    outputs = {output.name: output.contents for output in found.outputs}
    return list(outputs["level"].int_contents), list(outputs["response"].fp64_contents)


REQUEST = st.tuples(
    st.sampled_from([*(f"c{number}" for number in range(8)), "nobody"]),
    st.sampled_from(["", "m1", "m2", "never-seen"]),
    st.one_of(st.none(), st.floats(-20, 20, width=32)),
    st.sampled_from([None, "app", "web", "telephone"]),
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(REQUEST, min_size=1, max_size=12), st.sampled_from([over_v1, over_v2, over_grpc]))
@example([("c0", "m1", None, None)], over_v1)
def test_service_replay_and_evaluator_decide_by_context_budgets_and_rules(world, client, requests, ask):
    accounts, partners, basket, channel = (list(column) for column in zip(*requests, strict=True))
    names = ids(len(requests))
    levels, responses = ask(world, names, accounts, partners, basket, channel)
    response = curves_by_hand(world, requests)
    charge = LEVELS[:, None] * response * np.where(np.array(channel) == "app", 0.011, 0.005)
    allowed = (LEVELS[:, None] <= 80) | (np.array(partners) != "m1")
    expected = decide(response, charge, [1.0], 0.4, names, allowed)
    for offline in (by_evaluator, by_replay):
        found = offline(world, accounts, partners, basket, channel, response, names)
        np.testing.assert_array_equal(found, expected.level)
    np.testing.assert_allclose(responses, response[expected.level, np.arange(len(names))], rtol=1e-5)
    assert levels == expected.level.tolist()


def test_service_and_replay_cut_decisions_alike_by_caps_and_budgets_and_the_evaluator_decides_the_rest(limited_world):
    world, dice = limited_world, random.Random(5)
    world.publish(prices={"budget": 0.002, "customers": 0.0005, "apps": 0.001})
    ledger, reasons = SimulatedLedger(world.campaign, {"customer": np.zeros(0, str)}, world.coverage), Counter()
    for number in range(45):
        requests = [
            (
                dice.choice([*(f"c{place}" for place in range(40)), "nobody"]),
                dice.choice(["m1", "m2", *(f"p{place}" for place in range(20))]),
                dice.choice([None, dice.uniform(-3, 3)]),
                dice.choice([None, "app", "web"]),
            )
            for _ in range(dice.randint(1, 12))
        ]
        accounts, partners, basket, channel = (list(column) for column in zip(*requests, strict=True))
        names = ids(len(requests))
        levels, _ = (over_v1, over_v2, over_grpc)[number % 3](world, names, accounts, partners, basket, channel)
        response = curves_by_hand(world, requests)
        replayed = answers_of_replay(world, accounts, partners, basket, channel, response, names, ledger)
        assert levels == replayed.level.tolist()
        reasons.update(replayed.reason.tolist())
        free = ~np.isin(replayed.reason, ["capped", "budget_exhausted"])
        judged = by_evaluator(world, accounts, partners, basket, channel, response, names)
        assert judged[free].tolist() == replayed.level[free].tolist()
        assert np.all(replayed.level[~free] == 0)
        assert np.all(judged[~free] > 0)
    with closing(open_for_reading(world.deployment.ledger_db)) as rows:
        limited = Counter(dict(rows.execute("SELECT limited_by, COUNT(*) FROM decision GROUP BY 1")))
    assert set(limited) == {"", "often", "much", "shop", "apps"}, limited
    assert reasons["capped"] + reasons["budget_exhausted"] == limited.total() - limited[""]


def test_a_replay_against_the_services_names_the_partners_of_its_day(world, client):
    names, partners = ids(3), ["m1", "", "m2"]
    at, who = np.linspace(0, 0.5, 3), np.array(["c1", "c2", "c3"])
    day = Day(np.array(names), who, np.full(3, "customer"), at, 24, np.array(partners))
    services = SimpleNamespace(predictor_url=world.predictor.url, ledger_url=world.ledger.url, campaign="spring")
    replayed = ServiceDay(services, world.deployment.model_dir, None, None, None)
    with replayed._decisions, replayed._ledger:
        replayed.decide(day)
    with closing(open_for_reading(world.deployment.ledger_db)) as rows:
        kept = dict(rows.execute("SELECT request_id, partner_id FROM decision"))
    assert [kept[name] for name in names] == partners


def test_the_metadata_names_the_context_that_the_model_reads(world, client):
    inputs = httpx.get(f"{world.predictor.url}/v2/models/spring").json()["inputs"]
    assert [(each["name"], each["datatype"]) for each in inputs[3:]] == [
        ("partner_id", "BYTES"),
        ("x_basket", "FP64"),
        ("c_channel", "BYTES"),
    ]


@pytest.mark.parametrize(
    ("context", "side", "status", "told"),
    [
        ({"x_weather": 1.0}, "customer", 422, ["context.x_weather", "'x_basket', 'c_channel'"]),
        ({"x_basket": 1.0}, "merchant", 422, ["context.x_basket", "reads none"]),
        ({"basket": 1.0}, "customer", 422, ["context.basket", "'x_basket', 'c_channel'"]),
        ({"basket": None}, "customer", 200, []),
        ({"account_id": "c2"}, "customer", 422, ["context.account_id", "'x_basket', 'c_channel'"]),
        ({"side": "merchant"}, "customer", 422, ["context.side", "'x_basket', 'c_channel'"]),
        ({"x_basket": "much"}, "customer", 400, ["context.x_basket", "number"]),
        ({"x_basket": True}, "customer", 400, ["context.x_basket", "number"]),
        ({"c_channel": 3}, "customer", 400, ["context.c_channel", "printable"]),
        ([], "customer", 200, []),
        (["x_basket"], "customer", 400, ["context", "object"]),
    ],
)
def test_context_that_is_not_read_or_not_sound_is_refused_with_what_is(world, client, context, side, status, told):
    (name,) = ids(1)
    instance = {"request_id": name, "account_id": side[0] + "1", "side": side, "context": context}
    answer = httpx.post(f"{world.predictor.url}/v1/models/spring:predict", json={"instances": [instance]})
    assert answer.status_code == status, answer.text
    for part in told:
        assert part in answer.json()["error"]


def test_a_session_is_refused_by_a_model_that_reads_none_and_an_empty_value_is_none(world, client):
    instance = {"account_id": "c1", "side": "customer", "request_id": ids(1)[0]}
    url = f"{world.predictor.url}/v1/models/spring:predict"
    answer = httpx.post(url, json={"instances": [instance | {"session": []}]})
    assert answer.status_code == 422
    assert "session: the active model does not read it" in answer.json()["error"], answer.text
    assert httpx.post(url, json={"instances": [instance | {"session": None}]}).status_code == 200


def test_only_the_call_with_wrong_context_is_refused(world, client):
    with pytest.raises(InvalidRequest, match="x_weather"):
        client.decide(ids(2), ["c1", "c2"], ["customer"] * 2, context={"x_weather": [None, 2.0]})
    assert client.decide(ids(2), ["c1", "c2"], ["customer"] * 2, context={"x_basket": [None, 2.0]}).level.size == 2


def test_a_repeated_request_keeps_its_answer_whatever_its_context_says_now(world, client):
    names = ids(8)
    accounts, sides = [f"c{number}" for number in range(8)], ["customer"] * 8
    first = client.decide(names, accounts, sides, context={"x_basket": [-3.0] * 8})
    again = client.decide(names, accounts, sides, context={"x_basket": [3.0] * 8})
    other = client.decide(ids(8), accounts, sides, context={"x_basket": [3.0] * 8})
    assert again.repeat.all()
    np.testing.assert_array_equal(again.response, first.response)
    assert not np.array_equal(other.response, first.response)


def test_the_log_keeps_the_context(world, client):
    names = ids(3)
    client.decide(
        names,
        ["c1", "c2", "c3"],
        ["customer"] * 3,
        ["m1", "", ""],
        {"x_basket": [1.5, None, None], "c_channel": ["web", "app", None]},
    )
    rows = open_for_reading(world.deployment.ledger_db)
    kept = dict(rows.execute("SELECT request_id, context FROM decision WHERE context <> ''"))
    rows.close()
    assert [json.loads(kept[name]) if name in kept else None for name in names] == [
        {"c_channel": "web", "x_basket": 1.5},
        {"c_channel": "app"},
        None,
    ]
