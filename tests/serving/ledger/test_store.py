"""What every store of the ledger must do, each held to the same words."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from serving.ledger.clock import microseconds
from serving.ledger.records import Known
from serving.protocol import RECORDED_REASONS
from shadowprice.campaign import Terms
from shadowprice.decision import decide
from shadowprice.errors import Conflict, NotFound, ShadowpriceError

HOUR = timedelta(hours=1)


def merchants(kit, most_units):
    return {"merchant": Terms(levels=kit.levels["merchant"], most_units=most_units)}


def told(recorded):
    return [(each.decision.level, each.decision.incentive, each.decision.reason, each.repeat) for each in recorded]


def test_a_new_decision_is_kept_as_it_was_sent(ledger, kit):
    vector = [0.25, 0.5, 0.25]
    (recorded,) = ledger.authorise(kit.item("r1", propensities=vector, features_at=1714564800.25))
    assert not recorded.repeat
    kept = ledger.store.find(["r1", "r2"])
    assert kept == {"r1": recorded.decision}
    decision = kept["r1"]
    assert (decision.account_id, decision.side, decision.level, decision.incentive) == ("a", "customer", 1, 50)
    assert (decision.response, decision.expected_cost, decision.propensity) == (0.25, 12.5, 0.5)
    assert (decision.propensities, decision.features_at) == (tuple(vector), 1714564800250000)
    assert (decision.reason, decision.model_version, decision.price_version) == ("tie", "m", 1)
    assert decision.decided_at == microseconds(kit.now)


def test_a_repeat_gets_the_first_decision_whatever_it_proposes(ledger, kit):
    (first,) = ledger.authorise(kit.item("r1", level=2))
    ledger.at += HOUR
    again, other = ledger.authorise(kit.item("r1", level=0, reason="optimal"), kit.item("r2"))
    assert (again.decision, again.repeat, other.repeat) == (first.decision, True, False)
    assert sum(ledger.store.totals().authorised.values()) == 180


def test_a_request_twice_in_one_call_is_one_decision(ledger, kit):
    first, second = ledger.authorise(kit.item("r1", level=2), kit.item("r1", level=1))
    assert (first.repeat, second.repeat, second.decision) == (False, True, first.decision)
    assert ledger.money() == (130, 0)


@pytest.mark.parametrize("change", [{"account_id": "b"}, {"side": "merchant"}])
def test_a_request_id_of_another_account_or_side_is_a_conflict_and_nothing_of_the_call_is_kept(ledger, kit, change):
    ledger.authorise(kit.item("r1"))
    with pytest.raises(Conflict, match="request_id: 'r1'"):
        ledger.authorise(kit.item("r0"), kit.item("r1", **change))
    with pytest.raises(Conflict, match="request_id: 'r9'"):
        ledger.authorise(kit.item("r9"), kit.item("r9", **change))
    assert ledger.store.find(["r0", "r9"]) == {}
    assert ledger.money() == (50, 0)


@pytest.mark.parametrize("change", [{"account_id": "b"}, {"side": "merchant"}])
def test_of_calls_sent_together_those_in_conflict_are_refused_and_the_others_recorded(ledger, kit, change):
    ledger.authorise(kit.item("stored"))
    answers = ledger.authorise_calls(
        [kit.item("a"), kit.item("b")],
        [kit.item("lost"), kit.item("stored", **change)],
        [kit.item("mine"), kit.item("b", **change)],
        [kit.item("twice"), kit.item("twice", **change)],
        [kit.item("b"), kit.item("mine", **change), kit.item("lost", **change)],
    )
    assert [isinstance(answer, Conflict) for answer in answers] == [False, True, True, True, False]
    assert ["stored" in str(answers[1]), "'b'" in str(answers[2]), "twice" in str(answers[3])] == [True] * 3
    assert [each.repeat for each in answers[0] + answers[4]] == [False, False, True, False, False]
    kept = ledger.store.find(["a", "b", "lost", "mine", "twice", "stored"])
    assert set(kept) == {"a", "b", "lost", "mine", "stored"}
    # The refused calls have left nothing: their request ids are free for the last one.
    assert {getattr(kept[name], *change) for name in ("mine", "lost")} == set(change.values())
    assert sum(ledger.store.totals().requests.values()) == 5
    assert [row.request_id for row in ledger.store.decisions_after(0, 10)] == ["stored", "a", "b", "mine", "lost"]


def test_what_is_left_goes_to_the_calls_in_order_and_nothing_of_it_to_a_refused_one(open_ledger, kit):
    ledger = open_ledger(limit=200)
    ledger.authorise(kit.item("r", level=0))
    refused, first, second = ledger.authorise_calls(
        [kit.item("big", level=2), kit.item("r", account_id="b")],
        [kit.item("one", level=2), kit.item("two")],
        [kit.item("three")],
    )
    assert isinstance(refused, Conflict)
    assert told([*first, *second]) == [
        *[(2, 130, "tie", False), (1, 50, "tie", False)],
        (0, 0, "budget_exhausted", False),
    ]
    assert ledger.money() == (180, 0)


def test_a_known_request_is_looked_up_and_nothing_is_recorded_for_it(ledger, kit):
    (stored,) = ledger.authorise(kit.item("r", level=2))
    before = ledger.store.totals()
    alone, mixed, thief = ledger.authorise_calls(
        [Known("never", "a", "customer"), Known("r", "a", "customer")],
        [kit.item("new"), Known("r", "a", "customer")],
        [kit.item("lost"), Known("r", "b", "customer")],
    )
    assert alone == [None, (stored.decision, True)]
    assert (mixed[0].repeat, mixed[1]) == (False, (stored.decision, True))
    assert isinstance(thief, Conflict)
    assert set(ledger.store.find(["never", "new", "lost"])) == {"new"}
    assert sum(ledger.store.totals().requests.values()) == sum(before.requests.values()) + 1
    # Nothing stands for it, so it is free for whoever is decided first.
    (later,) = ledger.authorise(kit.item("never", account_id="b"))
    assert not later.repeat


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"incentive": 51}, "incentive"),
        ({"side": "merchant", "incentive": 50}, "incentive"),
        ({"propensities": [0.5, 0.5]}, "propensities"),
        ({"propensities": [0.5, 0.25, 0.25]}, "propensities"),
        ({"propensities": [0.5, 0.5, 0.25]}, "propensities"),
    ],
)
def test_what_the_campaign_does_not_offer_is_refused(ledger, kit, wrong, field):
    with pytest.raises(ShadowpriceError) as refusal:
        ledger.authorise(kit.item("r", **wrong))
    assert (refusal.value.field, refusal.value.status) == (f"items.{field}[0]", 422)


def test_a_level_or_campaign_that_does_not_exist_is_refused(ledger, kit):
    beyond = kit.item("r")
    beyond.level = 3
    with pytest.raises(ShadowpriceError) as refusal:
        ledger.authorise(beyond)
    assert refusal.value.field == "items.level[0]"
    with pytest.raises(NotFound, match="autumn"):
        ledger.authorise(kit.item("r"), campaign=kit.campaign(name="autumn"))


def test_authorizations_never_exceed_the_budget_and_a_settled_one_frees_what_it_did_not_cost(open_ledger, kit):
    ledger = open_ledger(limit=200)
    first = ledger.authorise(kit.item("a", level=2), kit.item("b"), kit.item("c"))
    assert told(first) == [(2, 130, "tie", False), (1, 50, "tie", False), (0, 0, "budget_exhausted", False)]
    refused = first[2].decision
    assert (refused.response, refused.propensity, refused.propensities) == (0.125, 1.0, (1.0, 0.0, 0.0))
    assert told(ledger.authorise(kit.item("m", side="merchant"))) == [(-1, 0, "budget_exhausted", False)]
    assert told(ledger.authorise(kit.item("c", level=2))) == [(0, 0, "budget_exhausted", True)]
    assert ledger.settle(kit.event("a", 0)) == (1, 0)
    assert told(ledger.authorise(kit.item("d", level=2))) == [(2, 130, "tie", False)]


@pytest.mark.parametrize(("side", "left"), [("customer", 60), ("customer", 130), ("merchant", 30), ("merchant", 10)])
def test_the_logged_propensity_near_the_end_of_the_budget_is_the_frequency_of_the_answer(open_ledger, kit, side, left):
    ledger, names = open_ledger(limit=left), [f"r{number}" for number in range(120)]
    levels = kit.levels[side]
    value = np.array([0.5, 1.0, 1.0])[-len(levels) :]
    served = decide(
        np.tile(value[:, None], len(names)), np.zeros((len(levels), len(names))), [0.0], 0.4, names, exploration=0.5
    )
    shares = served.policy.propensities().T.tolist()
    recorded = []
    for row, name in enumerate(names):
        wanted = kit.item(
            name,
            side=side,
            level=int(served.level[row]),
            propensity=float(served.propensity[row]),
            propensities=shares[row],
        )
        recorded += ledger.authorise(wanted)
        if recorded[-1].decision.reserved:
            ledger.release(name)  # so that every request has the same budget left
    kept = ledger.store.find(names)
    answers = np.array([each.decision.level for each in recorded])
    assert ledger.store.totals().decisions.keys() <= {
        (side, level, reason) for level in (-1, 0, 1, 2) for reason in RECORDED_REASONS
    }
    for level in np.unique(answers):
        logged = {each.decision.propensity for each in recorded if each.decision.level == level}
        assert len(logged) == 1
        assert binomtest(int((answers == level).sum()), len(names), min(logged.pop(), 1.0)).pvalue > 1e-3
    for each in recorded:
        assert kept[each.decision.request_id] == each.decision
        assert each.decision.incentive <= left
        assert sum(each.decision.propensities) == pytest.approx(
            1 - each.decision.propensity if each.decision.level == -1 else 1 - missing(recorded)
        )
    (again,) = ledger.authorise(kit.item(names[0], side=side, level=0))
    assert (again.decision, again.repeat) == (recorded[0].decision, True)


def missing(recorded):
    """Probability of being given nothing at all."""
    return next((each.decision.propensity for each in recorded if each.decision.level == -1), 0.0)


def test_requests_of_one_call_see_the_budget_that_the_ones_before_leave(open_ledger, kit):
    shares = [0.25, 0.25, 0.5]
    ledger = open_ledger(limit=180)
    found = ledger.authorise(
        *(
            kit.item(name, level=level, propensity=shares[level], propensities=shares)
            for name, level in (("a", 2), ("b", 0), ("c", 1), ("d", 0), ("e", 2))
        )
    )
    told = [(each.decision.level, each.decision.propensity, each.decision.propensities) for each in found]
    cut, gone = (0.75, 0.25, 0.0), (1.0, 0.0, 0.0)
    assert told == [(2, 0.5, tuple(shares)), (0, 0.75, cut), (1, 0.25, cut), (0, 1.0, gone), (0, 1.0, gone)]
    assert [each.decision.reason for each in found] == [*["tie"] * 4, "budget_exhausted"]


def test_without_the_hard_stop_and_for_a_mean_the_budget_does_not_bind(open_ledger, kit):
    unbound = open_ledger(limit=0)
    assert told(unbound.authorise(kit.item("a", level=2), hard_stop=False)) == [(2, 130, "tie", False)]
    mean = open_ledger(limit=1.5, form="per_account")
    assert told(mean.authorise(kit.item("a", level=2))) == [(2, 130, "tie", False)]


def test_an_outcome_is_booked_once_however_often_it_arrives(ledger, kit):
    ledger.authorise(kit.item("c1"))
    assert ledger.settle(kit.event("c1", 50)) == (1, 0)
    assert ledger.settle(kit.event("c1", 50), kit.event("c1", 50)) == (0, 2)
    assert ledger.settle(kit.event("c1", 50, event_id="e9", source="bank")) == (0, 1)
    totals = ledger.store.totals()
    assert (ledger.money(), totals.responses["customer"], totals.outcomes["customer"]) == ((0, 50), 1.0, 1)


def test_twice_in_one_call_is_once(ledger, kit):
    ledger.authorise(kit.item("c1"))
    assert ledger.settle(kit.event("c1", 50), kit.event("c1", 50), kit.event("c1", 50, event_id="e9")) == (1, 2)
    assert ledger.money() == (0, 50)


def test_another_content_of_an_event_or_request_is_a_conflict_and_nothing_of_the_call_is_kept(ledger, kit):
    ledger.authorise(kit.item("c1"), kit.item("c2"), kit.item("c3"))
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


def test_an_outcome_of_a_request_of_nobody_or_of_another_campaign_is_not_found(open_ledger, kit):
    ledger, other = open_ledger(), open_ledger()
    other.authorise(kit.item("theirs"))
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
    ],
)
def test_an_outcome_that_cannot_be_is_refused(ledger, kit, forged, field):
    ledger.authorise(kit.item("c1"), kit.item("m1", side="merchant"), kit.item("late"))
    ledger.release("late")
    before = ledger.money()
    values = {"request_id": "c1", "cost": 0} | forged
    with pytest.raises(ShadowpriceError) as refusal:
        ledger.settle(kit.event(**values))
    assert (refusal.value.field, refusal.value.status) == (f"[0].data.{field}", 422)
    assert ledger.money() == before


def test_a_merchant_paid_on_response_costs_as_many_incentives_as_it_brings_units(open_ledger, kit):
    ledger = open_ledger(sides=merchants(kit, most_units=2))
    ledger.authorise(kit.item("m1", side="merchant"), kit.item("m2", side="merchant"))
    assert ledger.settle(kit.event("m1", 90, response=1.5)) == (1, 0)
    with pytest.raises(ShadowpriceError, match=r"60 minor units for each of 1.5 units that were authorized"):
        ledger.settle(kit.event("m2", 91, response=1.5))


@pytest.mark.parametrize(("most_units", "cost"), [(1, 60), (2, 120)])
def test_units_beyond_those_the_terms_pay_for_are_counted_and_not_paid(open_ledger, kit, most_units, cost):
    ledger = open_ledger(sides=merchants(kit, most_units))
    ledger.authorise(kit.item("m1", side="merchant"))
    assert ledger.money() == (cost, 0)
    with pytest.raises(ShadowpriceError, match=rf"2.5 units, of which most_units = {most_units} are paid") as refusal:
        ledger.settle(kit.event("m1", cost + 1, response=2.5))
    assert (refusal.value.field, refusal.value.status) == ("[0].data.cost", 422)
    assert ledger.settle(kit.event("m1", cost, response=2.5)) == (1, 0)
    totals = ledger.store.totals()
    assert (ledger.money(), totals.responses["merchant"], totals.authorised["merchant"]) == ((0, cost), 2.5, 60)


def test_one_outcome_cannot_release_any_amount_of_a_budget_per_response(open_ledger, kit):
    limits = {side: replace(terms, most_response=3.0) for side, terms in kit.campaign().sides.items()}
    for sides, largest in ((limits, 3.0), (kit.campaign().sides, 100.0)):
        ledger = open_ledger(limit=2.0, form="per_response", sides=sides)
        ledger.authorise(kit.item("m1", side="merchant"), kit.item("m2", side="merchant"))
        with pytest.raises(ShadowpriceError, match=f"above most_response = {largest:g}") as refusal:
            ledger.settle(kit.event("m1", 0, response=1e9))
        assert (refusal.value.field, refusal.value.status) == ("[0].data.response", 422)
        assert ledger.store.totals().responses.get("merchant", 0.0) == 0.0
        assert ledger.settle(kit.event("m1", 0, response=largest)) == (1, 0)


def test_a_merchants_units_cannot_overspend_because_all_that_may_be_paid_is_reserved(open_ledger, kit):
    ledger = open_ledger(sides=merchants(kit, most_units=3), limit=400)
    granted = ledger.authorise(*(kit.item(f"m{number}", side="merchant") for number in range(3)))
    assert told(granted) == [(1, 60, "tie", False)] * 2 + [(-1, 0, "budget_exhausted", False)]
    assert ledger.money() == (360, 0)
    # Everybody brings more than is paid for: the dearest that can happen.
    assert ledger.settle(kit.event("m0", 180, response=9.0), kit.event("m1", 180, response=3.0)) == (2, 0)
    assert ledger.money() == (0, 360)
    # One unit would fit into what is left, but three may come.
    assert told(ledger.authorise(kit.item("m3", side="merchant", level=0))) == [(-1, 0, "budget_exhausted", False)]
    assert ledger.store.totals().money_left(ledger.campaign, ledger.at) == 40


def test_what_is_reserved_is_set_free_whole_however_the_authorization_ends(open_ledger, kit):
    ledger = open_ledger(sides=merchants(kit, most_units=3), limit=540, authorisation_ttl_hours=1.0)
    ledger.authorise(*(kit.item(name, side="merchant") for name in ("settled", "returned", "expired")))
    assert ledger.money() == (540, 0)
    ledger.settle(kit.event("settled", 30, response=0.5))
    assert ledger.money() == (360, 30)
    ledger.release("returned")
    assert ledger.money() == (180, 30)
    ledger.at += HOUR
    assert ledger.sweep() == 1
    totals = ledger.store.totals()
    assert (ledger.money(), totals.authorised["merchant"]) == ((0, 30), 180)
    assert (totals.released["merchant", "returned"], totals.released["merchant", "expired"]) == (180, 180)
    assert ledger.settle(kit.event("expired", 180, response=3.0, at=ledger.at)) == (1, 0)
    assert (ledger.money(), ledger.store.totals().late["merchant"]) == ((0, 210), 180)
    with pytest.raises(Conflict, match="'returned' was given back"):
        ledger.settle(kit.event("returned", 180, response=3.0, at=ledger.at))


def test_a_authorization_keeps_the_terms_it_was_made_under(open_ledger, kit):
    before = open_ledger(name="terms", sides=merchants(kit, most_units=2), limit=1000)
    before.authorise(kit.item("m1", side="merchant"), kit.item("m2", side="merchant"))
    before.close()
    after = open_ledger(replace(before.campaign, sides=merchants(kit, most_units=1)))
    assert after.settle(kit.event("m1", 120, response=2.0)) == (1, 0)
    after.authorise(kit.item("m3", side="merchant"))
    assert after.money() == (120 + 60, 120)
    after.close()
    again = open_ledger(replace(before.campaign, sides=merchants(kit, most_units=5)))
    with pytest.raises(ShadowpriceError, match="most_units = 2 are paid"):
        again.settle(kit.event("m2", 121, response=5.0))


def test_what_is_given_back_is_free_at_once_and_only_once(open_ledger, kit):
    ledger = open_ledger(limit=130)
    ledger.authorise(kit.item("a", level=2))
    assert told(ledger.authorise(kit.item("b"))) == [(0, 0, "budget_exhausted", False)]
    assert ledger.release("a", "b") == (1, 1)
    assert ledger.release("a") == (0, 1)
    assert ledger.money() == (0, 0)
    assert told(ledger.authorise(kit.item("c", level=2))) == [(2, 130, "tie", False)]
    assert ledger.store.totals().released["customer", "returned"] == 130


def test_what_is_captured_cannot_be_given_back(ledger, kit):
    ledger.authorise(kit.item("a"), kit.item("b"))
    ledger.settle(kit.event("a", 50))
    with pytest.raises(Conflict, match="'a' is settled"):
        ledger.release("b", "a")
    assert ledger.money() == (50, 50)


def test_a_authorization_expires_when_its_time_is_over_and_not_before(open_ledger, kit):
    ledger = open_ledger(limit=130, authorisation_ttl_hours=2.0)
    ledger.authorise(kit.item("a", level=2))
    ledger.at += 2 * HOUR - timedelta(microseconds=1)
    assert ledger.sweep() == 0
    assert told(ledger.authorise(kit.item("b", level=2))) == [(0, 0, "budget_exhausted", False)]
    ledger.at += timedelta(microseconds=1)
    # Nobody has swept: who needs the money looks himself.
    assert told(ledger.authorise(kit.item("c", level=2))) == [(2, 130, "tie", False)]
    assert ledger.money() == (130, 0)
    assert ledger.store.totals().released["customer", "expired"] == 130
    assert ledger.sweep() == 0
    assert told(ledger.authorise(kit.item("a", level=2))) == [(2, 130, "tie", True)]


def test_without_a_hard_stop_what_is_captured_after_an_expiry_is_booked_and_shows(open_ledger, kit):
    ledger = open_ledger(limit=130, authorisation_ttl_hours=1.0)
    ledger.authorise(kit.item("a", level=2))
    ledger.at += HOUR
    assert ledger.sweep() == 1
    ledger.authorise(kit.item("b", level=2))
    ledger.settle(kit.event("b", 130, at=ledger.at))
    assert ledger.settle(kit.event("a", 130, at=ledger.at), hard_stop=False) == (1, 0)
    assert ledger.settle(kit.event("a", 130, at=ledger.at)) == (0, 1)
    totals = ledger.store.totals()
    assert (ledger.money(), totals.late["customer"]) == ((0, 260), 130)
    assert totals.money_left(ledger.campaign, ledger.at) == -130
    assert told(ledger.authorise(kit.item("c"))) == [(0, 0, "budget_exhausted", False)]
    assert [row.late for row in ledger.store.outcomes_after(0, 10)] == [False, True]


def test_decisions_and_outcomes_are_read_in_the_order_of_recording(ledger, kit):
    names = [f"r{number}" for number in range(7)]
    for name in names:
        ledger.authorise(kit.item(name))
    assert [row.request_id for row in ledger.store.decisions_after(0, 100)] == names
    assert [row.request_id for row in ledger.store.decisions_after(3, 2)] == names[3:5]
    assert ledger.store.decisions_after(7, 10) == []
    ledger.settle(kit.event("r5", 50), kit.event("r1", 0))
    ledger.settle(kit.event("r5", 50), kit.event("r2", 50, at=kit.now + timedelta(seconds=1)))
    rows = ledger.store.outcomes_after(1, 10)
    assert [(row.request_id, row.cost, row.response) for row in rows] == [("r1", 0, 0.0), ("r2", 50, 1.0)]
    assert rows[1].observed_at == microseconds(kit.now) + 1_000_000
    assert rows[1].recorded_at == microseconds(kit.now)


def test_traffic_is_counted_by_hour_and_sampled_newest_first(ledger, kit):
    for name, side, after in (
        ("a", "customer", 0),
        ("b", "merchant", 0.6),
        ("c", "customer", 2.4),
        ("d", "customer", 2.7),
    ):
        ledger.at = kit.now + after * HOUR
        ledger.authorise(kit.item(name, side=side, partner_id=f"p{name}", context='{"x_a":1.0}' if name == "d" else ""))
    traffic = ledger.store.traffic(microseconds(kit.now), 3)
    counts = [((hour.hour - kit.now) // HOUR, hour.side, hour.requests) for hour in traffic.hours]
    assert counts == [(0, "customer", 1), (0, "merchant", 1), (2, "customer", 2)]
    assert [asked.request_id for asked in traffic.sample] == ["d", "c", "b"]
    assert [(asked.partner_id, asked.context) for asked in traffic.sample] == [
        ("pd", '{"x_a":1.0}'),
        ("pc", ""),
        ("pb", ""),
    ]
    later = ledger.store.traffic(microseconds(kit.now + 2.5 * HOUR), 3)
    assert ([hour.requests for hour in later.hours], [asked.request_id for asked in later.sample]) == ([1], ["d"])
    assert ledger.store.traffic(0, 0).sample == []


@pytest.mark.parametrize("minutes", [0, 30, 45])
def test_hours_of_traffic_begin_with_the_window_also_at_half_past(ledger, kit, minutes):
    """India's midnight is 18:30 UTC: no request before the first whole hour is lost, and none is shifted."""
    start = kit.now + minutes / 60 * HOUR
    for number in range(40):
        ledger.at = start + number * 0.1 * HOUR
        ledger.authorise(kit.item(f"r{number}"))
    traffic = ledger.store.traffic(microseconds(start), 0)
    assert [((hour.hour - start) / HOUR, hour.requests) for hour in traffic.hours] == [(h, 10) for h in range(4)]


def test_callers_at_once_are_each_answered_and_together_kept_within_the_budget(open_ledger, kit):
    ledger = open_ledger(limit=1000)

    def call(number):
        return ledger.authorise(kit.item(f"r{number % 40}", level=2), kit.item(f"s{number}"))

    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(call, range(120)))
    assert [first.decision.request_id for first, _ in answers] == [f"r{number % 40}" for number in range(120)]
    assert sum(not first.repeat for first, _ in answers) == 40
    for number, (first, _) in enumerate(answers):
        assert first.decision.level == answers[number % 40][0].decision.level
    assert 870 < ledger.money()[0] <= 1000


def test_ledger_are_as_they_were_when_they_are_opened_again(open_ledger, kit):
    ledger = open_ledger()
    ledger.authorise(kit.item("a"), kit.item("b"), kit.item("m", side="merchant"))
    ledger.settle(kit.event("a", 50))
    before = ledger.store.totals()
    ledger.close()
    again = open_ledger(ledger.campaign)
    assert again.store.totals() == before
    assert told(again.authorise(kit.item("b", level=2))) == [(1, 50, "tie", True)]


steps = st.lists(
    st.one_of(
        st.lists(
            st.tuples(st.integers(0, 15), st.sampled_from(["customer", "merchant"]), st.integers(0, 1)),
            min_size=1,
            max_size=4,
        ),
        st.tuples(
            st.integers(0, 15),
            st.sampled_from(["customer", "merchant"]),
            st.sampled_from(["redeemed", "not", "released"]),
            st.integers(1, 20),
        ),
        st.integers(1, 90).map(lambda minutes: timedelta(minutes=minutes)),
    ),
    max_size=25,
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(steps=steps, limit=st.integers(0, 900), share=st.sampled_from([0.0, 0.5, 1.0]))
def test_after_any_history_the_sums_are_those_of_a_plain_account_book(open_ledger, kit, steps, limit, share):
    """The reference keeps lists of authorizations and payments and nothing else.

    Merchants bring up to five units each. Open authorizations and payments never exceed the limit together.
    """
    reserve = int(limit * share)
    units = {"customer": 1, "merchant": 3}
    sides = {side: Terms(levels=kit.levels[side], most_units=most) for side, most in units.items()}
    ledger = open_ledger(limit=limit, late_reserve=reserve, authorisation_ttl_hours=2.0, sides=sides)
    authorized, paid, released, returned = {}, {}, {}, set()

    def expire():
        for name, (_amount, until) in list(authorized.items()):
            if until <= ledger.at and name not in paid:
                released[name] = authorized.pop(name)[0]

    def taken():
        return sum(amount for amount, _ in authorized.values()) + sum(paid.values())

    def late():
        return sum(cost for name, cost in paid.items() if name in released)

    def check_bound():
        assert sum(ledger.money()) <= limit

    known = {}
    for step in steps:
        if isinstance(step, timedelta):
            ledger.at += step
            expire()
            continue
        if isinstance(step, list):
            items = [kit.item(f"{side}{number}", side=side, level=level) for number, side, level in step]
            recorded = ledger.authorise(*items)
            expire()
            for each in items:
                if each.request_id not in known:
                    left = limit - taken() - max(0, reserve - late())
                    most = each.incentive * units[each.side]
                    known[each.request_id] = each.incentive if most <= max(left, 0) else 0
                    if known[each.request_id]:
                        authorized[each.request_id] = (most, ledger.at + 2 * HOUR)
            assert [each.decision.incentive for each in recorded] == [known[each.request_id] for each in items]
            check_bound()
            continue
        number, side, what, quarters = step
        name = f"{side}{number}"
        if name not in known or name in paid:
            continue
        if what == "released":
            if name in authorized:
                assert ledger.release(name) == (1, 0)
                released[name] = authorized.pop(name)[0]
                returned.add(name)
        else:
            came = {"redeemed": what == "redeemed"}
            if side == "merchant":
                came = {"response": quarters / 4 if what == "redeemed" else 0.0}
            cost = math.ceil(known[name] * min(came.get("response", 1), 3)) if what == "redeemed" else 0
            with pytest.raises(ShadowpriceError) as refusal:
                ledger.settle(kit.event(name, cost + 1, at=ledger.at, **came))
            assert refusal.value.field == "[0].data.cost"
            outcome = kit.event(name, cost, at=ledger.at, **came)
            if cost and (name in returned or (name in released and taken() + cost > limit)):
                with pytest.raises(Conflict, match="was given back" if name in returned else "no room"):
                    ledger.settle(outcome)
                continue
            assert ledger.settle(outcome) == (1, 0)
            authorized.pop(name, None)
            paid[name] = cost
        check_bound()
    while ledger.sweep():
        pass
    totals = ledger.store.totals()
    assert sum(totals.authorised.values()) == sum(known.values())
    assert sum(totals.requests.values()) == len(known)
    assert sum(totals.outstanding.values()) == sum(amount for amount, _ in authorized.values())
    assert sum(totals.spent.values()) == sum(paid.values())
    assert sum(totals.late.values()) == late()
    assert sum(totals.released.values()) == sum(released.values())
    check_bound()
    ledger.close()


messages = st.lists(
    st.lists(
        st.lists(st.tuples(st.integers(0, 6), st.sampled_from("ab"), st.booleans()), max_size=4), min_size=1, max_size=4
    ),
    max_size=5,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=messages, limit=st.integers(0, 400))
def test_calls_of_any_conflicts_are_answered_as_by_a_plain_dictionary(open_ledger, kit, messages, limit):
    """The reference has the owner and the amount of each request; a call is looked at before it is recorded."""
    ledger = open_ledger(limit=limit)
    owners, amounts = {}, {}
    for message in messages:
        answers = ledger.authorise_calls(
            *(
                [
                    Known(f"r{number}", account, "customer") if known else kit.item(f"r{number}", account_id=account)
                    for number, account, known in call
                ]
                for call in message
            )
        )
        for call, answer in zip(message, answers, strict=True):
            mine, conflict = {}, False
            for number, account, known in call:
                conflict |= owners.get(number, mine.get(number, account)) != account
                if not known:
                    mine[number] = account
            assert isinstance(answer, Conflict) == conflict
            if conflict:
                continue
            for (number, account, known), row in zip(call, answer, strict=True):
                repeat = number in owners
                if not repeat and known:
                    assert row is None
                    continue
                if not repeat:
                    owners[number] = account
                    amounts[number] = 50 if sum(amounts.values()) + 50 <= limit else 0
                assert (row.repeat, row.decision.account_id) == (repeat, account)
                assert row.decision.incentive == amounts[number]
    assert ledger.money() == (sum(amounts.values()), 0)
    assert sum(ledger.store.totals().requests.values()) == len(owners)
    ledger.close()
