from __future__ import annotations

import sqlite3
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.ledger.authorise import Authorise
from serving.ledger.database import TABLES
from serving.ledger.events import Event
from serving.ledger.messages import Authorizations, Item
from serving.ledger.settle import Settle
from serving.ledger.totals import read_totals
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.errors import Conflict, NotFound, ShadowpriceError

LEVELS = {"customer": (0, 50, 130), "merchant": (20, 60)}
NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)


def make(limit=1000, form="total"):
    return Campaign(
        name="spring",
        sides={
            "customer": Terms(levels=LEVELS["customer"]),
            "merchant": Terms(levels=LEVELS["merchant"], cost_basis="on_grant"),
        },
        budget=Budget(form=form, limit=limit),
        starts_at=NOW,
    )


def item(request_id, side="customer", level=1, account_id="a", **changes):
    values = {
        "request_id": request_id,
        "account_id": account_id,
        "side": side,
        "level": level,
        "incentive": LEVELS[side][level],
        "response": 0.25,
        "expected_cost": 12.5,
        "propensity": 0.5,
        "reason": "tie",
        "response_unpaid": 0.125,
    }
    return Item(**(values | changes))


def batch(*items, campaign="spring"):
    return Authorizations(campaign=campaign, model_version="m", price_version=1, items=list(items))


@pytest.fixture
def database():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(TABLES)
    yield connection
    connection.close()


def authorise(database, *items, campaign=None, hard_stop=True):
    return Authorise(campaign or make(), hard_stop, batch(*items), NOW)(database)


def test_a_new_decision_is_stored_as_it_was_sent(database):
    (stored,) = authorise(database, item("r1"))
    assert (stored.level, stored.incentive, stored.propensity, stored.reason) == (1, 50, 0.5, "tie")
    assert not stored.repeat
    row = database.execute("SELECT account_id, side, response, expected_cost, model_version FROM decision").fetchall()
    assert row == [("a", "customer", 0.25, 12.5, "m")]


def test_a_repeat_gets_the_first_decision_whatever_it_proposes(database):
    authorise(database, item("r1", level=1))
    (stored,) = authorise(database, item("r1", level=2, propensity=1.0))
    assert (stored.level, stored.incentive, stored.propensity, stored.repeat) == (1, 50, 0.5, True)
    twice = authorise(database, item("r2"), item("r2", level=2))
    assert [(stored.level, stored.repeat) for stored in twice] == [(1, False), (1, True)]
    assert database.execute("SELECT COUNT(*), SUM(incentive) FROM decision").fetchone() == (2, 100)


@pytest.mark.parametrize("change", [{"account_id": "b"}, {"side": "merchant", "level": 0}])
def test_a_request_id_of_another_account_or_side_is_a_conflict(database, change):
    authorise(database, item("r1"))
    with pytest.raises(Conflict, match=r"items\[1\].*'r1'"):
        authorise(database, item("r0"), item("r1", **change))


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (item("r", level=1, incentive=51), "items[0].incentive"),
        (item("r", level=1, side="merchant", incentive=50), "items[0].incentive"),
    ],
)
def test_an_amount_the_campaign_does_not_offer_is_refused(database, wrong, field):
    with pytest.raises(ShadowpriceError) as refusal:
        authorise(database, wrong)
    assert (refusal.value.field, refusal.value.status) == (field, 422)


def test_a_level_the_campaign_does_not_have_is_refused(database):
    with pytest.raises(ShadowpriceError) as refusal:
        authorise(database, item("r").model_copy(update={"level": 3}))
    assert refusal.value.field == "items[0].level"


def test_another_campaign_is_not_found(database):
    with pytest.raises(NotFound, match="autumn"):
        Authorise(make(), True, batch(item("r"), campaign="autumn"), NOW)(database)


def test_promises_never_exceed_the_budget_and_a_settled_one_frees_what_it_did_not_cost(database):
    campaign = make(limit=200)
    first = authorise(database, item("a", level=2), item("b", level=1), item("c", level=1), campaign=campaign)
    assert [stored.incentive for stored in first] == [130, 50, 0]
    assert (first[2].level, first[2].reason, first[2].response) == (0, "budget_exhausted", 0.125)
    (merchant,) = authorise(database, item("m", side="merchant", level=1), campaign=campaign)
    assert (merchant.level, merchant.incentive, merchant.reason) == (-1, 0, "budget_exhausted")
    Settle(campaign, [Event("", "s", "e", "a", False, 0.0, 0, "x")], NOW)(database)
    (later,) = authorise(database, item("d", level=2), campaign=campaign)
    assert later.incentive == 130


def test_without_the_hard_stop_the_budget_does_not_bind(database):
    (stored,) = authorise(database, item("a", level=2), campaign=make(limit=0), hard_stop=False)
    assert stored.incentive == 130


def test_a_mean_budget_has_no_hard_stop(database):
    (stored,) = authorise(database, item("a", level=2), campaign=make(limit=1.5, form="per_account"))
    assert stored.incentive == 130


steps = st.lists(
    st.one_of(
        st.lists(
            st.tuples(st.integers(0, 15), st.sampled_from(["customer", "merchant"]), st.integers(0, 1)),
            min_size=1,
            max_size=4,
        ),
        st.tuples(st.integers(0, 15), st.booleans()),
    ),
    max_size=25,
)


@settings(max_examples=80, deadline=None)
@given(steps=steps, limit=st.integers(0, 400))
def test_after_any_history_the_sums_agree_with_the_rows_and_the_budget_holds(steps, limit):
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.executescript(TABLES)
    campaign = make(limit=limit)
    for step in steps:
        if isinstance(step, list):
            items = [item(f"{side}{number}", side=side, level=level) for number, side, level in step]
            authorise(database, *items, campaign=campaign)
        else:
            number, redeemed = step
            found = database.execute("SELECT incentive FROM decision WHERE request_id = ?", (f"customer{number}",))
            for (incentive,) in found.fetchall():
                event = Event(
                    "", "s", f"e{number}", f"customer{number}", redeemed, float(redeemed), incentive * redeemed, "x"
                )
                Settle(campaign, [event], NOW)(database)
    totals = read_totals(database, campaign)
    rows = database.execute(
        "SELECT side, level, reason, incentive, outcome.cost, outcome.response FROM decision"
        " LEFT JOIN outcome USING (request_id)"
    ).fetchall()
    for side in campaign.sides:
        own = [row for row in rows if row[0] == side]
        assert totals.requests[side] == len(own)
        assert totals.authorised[side] == sum(row[3] for row in own)
        assert totals.outstanding[side] == sum(row[3] for row in own if row[4] is None)
        assert totals.spent[side] == sum(row[4] or 0 for row in own)
        assert totals.responses[side] == sum(row[5] or 0 for row in own)
    assert sum(totals.outstanding.values()) + sum(totals.spent.values()) <= limit
    assert sum(totals.decisions.values()) == len(rows)
    database.close()
