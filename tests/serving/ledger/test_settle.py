from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime

import pytest

from serving.ledger.database import TABLES
from serving.ledger.events import read_events
from serving.ledger.settle import Settle
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.errors import Conflict, NotFound, ShadowpriceError

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
CAMPAIGN = Campaign(
    name="spring",
    sides={"customer": Terms(levels=(0, 50)), "merchant": Terms(levels=(20, 60), cost_basis="on_grant")},
    budget=Budget(limit=1000),
    starts_at=NOW,
)


def event(event_id="e1", request_id="c1", source="shop", **data):
    values = {"request_id": request_id, "redeemed": True, "cost": 50, "observed_at": "2024-05-01T13:00:00+02:00"}
    return {
        "specversion": "1.0",
        "id": event_id,
        "source": source,
        "type": "shadowprice.outcome.v1",
        "data": values | data,
    }


@pytest.fixture
def database():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(TABLES)
    for request_id, side, incentive in (("c1", "customer", 50), ("c2", "customer", 50), ("m1", "merchant", 60)):
        connection.execute(
            "INSERT INTO decision (request_id, account_id, side, level, incentive, response, expected_cost, propensity,"
            " reason, model_version, price_version, decided_at)"
            " VALUES (?, 'a', ?, 1, ?, 0.5, 1, 1, 'optimal', 'm', 1, 0)",
            (request_id, side, incentive),
        )
    yield connection
    connection.close()


def settle(database, *events, campaign=CAMPAIGN):
    done = Settle(campaign, read_events(json.dumps(list(events)).encode(), {}), NOW)(database)
    return done.accepted, done.repeated


def spent(database):
    return database.execute("SELECT COALESCE(SUM(spent), 0), COALESCE(SUM(responses), 0) FROM settlement").fetchone()


def test_an_outcome_is_booked_once_however_often_it_arrives(database):
    assert settle(database, event()) == (1, 0)
    assert settle(database, event(), event()) == (0, 2)
    assert settle(database, event(event_id="e9", source="bank")) == (0, 1)
    assert spent(database) == (50, 1)


def test_the_same_event_with_another_content_is_a_conflict(database):
    settle(database, event())
    with pytest.raises(Conflict, match=r"\[1\]\.id: event 'e1'"):
        settle(database, event(event_id="e2", request_id="c2"), event(cost=49))
    with pytest.raises(Conflict, match="'e1'"):
        settle(database, event(request_id="c2"))


def test_a_request_is_not_settled_twice_with_two_outcomes(database):
    settle(database, event())
    with pytest.raises(Conflict, match="'c1' is settled"):
        settle(database, event(event_id="e2", redeemed=False, cost=0))
    assert spent(database) == (50, 1)


def test_the_same_event_id_of_two_sources_is_two_events(database):
    assert settle(database, event(source="a"), event(source="b", request_id="c2")) == (2, 0)
    assert spent(database) == (100, 2)


def test_a_merchants_outcome_is_a_ratio_of_shares(database):
    merchant = event(request_id="m1", cost=60, response=1.75)
    del merchant["data"]["redeemed"]
    assert settle(database, merchant) == (1, 0)
    assert spent(database) == (60, 1.75)


def test_an_outcome_of_a_request_that_was_never_decided_is_not_found(database):
    with pytest.raises(NotFound, match=r"\[0\]\.data\.request_id: request 'nobody'"):
        settle(database, event(request_id="nobody"))


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"cost": 51}, "[0].data.cost"),
        ({"redeemed": False, "cost": 50}, "[0].data.cost"),
        ({"response": 0.5}, "[0].data.response"),
        ({"redeemed": None, "response": 1.0}, "[0].data.redeemed"),
        ({"request_id": "m1", "cost": 61}, "[0].data.cost"),
    ],
)
def test_an_outcome_that_cannot_be_is_refused(database, data, field):
    with pytest.raises(ShadowpriceError) as refusal:
        settle(database, event(**data))
    assert (refusal.value.field, refusal.value.status) == (field, 422)
    assert spent(database) == (0, 0)


def test_a_merchant_paid_on_response_may_cost_more_than_one_incentive(database):
    campaign = Campaign(
        name="spring", sides={"merchant": Terms(levels=(20, 60))}, budget=Budget(limit=1000), starts_at=NOW
    )
    assert settle(database, event(request_id="m1", cost=90, response=1.5), campaign=campaign) == (1, 0)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"specversion": "0.3"}, "specversion"),
        ({"specversion": None}, "specversion"),
        ({"id": ""}, "id"),
        ({"id": 7}, "id"),
        ({"source": "x" * 300}, "source"),
        ({"type": None}, "type"),
        ({"data": None}, "data"),
        ({"data": {}}, "data.request_id"),
    ],
)
def test_a_broken_envelope_is_refused_with_its_field(change, field):
    broken = {key: value for key, value in (event() | change).items() if value is not None}
    with pytest.raises(ShadowpriceError) as refusal:
        read_events(json.dumps(broken).encode(), {})
    assert (refusal.value.field, refusal.value.status) == (field, 422)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"cost": -1}, "data.cost"),
        ({"cost": 1.5}, "data.cost"),
        ({"cost": "50"}, "data.cost"),
        ({"cost": 10**30}, "data.cost"),
        ({"redeemed": "yes"}, "data.redeemed"),
        ({"redeemed": 2}, "data.redeemed"),
        ({"response": -0.1}, "data.response"),
        ({"observed_at": "2024-05-01T13:00:00"}, "data.observed_at"),
        ({"observed_at": "yesterday"}, "data.observed_at"),
        ({"request_id": ""}, "data.request_id"),
        ({"price": 1}, "data.price"),
    ],
)
def test_broken_data_is_refused_with_its_field(data, field):
    with pytest.raises(ShadowpriceError) as refusal:
        read_events(json.dumps(event(**data)).encode(), {})
    assert refusal.value.field == field


def test_an_outcome_without_redeemed_and_response_is_refused():
    bare = event()
    del bare["data"]["redeemed"]
    with pytest.raises(ShadowpriceError) as refusal:
        read_events(json.dumps(bare).encode(), {})
    assert refusal.value.field == "data.redeemed"


def test_structured_batched_and_binary_events_say_the_same():
    one = event(redeemed=1)
    structured = read_events(json.dumps(one | {"time": "2024-05-01T12:00:00Z", "traceparent": "x"}).encode(), {})
    (batched,) = read_events(json.dumps([event()]).encode(), {})
    headers = {f"ce-{name}": one[name] for name in ("specversion", "id", "source", "type")}
    binary = read_events(json.dumps(one["data"]).encode(), headers)
    assert structured == binary
    assert structured[0].content == batched.content
    assert structured[0].redeemed is True
