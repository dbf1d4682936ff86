"""Authorizations of every store: new requests, repeats, conflicts, and what a campaign does not offer."""

from datetime import timedelta

import pytest

from serving.ledger.clock import microseconds
from serving.ledger.records import Known
from shadowprice.errors import Conflict, NotFound, ShadowpriceError

HOUR = timedelta(hours=1)


def told(recorded):
    return [(each.decision.level, each.decision.incentive, each.decision.reason, each.repeat) for each in recorded]


def test_a_new_decision_is_kept_as_it_was_sent(ledger, kit):
    vector = [0.25, 0.5, 0.25]
    (recorded,) = ledger.authorize(kit.item("r1", propensities=vector, features_at=1714564800.25))
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
    (first,) = ledger.authorize(kit.item("r1", level=2))
    ledger.at += HOUR
    again, other = ledger.authorize(kit.item("r1", level=0, reason="optimal"), kit.item("r2"))
    assert (again.decision, again.repeat, other.repeat) == (first.decision, True, False)
    assert sum(ledger.store.totals().authorized.values()) == 180


def test_a_request_twice_in_one_call_is_one_decision(ledger, kit):
    first, second = ledger.authorize(kit.item("r1", level=2), kit.item("r1", level=1))
    assert (first.repeat, second.repeat, second.decision) == (False, True, first.decision)
    assert ledger.money() == (130, 0)


@pytest.mark.parametrize("change", [{"account_id": "b"}, {"side": "merchant"}])
def test_a_request_id_of_another_account_or_side_is_a_conflict_and_nothing_of_the_call_is_kept(ledger, kit, change):
    ledger.authorize(kit.item("r1"))
    with pytest.raises(Conflict, match="request_id: 'r1'"):
        ledger.authorize(kit.item("r0"), kit.item("r1", **change))
    with pytest.raises(Conflict, match="request_id: 'r9'"):
        ledger.authorize(kit.item("r9"), kit.item("r9", **change))
    assert ledger.store.find(["r0", "r9"]) == {}
    assert ledger.money() == (50, 0)


@pytest.mark.parametrize("change", [{"account_id": "b"}, {"side": "merchant"}])
def test_of_calls_sent_together_those_in_conflict_are_refused_and_the_others_recorded(ledger, kit, change):
    ledger.authorize(kit.item("stored"))
    answers = ledger.authorize_calls(
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
    ledger.authorize(kit.item("r", level=0))
    refused, first, second = ledger.authorize_calls(
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
    (stored,) = ledger.authorize(kit.item("r", level=2))
    before = ledger.store.totals()
    alone, mixed, thief = ledger.authorize_calls(
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
    (later,) = ledger.authorize(kit.item("never", account_id="b"))
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
        ledger.authorize(kit.item("r", **wrong))
    assert (refusal.value.field, refusal.value.status) == (f"items.{field}[0]", 422)


def test_a_level_or_campaign_that_does_not_exist_is_refused(ledger, kit):
    beyond = kit.item("r")
    beyond.level = 3
    with pytest.raises(ShadowpriceError) as refusal:
        ledger.authorize(beyond)
    assert refusal.value.field == "items.level[0]"
    with pytest.raises(NotFound, match="autumn"):
        ledger.authorize(kit.item("r"), campaign=kit.campaign(name="autumn"))
