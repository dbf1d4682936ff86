"""Both services as processes, asked over HTTP."""

import shutil
import sqlite3
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli.doctor.finding import Target
from cli.doctor.services import ledger as ledger_service
from cli.doctor.services import predictor
from serving.client.check import check
from serving.client.client import DecisionClient, LedgerClient, Outcome
from serving.ledger.sqlite.database import open_for_reading
from serving.local.launch import free_port, start_ledger, start_predictor
from serving.protocol import OUTPUTS
from shadowprice.decision import decide
from shadowprice.errors import Conflict, InvalidRequest, NotFound, Unavailable
from shadowprice.pacing.spend import MetricsSpend

LEVELS = {"customer": np.array([0, 50, 80, 130]), "merchant": np.array([20, 60, 100])}
FIELDS = ("incentive", "level", "response", "expected_cost", "propensity")
_serial = iter(range(10**9))


def fresh_ids(count):
    return [f"request-{next(_serial)}" for _ in range(count)]


@pytest.fixture
def client(world):
    with DecisionClient(world.predictor.url, "spring") as client:
        yield client


@pytest.fixture
def ledger(world):
    with LedgerClient(world.ledger.url) as ledger:
        yield ledger


def test_nothing_is_answered_before_model_price_and_store_are_warm(world, unready_answers):
    assert unready_answers["live"] == (200, {"live": True})
    assert unready_answers["server"][0] == 503
    assert unready_answers["model"][0] == 503
    status, answer = unready_answers["predict"]
    assert (status, "not ready" in answer["error"]) == (503, True)
    assert httpx.get(f"{world.predictor.url}/v2/health/ready").json() == {"ready": True}
    assert httpx.get(f"{world.predictor.url}/v2/models/spring/ready").json()["ready"] is True
    assert httpx.get(f"{world.predictor.url}/v1/models/spring").json() == {"name": "spring", "ready": True}


def test_the_metadata_names_the_inputs_and_outputs_of_the_contract(world):
    metadata = httpx.get(f"{world.predictor.url}/v2/models/spring").json()
    assert [tensor["name"] for tensor in metadata["inputs"]][:4] == ["request_id", "account_id", "side", "partner_id"]
    assert {tensor["name"]: tensor["datatype"] for tensor in metadata["outputs"]} == {
        "incentive": "INT64",
        "level": "INT32",
        "offer_id": "BYTES",
        "response": "FP64",
        "expected_cost": "FP64",
        "propensity": "FP64",
        "reason": "BYTES",
        "repeat": "BOOL",
        "price_version": "INT64",
        "model_version": "BYTES",
        "arm": "BYTES",
        "limited_by": "BYTES",
    }


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_the_service_answers_what_decide_says_and_the_ledger_keeps(world, client, data):
    """Prices are drawn at random, and so that two levels of one account tie."""
    frame = world.embeddings.set_index(["side", "account_id"])["embedding"]
    accounts = data.draw(
        st.lists(st.tuples(st.sampled_from(list(LEVELS)), st.integers(0, 119)), min_size=1, max_size=40)
    )
    sides = [side for side, _ in accounts]
    names = [f"{side[0]}{number}" for side, number in accounts]
    levels = LEVELS[sides[0]]
    curve = world.heads[sides[0]].response(frame[sides[0], names[0]][None])[:, 0].astype(float)
    worth, cost = (curve, levels * curve) if sides[0] == "customer" else (0.5 * curve, levels.astype(float))
    # Above this price the cheapest level is best; at it, it ties with another one.
    break_even = float(((worth[1:] - worth[0]) / (cost[1:] - cost[0])).max())
    ties = break_even > 0 and data.draw(st.booleans(), label="at the tie")
    price = break_even if ties else data.draw(st.floats(0, 0.02), label="price")
    tie_share = data.draw(st.floats(0, 1), label="tie share")
    record = world.publish(price=price, tie_share=tie_share)
    ids = fresh_ids(len(names))
    # The account whose levels tie asks several times, so that both sides of the tie are seen.
    ids, names, sides = ids + fresh_ids(6), names + names[:1] * 6, sides + sides[:1] * 6

    answers = client.decide(ids, names, sides)

    assert answers.active_price_version == record.version
    assert set(answers.price_version.tolist()) == {record.version}
    rows = open_for_reading(world.deployment.ledger_db)
    stored = {
        row[0]: row[1:]
        for row in rows.execute(
            "SELECT request_id, incentive, level, response, expected_cost, propensity FROM decision"
        )
    }
    rows.close()
    for side in set(sides):
        own = [row for row, each in enumerate(sides) if each == side]
        response = world.heads[side].response(np.stack([frame[side, names[row]] for row in own]))
        value = response.astype(float) * (1.0 if side == "customer" else 0.5)
        charge = LEVELS[side][:, None] * (response.astype(float) if side == "customer" else np.ones(response.shape))
        expected = decide(value, charge, [price], tie_share, [ids[row] for row in own])
        np.testing.assert_array_equal(answers.level[own], expected.level)
        np.testing.assert_array_equal(answers.propensity[own], expected.propensity)
        np.testing.assert_array_equal(answers.incentive[own], LEVELS[side][expected.level])
        chosen = (expected.level, np.arange(len(own)))
        np.testing.assert_array_equal(answers.response[own], response.astype(float)[chosen])
        np.testing.assert_array_equal(answers.expected_cost[own], charge[chosen])
        assert [answers.reason[row] == "tie" for row in own] == expected.tied.tolist()
    if ties:
        assert answers.reason[0] == "tie"
    for row, request_id in enumerate(ids):
        assert stored[request_id] == tuple(getattr(answers, name)[row] for name in FIELDS)


def test_a_repeated_request_gets_the_first_answer_under_any_price(world, client):
    ids = fresh_ids(30)
    accounts = [f"c{number}" for number in range(30)]
    world.publish(price=0.0)
    first = client.decide(ids, accounts, ["customer"] * 30)
    world.publish(price=0.5)
    second = client.decide(ids[::-1], accounts[::-1], ["customer"] * 30)
    other = client.decide(fresh_ids(30), accounts, ["customer"] * 30)
    assert second.active_price_version > first.active_price_version
    assert (first.repeat.any(), second.repeat.all()) == (False, True)
    for name in (*FIELDS, "reason", "price_version", "model_version"):
        np.testing.assert_array_equal(getattr(second, name)[::-1], getattr(first, name))
    assert not np.array_equal(other.level, first.level)


def test_v1_and_v2_give_the_same_answers(world, client):
    accounts, sides = ["c1", "m2", "nobody", "c1"], ["customer", "merchant", "merchant", "customer"]
    ids = fresh_ids(4)
    two = client.decide(ids, accounts, sides)
    instances = [
        {"request_id": request_id, "account_id": account, "side": side}
        for request_id, account, side in zip(ids, accounts, sides, strict=True)
    ]
    one = httpx.post(f"{world.predictor.url}/v1/models/spring:predict", json={"instances": instances}).json()
    for row, prediction in enumerate(one["predictions"]):
        assert prediction.pop("repeat") is True
        assert prediction == {name: getattr(two, name)[row] for name in OUTPUTS if name != "repeat"}


def test_graphs_and_clients_of_kserve_call_the_model_as_its_service_is_called(world, client):
    """An InferenceGraph without a ``--model_name`` posts to ``/v1/models/<InferenceService>:predict``."""
    asked = {"instances": [{"request_id": fresh_ids(1)[0], "account_id": "c1", "side": "customer"}]}
    first, again = (
        httpx.post(f"{world.predictor.url}/v1/models/{name}:predict", json=asked).json()["predictions"][0]
        for name in ("spring-2027", "spring")
    )
    assert (first.pop("repeat"), again.pop("repeat")) == (False, True)
    assert first == again
    for path in ("/v1/models/{}", "/v2/models/{}", "/v2/models/{}/ready"):
        answers = [httpx.get(world.predictor.url + path.format(name)) for name in ("spring-2027", "spring", "winter")]
        assert [each.status_code for each in answers] == [200, 200, 404]


def test_an_unknown_account_is_a_cold_start_and_counted(world, client, samples):
    before = samples(world.predictor.url)
    answers = client.decide(fresh_ids(2), ["c3", "never-seen"], ["customer", "customer"])
    assert (answers.reason[1], answers.degraded) == ("cold_start", False)
    assert answers.reason[0] != "cold_start"
    default = world.heads["customer"].response(world.heads["customer"].default_embedding[None])
    assert answers.response[1] == default[answers.level[1], 0]
    key = ("shadowprice_cold_start_total", (("campaign", "spring"), ("side", "customer")))
    assert samples(world.predictor.url)[key] == before[key] + 1


def test_a_stale_price_degrades_and_a_fresh_one_heals(world, client, samples):
    now = datetime.now(UTC)
    world.publish(solved_at=now - timedelta(hours=5), expires_at=now - timedelta(hours=3))
    stale = client.decide(fresh_ids(1), ["c1"], ["customer"])
    assert (stale.reason[0], stale.degraded) == ("stale_price", True)
    assert stale.price_age_seconds == pytest.approx(5 * 3600, abs=60)
    age = samples(world.predictor.url)["shadowprice_price_age_seconds", (("campaign", "spring"),)]
    assert age == pytest.approx(5 * 3600, abs=60)
    world.publish()
    fresh = client.decide(fresh_ids(1), ["c1"], ["customer"])
    assert (fresh.reason[0], fresh.degraded) == ("optimal", False)


def test_a_poisoned_or_rolled_back_price_is_ignored_and_counted(world, client, samples):
    good = world.publish()
    key = ("shadowprice_price_rejected_total", (("campaign", "spring"), ("reason", "unsound")))
    before = samples(world.predictor.url)[key]
    folder = world.deployment.prices_dir / "spring"
    rolled_back = folder / f"{good.version + 1:010d}.json"
    shutil.copy(folder / "0000000001.json", folder / ".copy")
    (folder / ".copy").rename(rolled_back)
    poisoned = folder / f"{good.version + 2:010d}.json"
    (folder / ".poison").write_text(rolled_back.read_text().replace("1", "2"))
    (folder / ".poison").rename(poisoned)
    deadline = time.monotonic() + 10
    while samples(world.predictor.url)[key] < before + 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert samples(world.predictor.url)[key] == before + 2
    assert client.decide(fresh_ids(1), ["c1"], ["customer"]).active_price_version == good.version
    newer = world.publish()
    assert newer.version == good.version + 3
    assert client.decide(fresh_ids(1), ["c1"], ["customer"]).active_price_version == newer.version


def test_a_request_id_of_another_account_is_a_conflict_over_http(client):
    (request_id,) = fresh_ids(1)
    client.decide([request_id], ["c1"], ["customer"])
    with pytest.raises(Conflict, match=request_id):
        client.decide([request_id], ["c2"], ["customer"])
    with pytest.raises(Conflict, match="rows 0 and 1"):
        client.decide(["same", "same"], ["c1", "c1"], ["customer", "merchant"])
    with pytest.raises(InvalidRequest) as refusal:
        client.decide(["x"], [""], ["customer"])
    assert refusal.value.field == "account_id"


def test_another_campaign_is_not_found(world):
    with DecisionClient(world.predictor.url, "autumn") as stranger, pytest.raises(NotFound, match="autumn"):
        stranger.decide(fresh_ids(1), ["c1"], ["customer"])


def test_the_whole_life_of_a_request_is_counted_once(world, client, ledger):
    before = ledger.totals()
    world.publish(price=0.0)
    ids = fresh_ids(3)
    answers = client.decide(ids, ["c1", "c2", "m1"], ["customer", "customer", "merchant"])
    assert answers.incentive.tolist() == [130, 130, 100]
    between = ledger.totals()
    assert between["outstanding"] == before["outstanding"] + 360
    now = datetime.now(UTC)
    outcomes = [
        Outcome(request_id=ids[0], redeemed=True, cost=130, observed_at=now),
        Outcome(request_id=ids[1], redeemed=False, cost=0, observed_at=now),
        Outcome(request_id=ids[2], response=1.25, cost=100, observed_at=now),
    ]
    assert ledger.settle(outcomes, "test") == (3, 0)
    assert ledger.settle(outcomes, "test") == (0, 3)
    after = ledger.totals()
    assert after["spent"] == before["spent"] + 230
    assert after["authorized"] == before["authorized"] + 360
    assert after["outstanding"] == before["outstanding"]
    assert after["money_left"] == before["money_left"] - 230
    assert after["responses"]["customer"] == before["responses"]["customer"] + 1
    assert after["responses"]["merchant"] == before["responses"]["merchant"] + 1.25
    assert after["requests"]["customer"] == before["requests"]["customer"] + 2
    report = MetricsSpend([f"{world.predictor.url}/metrics", f"{world.ledger.url}/metrics"]).read("spring")
    assert (report.spent, report.requests) == (after["net_spent"], after["requests"])
    withdrawn = after["withdrawn_by_side"]
    assert report.responses == {side: value - withdrawn[side] for side, value in after["responses"].items()}


def test_recent_traffic_is_counted_by_hour_and_sampled_newest_first(client, ledger):
    start = datetime.now(UTC).replace(minute=15, second=0, microsecond=0) - timedelta(hours=1)

    def counted():
        counts = {"customer": 0, "merchant": 0}
        for hour in (found := ledger.traffic(since=start, limit=2))["hours"]:
            assert (datetime.fromisoformat(hour["hour"]) - start) % timedelta(hours=1) == timedelta(0)
            counts[hour["side"]] += hour["requests"]
        return counts, found["sample"]

    before, _ = counted()
    ids = fresh_ids(5)
    client.decide(ids, ["c1", "c2", "m1", "c3", "m2"], ["customer", "customer", "merchant", "customer", "merchant"])
    after, sample = counted()
    assert (after["customer"] - before["customer"], after["merchant"] - before["merchant"]) == (3, 2)
    assert sample == [
        {"request_id": ids[4], "account_id": "m2", "side": "merchant", "partner_id": "", "context": ""},
        {"request_id": ids[3], "account_id": "c3", "side": "customer", "partner_id": "", "context": ""},
    ]
    assert ledger.traffic(since=start + timedelta(hours=3))["hours"] == []
    with pytest.raises(InvalidRequest, match="since: must be the start of a quarter of an hour in UTC"):
        ledger.traffic(since=start + timedelta(microseconds=1))


OF_THE_MACHINE = {
    f"shadowprice_{name}"
    for name in ("clock_skew_seconds", "disk_free_bytes", "disk_size_bytes", "store_bytes", "watch_age_seconds")
}
"""Gauges that change without a request."""


def doctor(world, **addresses):
    """Faults that ``shadowprice doctor`` finds of the services, by check."""
    target = Target(**{"predictor_url": world.predictor.url, "ledger_url": world.ledger.url} | addresses)
    return {found.check: found.sentence for check in (predictor, ledger_service) for found in check(target)}


def test_a_ledger_that_is_down_stops_authorizations_and_its_restart_loses_nothing(world, client, ledger, samples):
    (request_id,) = fresh_ids(1)
    first = client.decide([request_id], ["c1"], ["customer"])
    totals = ledger.totals()
    counters = {
        key: value
        for key, value in samples(world.ledger.url).items()
        if dict(key[1]).get("reason") != "repeat" and key[0] not in OF_THE_MACHINE
    }
    assert doctor(world) == {}
    swapped = doctor(world, predictor_url=world.ledger.url, ledger_url=world.predictor.url)
    assert swapped == {
        "predictor": f"what answers at {world.ledger.url} is not a predictor; correct the address.",
        "ledger": f"what answers at {world.predictor.url} is not a ledger; correct the address.",
    }
    world.ledger.stop()
    assert "does not answer" in doctor(world)["ledger"]
    with pytest.raises(Unavailable, match=r"503.*without authorization"):
        client.decide(fresh_ids(1), ["c1"], ["customer"])
    assert httpx.get(f"{world.predictor.url}/v2/health/live").status_code == 200
    world.restart_ledger()
    again = client.decide([request_id], ["c1"], ["customer"])
    assert (again.repeat[0], again.reason[0]) == (True, first.reason[0])
    assert [getattr(again, name)[0] for name in FIELDS] == [getattr(first, name)[0] for name in FIELDS]
    with LedgerClient(world.ledger.url) as restarted:
        after = restarted.totals()
    assert after | {"observed_at": 0} == totals | {"observed_at": 0}
    restored = samples(world.ledger.url)
    assert {key: restored[key] for key in counters} == counters
    key = ("shadowprice_degraded_total", (("campaign", "spring"), ("reason", "unauthorized")))
    assert samples(world.predictor.url)[key] == 0


def test_after_the_window_a_predictor_repeats_what_was_decided_and_gives_nothing_else(world, client, ledger, samples):
    """The campaign's day is long over; all other predictors here have their window off."""
    world.publish(price=0.0)
    old, *new = fresh_ids(3)
    first = client.decide([old], ["c1"], ["customer"])
    requests = ledger.totals()["requests"]
    predictor = start_predictor(replace(world.deployment, window="on"), free_port(), world.ledger.url)
    try:
        predictor.wait_ready(120.0)
        with DecisionClient(predictor.url, "spring") as closed:
            found = closed.decide([old, *new], ["c1", "c1", "m1"], ["customer", "customer", "merchant"])
        key = (("campaign", "spring"), ("reason", "outside_window"), ("side", "merchant"))
        assert samples(predictor.url)["shadowprice_unrecorded_answers_total", key] == 1
        assert check("spring", predictor.url, world.ledger.url, "customer", 7200.0).reason == "outside_window"
    finally:
        predictor.stop()
    assert first.incentive[0] == 130
    assert (found.reason.tolist(), found.repeat.tolist()) == (
        [first.reason[0], "outside_window", "outside_window"],
        [True, False, False],
    )
    assert (found.incentive.tolist(), found.level.tolist()) == ([130, 0, 0], [3, 0, -1])
    assert ledger.totals()["requests"] == requests


def test_a_second_ledger_on_the_same_file_is_refused(world):
    second = start_ledger(world.deployment, free_port())
    try:
        with pytest.raises(Unavailable, match="another process is writing"):
            second.wait_ready(30.0)
    finally:
        second.stop()


def test_the_ledger_file_is_durable_and_append_only_for_decisions(world):
    database = sqlite3.connect(world.deployment.ledger_db)
    assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    count, newest = database.execute("SELECT COUNT(*), MAX(sequence) FROM decision").fetchone()
    database.close()
    assert count == newest
