"""Outcomes of every store: booked once, refused where they cannot be, and money set free or given back."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from serving.ledger.api.corrections import CorrectionEvent
from serving.ledger.api.events import read_events
from shadowprice.campaign import Terms
from shadowprice.errors import Conflict, NotFound, ShadowpriceError

HOUR = timedelta(hours=1)


def merchants(kit, most_units):
    return {"merchant": Terms(levels=kit.levels["merchant"], most_units=most_units)}


def told(recorded):
    return [(each.decision.level, each.decision.incentive, each.decision.reason, each.repeat) for each in recorded]


def test_an_outcome_is_booked_once_however_often_it_arrives(ledger, kit):
    ledger.authorize(kit.item("c1"))
    assert ledger.settle(kit.event("c1", 50)) == (1, 0)
    assert ledger.settle(kit.event("c1", 50), kit.event("c1", 50)) == (0, 2)
    assert ledger.settle(kit.event("c1", 50, event_id="e9", source="bank")) == (0, 1)
    totals = ledger.store.totals()
    assert (ledger.money(), totals.responses["customer"], totals.outcomes["customer"]) == ((0, 50), 1.0, 1)


def test_twice_in_one_call_is_once(ledger, kit):
    ledger.authorize(kit.item("c1"))
    assert ledger.settle(kit.event("c1", 50), kit.event("c1", 50), kit.event("c1", 50, event_id="e9")) == (1, 2)
    assert ledger.money() == (0, 50)


def test_another_content_of_an_event_or_request_is_a_conflict_and_nothing_of_the_call_is_kept(ledger, kit):
    ledger.authorize(kit.item("c1"), kit.item("c2"), kit.item("c3"))
    ledger.settle(kit.event("c1", 50, event_id="e1"))
    with pytest.raises(Conflict, match=r"\[1\]\.id: event 'e1'"):
        ledger.settle(kit.event("c2", 50), kit.event("c3", 50, event_id="e1"))
    with pytest.raises(
        Conflict, match=r"\[1\]\.data\.request_id: request 'c1' is settled with response 1.0 and cost 50"
    ):
        ledger.settle(kit.event("c2", 50), kit.event("c1", 0, event_id="e2"))
    with pytest.raises(Conflict, match=r"\[1\].*'c2' is settled with response 1.0 and cost 50"):
        ledger.settle(kit.event("c2", 50), kit.event("c2", 0, event_id="e3"))
    assert ledger.money() == (100, 50)
    assert ledger.settle(kit.event("c2", 50, event_id="e1", source="bank")) == (1, 0)


def written(kit, **data):
    """The event e1 about request c1 as a caller writes it."""
    sent = {"request_id": "c1", "redeemed": True, "cost": 50, "observed_at": "2024-05-01T12:00:00Z"} | data
    about = {"specversion": "1.0", "type": "shadowprice.outcome.v1", "source": "shop", "id": "e1", "data": sent}
    (event,) = read_events(json.dumps(about).encode(), {})
    return event


SPELLINGS = [
    {"observed_at": "2024-05-01T14:00:00+02:00"},
    {"observed_at": "2024-05-01T12:00:00.000000Z"},
    {"response": 1.0},
    {"response": 1},
    {"redeemed": 1},
]


@pytest.mark.parametrize("data", SPELLINGS)
def test_an_event_in_another_spelling_is_a_repeat_and_its_batch_is_kept(ledger, kit, data):
    ledger.authorize(kit.item("c1"), kit.item("c2"))
    assert ledger.settle(written(kit)) == (1, 0)
    assert ledger.settle(kit.event("c2", 50), written(kit, **data), written(kit)) == (1, 2)
    assert ledger.money() == (0, 100)


@pytest.mark.parametrize("data", [{"cost": 49}, {"observed_at": "2024-05-01T12:00:01Z"}, {"redeemed": 0, "cost": 0}])
def test_an_event_with_another_instant_response_or_cost_is_a_conflict(ledger, kit, data):
    ledger.authorize(kit.item("c1"))
    ledger.settle(written(kit))
    with pytest.raises(Conflict, match="received before with another content"):
        ledger.settle(written(kit, **data))


def test_the_amount_of_a_response_is_kept_and_another_one_is_a_conflict(ledger, kit):
    ledger.authorize(kit.item("c1"), kit.item("c2"))
    assert ledger.settle(written(kit, amount=4999, currency=ledger.campaign.currency), kit.event("c2", 0)) == (2, 0)
    assert ledger.settle(kit.event("c1", 50), kit.event("c1", 50, event_id="e9", amount=4999)) == (0, 2)
    with pytest.raises(Conflict, match=r"response 1\.0 and cost 50; a correction of kind reversal changes the amount"):
        ledger.settle(kit.event("c1", 50, event_id="e8", amount=5000))
    ledger.correct(kit.correction("c1", 50, amount=5000))
    assert ledger.settle(kit.event("c1", 50, event_id="e8", amount=5000)) == (0, 1)
    assert [row.amount for row in ledger.store.outcomes_after(0, 9)] == [4999, None]
    assert [row.amount for row in ledger.store.corrections_after(0, 9)] == [5000]
    # What callers sent before there were amounts is the same content still.
    assert json.loads(written(kit).content).keys() == {"request_id", "response", "cost", "observed_at"}


@pytest.mark.parametrize("data", SPELLINGS)
def test_a_correction_in_another_spelling_is_a_repeat(ledger, kit, data):
    ledger.authorize(kit.item("c1"), kit.item("c2"))
    ledger.settle(kit.event("c1", 0), kit.event("c2", 0))
    first, again = (CorrectionEvent(written(kit, **change), "reversal", False) for change in ({}, data))
    assert ledger.correct(first) == (1, 0)
    assert ledger.correct(again, kit.correction("c2", 10, event_id="e2")) == (1, 1)


def test_an_outcome_of_a_request_of_nobody_or_of_another_campaign_is_not_found(open_ledger, kit):
    ledger, other = open_ledger(), open_ledger()
    other.authorize(kit.item("theirs"))
    for request_id in ("nobody", "theirs"):
        with pytest.raises(NotFound, match=rf"\[0\]\.data\.request_id: request '{request_id}'"):
            ledger.settle(kit.event(request_id, 0))
    assert other.money() == (50, 0)


@pytest.mark.parametrize(
    ("forged", "field"),
    [
        ({"cost": 51}, "cost"),
        ({"cost": 50, "redeemed": False}, "cost"),
        ({"response": 0.5, "redeemed": True}, "response"),
        ({"response": 1.0}, "redeemed"),
        ({"request_id": "m1", "cost": 61, "response": 1.0}, "cost"),
        ({"request_id": "late", "cost": 51}, "cost"),
        ({"amount": 1}, "amount"),
        ({"cost": 50, "amount": 100, "currency": "XXX"}, "currency"),
    ],
)
def test_an_outcome_that_cannot_be_is_refused(ledger, kit, forged, field):
    ledger.authorize(kit.item("c1"), kit.item("m1", side="merchant"), kit.item("late"))
    ledger.release("late")
    before = ledger.money()
    values = {"request_id": "c1", "cost": 0} | forged
    with pytest.raises(ShadowpriceError) as refusal:
        ledger.settle(kit.event(**values))
    assert (refusal.value.field, refusal.value.status) == (f"[0].data.{field}", 422)
    assert ledger.money() == before


def test_a_merchant_paid_on_response_costs_as_many_incentives_as_it_brings_units(open_ledger, kit):
    ledger = open_ledger(sides=merchants(kit, most_units=2))
    ledger.authorize(kit.item("m1", side="merchant"), kit.item("m2", side="merchant"))
    assert ledger.settle(kit.event("m1", 90, response=1.5)) == (1, 0)
    with pytest.raises(ShadowpriceError, match=r"60 minor units for each of 1.5 units that were authorized"):
        ledger.settle(kit.event("m2", 91, response=1.5))


@pytest.mark.parametrize(("most_units", "cost"), [(1, 60), (2, 120)])
def test_units_beyond_those_the_terms_pay_for_are_counted_and_not_paid(open_ledger, kit, most_units, cost):
    ledger = open_ledger(sides=merchants(kit, most_units))
    ledger.authorize(kit.item("m1", side="merchant"))
    assert ledger.money() == (cost, 0)
    with pytest.raises(ShadowpriceError, match=rf"2.5 units, of which most_units = {most_units} are paid") as refusal:
        ledger.settle(kit.event("m1", cost + 1, response=2.5))
    assert (refusal.value.field, refusal.value.status) == ("[0].data.cost", 422)
    assert ledger.settle(kit.event("m1", cost, response=2.5)) == (1, 0)
    totals = ledger.store.totals()
    assert (ledger.money(), totals.responses["merchant"], totals.authorized["merchant"]) == ((0, cost), 2.5, 60)


def test_one_outcome_cannot_release_any_amount_of_a_budget_per_response(open_ledger, kit):
    limits = {side: replace(terms, most_response=3.0) for side, terms in kit.campaign().sides.items()}
    for sides, largest in ((limits, 3.0), (kit.campaign().sides, 100.0)):
        ledger = open_ledger(limit=2.0, form="per_response", sides=sides)
        ledger.authorize(kit.item("m1", side="merchant"), kit.item("m2", side="merchant"))
        with pytest.raises(ShadowpriceError, match=f"above most_response = {largest:g}") as refusal:
            ledger.settle(kit.event("m1", 0, response=1e9))
        assert (refusal.value.field, refusal.value.status) == ("[0].data.response", 422)
        assert ledger.store.totals().responses.get("merchant", 0.0) == 0.0
        assert ledger.settle(kit.event("m1", 0, response=largest)) == (1, 0)


def test_a_merchants_units_cannot_overspend_because_all_that_may_be_paid_is_reserved(open_ledger, kit):
    ledger = open_ledger(sides=merchants(kit, most_units=3), limit=400)
    granted = ledger.authorize(*(kit.item(f"m{number}", side="merchant") for number in range(3)))
    assert told(granted) == [(1, 60, "tie", False)] * 2 + [(-1, 0, "budget_exhausted", False)]
    assert ledger.money() == (360, 0)
    # Everybody brings more than is paid for: the dearest that can happen.
    assert ledger.settle(kit.event("m0", 180, response=9.0), kit.event("m1", 180, response=3.0)) == (2, 0)
    assert ledger.money() == (0, 360)
    # One unit would fit into what is left, but three may come.
    assert told(ledger.authorize(kit.item("m3", side="merchant", level=0))) == [(-1, 0, "budget_exhausted", False)]
    assert ledger.store.totals().money_left(ledger.campaign, ledger.at) == 40


def test_what_is_reserved_is_set_free_whole_however_the_authorization_ends(open_ledger, kit):
    ledger = open_ledger(sides=merchants(kit, most_units=3), limit=540, authorization_ttl_hours=1.0)
    ledger.authorize(*(kit.item(name, side="merchant") for name in ("settled", "returned", "expired")))
    assert ledger.money() == (540, 0)
    ledger.settle(kit.event("settled", 30, response=0.5))
    assert ledger.money() == (360, 30)
    ledger.release("returned")
    assert ledger.money() == (180, 30)
    ledger.at += HOUR
    assert ledger.sweep() == 1
    totals = ledger.store.totals()
    assert (ledger.money(), totals.authorized["merchant"]) == ((0, 30), 180)
    assert (totals.released["merchant", "returned"], totals.released["merchant", "expired"]) == (180, 180)
    assert ledger.settle(kit.event("expired", 180, response=3.0, at=ledger.at)) == (1, 0)
    assert (ledger.money(), ledger.store.totals().late["merchant"]) == ((0, 210), 180)
    with pytest.raises(Conflict, match="'returned' was given back"):
        ledger.settle(kit.event("returned", 180, response=3.0, at=ledger.at))


def test_a_authorization_keeps_the_terms_it_was_made_under(open_ledger, kit):
    before = open_ledger(name="terms", sides=merchants(kit, most_units=2), limit=1000)
    before.authorize(kit.item("m1", side="merchant"), kit.item("m2", side="merchant"))
    before.close()
    after = open_ledger(replace(before.campaign, sides=merchants(kit, most_units=1)))
    assert after.settle(kit.event("m1", 120, response=2.0)) == (1, 0)
    after.authorize(kit.item("m3", side="merchant"))
    assert after.money() == (120 + 60, 120)
    after.close()
    again = open_ledger(replace(before.campaign, sides=merchants(kit, most_units=5)))
    with pytest.raises(ShadowpriceError, match="most_units = 2 are paid"):
        again.settle(kit.event("m2", 121, response=5.0))


def test_what_is_given_back_is_free_at_once_and_only_once(open_ledger, kit):
    ledger = open_ledger(limit=130)
    ledger.authorize(kit.item("a", level=2))
    assert told(ledger.authorize(kit.item("b"))) == [(0, 0, "budget_exhausted", False)]
    assert ledger.release("a", "b") == (1, 1)
    assert ledger.release("a") == (0, 1)
    assert ledger.money() == (0, 0)
    assert told(ledger.authorize(kit.item("c", level=2))) == [(2, 130, "tie", False)]
    assert ledger.store.totals().released["customer", "returned"] == 130


def test_what_is_captured_cannot_be_given_back(ledger, kit):
    ledger.authorize(kit.item("a"), kit.item("b"))
    ledger.settle(kit.event("a", 50))
    with pytest.raises(Conflict, match="'a' is settled"):
        ledger.release("b", "a")
    assert ledger.money() == (50, 50)


def test_a_authorization_expires_when_its_time_is_over_and_not_before(open_ledger, kit):
    ledger = open_ledger(limit=130, authorization_ttl_hours=2.0)
    ledger.authorize(kit.item("a", level=2))
    ledger.at += 2 * HOUR - timedelta(microseconds=1)
    assert ledger.sweep() == 0
    assert told(ledger.authorize(kit.item("b", level=2))) == [(0, 0, "budget_exhausted", False)]
    ledger.at += timedelta(microseconds=1)
    # Nobody has swept: who needs the money looks himself.
    assert told(ledger.authorize(kit.item("c", level=2))) == [(2, 130, "tie", False)]
    assert ledger.money() == (130, 0)
    assert ledger.store.totals().released["customer", "expired"] == 130
    assert ledger.sweep() == 0
    assert told(ledger.authorize(kit.item("a", level=2))) == [(2, 130, "tie", True)]


def test_without_a_hard_stop_what_is_captured_after_an_expiry_is_booked_and_shows(open_ledger, kit):
    ledger = open_ledger(limit=130, authorization_ttl_hours=1.0)
    ledger.authorize(kit.item("a", level=2))
    ledger.at += HOUR
    assert ledger.sweep() == 1
    ledger.authorize(kit.item("b", level=2))
    ledger.settle(kit.event("b", 130, at=ledger.at))
    assert ledger.settle(kit.event("a", 130, at=ledger.at), hard_stop=False) == (1, 0)
    assert ledger.settle(kit.event("a", 130, at=ledger.at)) == (0, 1)
    totals = ledger.store.totals()
    assert (ledger.money(), totals.late["customer"]) == ((0, 260), 130)
    assert totals.money_left(ledger.campaign, ledger.at) == -130
    assert told(ledger.authorize(kit.item("c"))) == [(0, 0, "budget_exhausted", False)]
    assert [row.late for row in ledger.store.outcomes_after(0, 10)] == [False, True]
