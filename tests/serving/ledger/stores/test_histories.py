"""Every store after any history of calls, held to a plain account book."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serving.ledger.records import Known
from shadowprice.campaign import Terms
from shadowprice.errors import Conflict, ShadowpriceError

HOUR = timedelta(hours=1)


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
