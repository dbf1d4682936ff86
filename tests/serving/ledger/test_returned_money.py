"""What is given back or expires: who may still capture it, and that the limit holds whatever comes first."""

from dataclasses import replace
from datetime import timedelta

import pytest

from serving.ledger.api.corrections import corrections
from serving.ledger.clock import microseconds
from serving.ledger.log import LogWriter
from serving.recover import recover
from shadowprice.errors import Conflict
from shadowprice.pacing.decision_log.served import read_log

HOUR = timedelta(hours=1)


def test_a_budget_is_captured_once_by_a_caller_who_gives_back_what_it_redeems_later(open_ledger, kit):
    ledger = open_ledger(limit=130)
    names = [f"r{number}" for number in range(5)]
    for name in names:
        (granted,) = ledger.authorize(kit.item(name, level=2))
        assert granted.decision.incentive == 130
        assert ledger.release(name) == (1, 0)
    for name in names:
        with pytest.raises(Conflict, match=rf"\[0\].data.cost: request '{name}' was given back at 2024-05-01T12:00"):
            ledger.settle(kit.event(name, 130))
    assert ledger.money() == (0, 0)
    ledger.authorize(kit.item("last", level=2))
    assert ledger.settle(kit.event("last", 130)) == (1, 0)
    assert ledger.money() == (0, 130)


@pytest.mark.parametrize("changes", [{"form": "per_account", "limit": 2.5}, {"hard_stop": False}])
def test_what_was_given_back_is_refused_also_where_no_ceiling_holds(open_ledger, kit, changes):
    hard_stop = changes.pop("hard_stop", True)
    ledger = open_ledger(**changes)
    ledger.authorize(kit.item("a"), hard_stop=hard_stop)
    ledger.release("a")
    with pytest.raises(Conflict, match="what was given back cannot be captured"):
        ledger.settle(kit.event("a", 50), hard_stop=hard_stop)


@pytest.mark.parametrize("hard_stop", [True, False])
def test_a_correction_raises_the_cost_of_a_returned_request_only_with_an_override(open_ledger, kit, hard_stop):
    ledger = open_ledger()
    ledger.authorize(kit.item("a"))
    ledger.release("a")
    ledger.settle(kit.event("a", 0))
    refused = kit.correction("a", 50)
    with pytest.raises(Conflict, match=r"\[0\].data.cost: request 'a' was given back at 2024-05-01T12:00"):
        ledger.correct(refused, hard_stop=hard_stop)
    assert ledger.money() == (0, 0)
    # What costs nothing may change, and an administrator may book the money.
    assert ledger.correct(kit.correction("a", 0, redeemed=True, event_id="free"), hard_stop=hard_stop) == (1, 0)
    assert ledger.correct(kit.correction("a", 50, event_id="paid", override=True), hard_stop=hard_stop) == (1, 0)
    assert ledger.correct(kit.correction("a", 0, "refund", event_id="back"), hard_stop=hard_stop) == (1, 0)
    with pytest.raises(Conflict, match="given back"):
        ledger.correct(refused, hard_stop=hard_stop)
    assert ledger.money() == (0, 0)


def test_a_recovery_books_what_an_earlier_release_took_after_a_return(open_ledger, kit, tmp_path):
    ledger, other = open_ledger(), open_ledger()
    for each in (ledger, other):
        each.authorize(kit.item("a"))
        each.release("a")
    ledger.settle(kit.event("a", 0))
    (made,) = corrections(ledger.campaign, [kit.correction("a", 50)], ledger.store.find(["a"]), kit.now, "shop")
    ledger.store.correct([replace(made, replayed=True)], None, microseconds(kit.now)).result(20)
    LogWriter(ledger.store, tmp_path / "log").write()
    assert recover(other.store, other.campaign, read_log(tmp_path / "log")) == (0, 1, 1)
    assert other.money() == ledger.money() == (0, 50)


def test_an_outcome_without_cost_is_booked_after_a_return_and_without_room(open_ledger, kit):
    ledger = open_ledger(limit=130, authorization_ttl_hours=1.0)
    ledger.authorize(kit.item("returned", level=2))
    ledger.release("returned")
    ledger.authorize(kit.item("expired", level=2))
    ledger.at += HOUR
    ledger.authorize(kit.item("paid", level=2))
    ledger.settle(kit.event("paid", 130, at=ledger.at))
    assert ledger.settle(kit.event("returned", 0), kit.event("expired", 0)) == (2, 0)
    assert ledger.money() == (0, 130)


def test_what_expired_is_captured_as_long_as_the_budget_has_room(open_ledger, kit):
    ledger = open_ledger(limit=260, authorization_ttl_hours=1.0)
    ledger.authorize(kit.item("a", level=2), kit.item("b", level=2))
    ledger.at += HOUR
    ledger.authorize(kit.item("c", level=2))
    late = [kit.event(name, 130, at=ledger.at) for name in ("a", "b")]
    with pytest.raises(
        Conflict, match=r"\[1\].data.cost: .*'b' is closed, and the budget has no room for 130 .* 0 are"
    ):
        ledger.settle(*late)
    assert ledger.money() == (130, 0)
    assert ledger.settle(late[0]) == (1, 0)
    with pytest.raises(Conflict, match="no room"):
        ledger.settle(late[1])
    # The third was not redeemed: there is room again.
    assert ledger.settle(kit.event("c", 0, at=ledger.at)) == (1, 0)
    assert ledger.settle(late[1]) == (1, 0)
    assert ledger.money() == (0, 260)


def test_an_outcome_that_arrives_when_its_authorization_ends_has_its_own_room(open_ledger, kit):
    ledger = open_ledger(limit=130, authorization_ttl_hours=1.0)
    ledger.authorize(kit.item("a", level=2))
    ledger.at += HOUR
    assert ledger.settle(kit.event("a", 130, at=ledger.at)) == (1, 0)
    assert (ledger.money(), ledger.store.totals().late["customer"]) == ((0, 130), 130)


def test_the_late_reserve_is_left_to_late_captures(open_ledger, kit):
    ledger = open_ledger(limit=260, late_reserve=130, authorization_ttl_hours=1.0)
    first, second = ledger.authorize(kit.item("a", level=2), kit.item("b", level=2))
    assert (first.decision.incentive, second.decision.reason) == (130, "budget_exhausted")
    ledger.at += HOUR
    ledger.authorize(kit.item("c", level=2), kit.item("d", level=2))
    ledger.settle(kit.event("c", 130, at=ledger.at))
    assert ledger.settle(kit.event("a", 130, at=ledger.at)) == (1, 0)
    assert ledger.money() == (0, 260)


def test_a_reserve_that_was_used_is_not_set_aside_a_second_time(open_ledger, kit):
    ledger = open_ledger(limit=260, late_reserve=130, authorization_ttl_hours=1.0)
    ledger.authorize(kit.item("a", level=2))
    ledger.at += HOUR
    ledger.settle(kit.event("a", 130, at=ledger.at))
    (granted,) = ledger.authorize(kit.item("b", level=2))
    assert granted.decision.incentive == 130
    assert ledger.money() == (130, 130)
