"""Explanations: what they say is what the service then gives, and they leave no trace."""

import itertools
import json

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cli.main as command
from serving.client.client import DecisionClient, LedgerClient
from shadowprice.currency import Currency
from shadowprice.errors import Conflict, InvalidRequest

COUNT = itertools.count()
LEVELS = {"customer": [0, 50, 80, 130], "merchant": [20, 60, 100]}
REQUEST = st.tuples(
    st.sampled_from(["customer", "merchant"]),
    st.integers(0, 130),
    st.sampled_from(["", "m3"]),
    st.one_of(st.none(), st.floats(-5, 5)),
)


@pytest.fixture
def client(world):
    world.publish(price=0.004)
    with DecisionClient(world.predictor.url, "spring") as client:
        yield client


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(REQUEST, min_size=1, max_size=12))
def test_the_explained_choice_is_the_answer_that_the_service_gives(world, client, requests):
    names = [f"explain-{next(COUNT)}" for _ in requests]
    sides = [side for side, *_ in requests]
    accounts = [f"{side[0]}{number}" for side, number, *_ in requests]
    partners = [partner if side == "customer" else "" for side, _, partner, _ in requests]
    basket = [value if side == "customer" else None for side, *_, value in requests]
    asked = (names, accounts, sides, partners, {"x_basket": basket})
    told = client.explain(*asked)
    answers = client.decide(*asked)
    assert told["price_version"] == answers.active_price_version
    assert told["model_version"] == answers.active_model_version
    assert not answers.repeat.any()
    for row, each in enumerate(told["explanations"]):
        assert (each["level"], each["incentive"]) == (answers.level[row], answers.incentive[row])
        assert (each["reason"], each["arm"]) == (answers.reason[row], answers.arm[row])
        levels = each["levels"]
        assert [level["incentive"] for level in levels] == LEVELS[sides[row]]
        chosen = levels[each["level"]]
        assert chosen["response"] == answers.response[row]
        assert chosen["expected_cost"] == answers.expected_cost[row]
        assert chosen["propensity"] == answers.propensity[row]
        assert sum(level["propensity"] for level in levels) == pytest.approx(1.0)
        scores = np.array([level["value"] - 0.004 * level["expected_cost"] for level in levels])
        np.testing.assert_allclose([level["score"] for level in levels], scores, rtol=1e-12)
        assert each["best_level"] == scores.argmax()
        assert each["runner_up"] == np.argsort(-scores, kind="stable")[1]
        assert each["margin"] == pytest.approx(scores[each["best_level"]] - scores[each["runner_up"]], abs=1e-15)
        assert (each["features_at"] is None) == (int(accounts[row][1:]) >= 120)


def test_an_explanation_is_neither_recorded_nor_counted(world, client, samples):
    with LedgerClient(world.ledger.url) as ledger:
        before = ledger.totals() | {"observed_at": ""}
        counted = samples(world.predictor.url)
        client.explain(["once"] * 1, ["nobody"], ["customer"])
        client.explain(["once"] * 1, ["nobody"], ["customer"])
        assert ledger.totals() | {"observed_at": ""} == before
    after = samples(world.predictor.url)
    moved = {key[0] for key in after if after[key] != counted.get(key)}
    assert not {name for name in moved if name.startswith("shadowprice_") and "age" not in name}
    assert not client.decide(["once"], ["nobody"], ["customer"]).repeat.any()


def test_what_cannot_be_decided_cannot_be_explained(client):
    with pytest.raises(InvalidRequest, match="x_weather"):
        client.explain(["r"], ["c1"], ["customer"], context={"x_weather": [1.0]})
    with pytest.raises(Conflict, match="two accounts"):
        client.explain(["r", "r"], ["c1", "c2"], ["customer"] * 2)
    with pytest.raises(InvalidRequest, match="side"):
        client.explain(["r"], ["c1"], ["nobody"])


def test_v1_answers_say_what_decided_them(world, client):
    body = {"instances": [{"request_id": "versions", "account_id": "c1", "side": "customer"}]}
    answer = httpx.post(f"{world.predictor.url}/v1/models/spring:predict", json=body).json()
    assert answer["price_version"] == world.price.version
    assert (answer["model_version"], answer["degraded"]) == ("test-model-1", False)
    assert 0 <= answer["price_age_seconds"] < 60


def test_the_command_prints_the_explanation(world, client, capsys):
    words = ["explain", "c1", "--campaign", "spring", "--url", world.predictor.url, "--request-id", "told"]
    words += ["--partner", "m3", "--context", "x_basket=2.5"]
    wanted = client.explain(["told"], ["c1"], ["customer"], ["m3"], {"x_basket": [2.5]})
    assert command.main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["explanations"] == wanted["explanations"]
    assert command.main(words) == 0
    shown = capsys.readouterr().out
    [one] = wanted["explanations"]
    assert f"c1, customer: incentive {Currency().write(one['incentive'])} (level {one['level']})" in shown
    assert all(f"{level['response']:.4g}" in shown for level in one["levels"])
    assert command.main([*words, "--context", "x_weather=1"]) == 1
    assert "x_weather" in capsys.readouterr().err
