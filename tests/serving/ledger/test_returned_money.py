"""What is given back or expires: who may still capture it, and that the limit holds whatever comes first."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shadowprice.errors import Conflict

HOUR = timedelta(hours=1)


def test_a_budget_is_captured_once_by_a_caller_who_gives_back_what_it_redeems_later(open_books, kit):
    books = open_books(limit=130)
    names = [f"r{number}" for number in range(5)]
    for name in names:
        (granted,) = books.authorise(kit.item(name, level=2))
        assert granted.decision.incentive == 130
        assert books.release(name) == (1, 0)
    for name in names:
        with pytest.raises(Conflict, match=rf"\[0\].data.cost: request '{name}' was given back at 2024-05-01T12:00"):
            books.settle(kit.event(name, 130))
    assert books.money() == (0, 0)
    books.authorise(kit.item("last", level=2))
    assert books.settle(kit.event("last", 130)) == (1, 0)
    assert books.money() == (0, 130)


@pytest.mark.parametrize("changes", [{"form": "per_account", "limit": 2.5}, {"hard_stop": False}])
def test_what_was_given_back_is_refused_also_where_no_ceiling_holds(open_books, kit, changes):
    hard_stop = changes.pop("hard_stop", True)
    books = open_books(**changes)
    books.authorise(kit.item("a"), hard_stop=hard_stop)
    books.release("a")
    with pytest.raises(Conflict, match="what was given back cannot be captured"):
        books.settle(kit.event("a", 50), hard_stop=hard_stop)


def test_an_outcome_without_cost_is_booked_after_a_return_and_without_room(open_books, kit):
    books = open_books(limit=130, authorisation_ttl_hours=1.0)
    books.authorise(kit.item("returned", level=2))
    books.release("returned")
    books.authorise(kit.item("expired", level=2))
    books.at += HOUR
    books.authorise(kit.item("paid", level=2))
    books.settle(kit.event("paid", 130, at=books.at))
    assert books.settle(kit.event("returned", 0), kit.event("expired", 0)) == (2, 0)
    assert books.money() == (0, 130)


def test_what_expired_is_captured_as_long_as_the_budget_has_room(open_books, kit):
    books = open_books(limit=260, authorisation_ttl_hours=1.0)
    books.authorise(kit.item("a", level=2), kit.item("b", level=2))
    books.at += HOUR
    books.authorise(kit.item("c", level=2))
    late = [kit.event(name, 130, at=books.at) for name in ("a", "b")]
    with pytest.raises(
        Conflict, match=r"\[1\].data.cost: .*'b' is closed, and the budget has no room for 130 .* 0 are"
    ):
        books.settle(*late)
    assert books.money() == (130, 0)
    assert books.settle(late[0]) == (1, 0)
    with pytest.raises(Conflict, match="no room"):
        books.settle(late[1])
    # The third was not redeemed: there is room again.
    assert books.settle(kit.event("c", 0, at=books.at)) == (1, 0)
    assert books.settle(late[1]) == (1, 0)
    assert books.money() == (0, 260)


def test_an_outcome_that_arrives_when_its_authorization_ends_has_its_own_room(open_books, kit):
    books = open_books(limit=130, authorisation_ttl_hours=1.0)
    books.authorise(kit.item("a", level=2))
    books.at += HOUR
    assert books.settle(kit.event("a", 130, at=books.at)) == (1, 0)
    assert (books.money(), books.store.totals().late["customer"]) == ((0, 130), 130)


def test_the_late_reserve_is_left_to_late_captures(open_books, kit):
    books = open_books(limit=260, late_reserve=130, authorisation_ttl_hours=1.0)
    first, second = books.authorise(kit.item("a", level=2), kit.item("b", level=2))
    assert (first.decision.incentive, second.decision.reason) == (130, "budget_exhausted")
    books.at += HOUR
    books.authorise(kit.item("c", level=2), kit.item("d", level=2))
    books.settle(kit.event("c", 130, at=books.at))
    assert books.settle(kit.event("a", 130, at=books.at)) == (1, 0)
    assert books.money() == (0, 260)


def test_a_reserve_that_was_used_is_not_set_aside_a_second_time(open_books, kit):
    books = open_books(limit=260, late_reserve=130, authorisation_ttl_hours=1.0)
    books.authorise(kit.item("a", level=2))
    books.at += HOUR
    books.settle(kit.event("a", 130, at=books.at))
    (granted,) = books.authorise(kit.item("b", level=2))
    assert granted.decision.incentive == 130
    assert books.money() == (130, 130)
