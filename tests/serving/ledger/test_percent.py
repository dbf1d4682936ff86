"""Incentives in percent in every store: the cap is held, and what was paid is captured."""

from dataclasses import replace

import pytest

from serving.ledger.api.messages import Unprocessable
from serving.ledger.terms import check_terms, noted_terms
from shadowprice.campaign import Percent, Terms
from shadowprice.errors import Conflict
from shadowprice.limits import Cap, GroupBudget, Limits

CAPS = (0, 500, 1000)


def coupons(share=20):
    percent = (None, Percent(share=10), Percent(share=share, least=3000))
    offers = ("none", "ten", "twenty")
    return Terms(levels=(0, 1, 2), offers=offers, amounts=CAPS, percent=percent, ordered=False)


def asked(kit, name, level, account="a"):
    return kit.item(name, level=level, incentive=CAPS[level], account_id=account)


def test_the_cap_is_held_and_what_was_paid_is_captured(open_ledger, kit):
    ledger = open_ledger(limit=2000, sides={"customer": coupons()})
    given = ledger.authorize(*(asked(kit, f"r{place}", level) for place, level in enumerate([2, 1, 2])))
    # The third would hold 1000 more, and 500 are left.
    assert [(each.decision.level, each.decision.reason) for each in given] == [
        (2, "tie"),
        (1, "tie"),
        (0, "budget_exhausted"),
    ]
    assert ledger.money() == (1500, 0)
    # 20 % of an order of $32.40; and an order below the least spend, which is a response all the same.
    assert ledger.settle(kit.event("r0", 648, redeemed=True), kit.event("r1", 0, redeemed=True)) == (2, 0)
    assert ledger.money() == (0, 648)
    # What was held and not paid may be given again.
    assert ledger.authorize(asked(kit, "again", 2))[0].decision.level == 2


def test_no_more_than_the_cap_is_captured(open_ledger, kit):
    ledger = open_ledger(limit=2000, sides={"customer": coupons()})
    ledger.authorize(asked(kit, "r", 2))
    with pytest.raises(Unprocessable, match="above the 1000 minor units"):
        ledger.settle(kit.event("r", 1001, redeemed=True))
    assert ledger.settle(kit.event("r", 1000, redeemed=True)) == (1, 0)
    assert ledger.money() == (0, 1000)


def test_further_budgets_and_caps_count_the_hold_and_then_the_payment(open_ledger, kit):
    limits = Limits(
        budgets=(GroupBudget(name="customers", side="customer", limit=1600),),
        caps=(Cap(name="each", per="account", amount=1200),),
    )
    ledger = open_ledger(limit=9000, sides={"customer": coupons()}, limits=limits)
    one = [each.decision for each in ledger.authorize(asked(kit, "r0", 2), asked(kit, "r1", 2))]
    assert [(each.level, each.reason) for each in one] == [(2, "tie"), (0, "capped")]
    other = ledger.authorize(asked(kit, "r2", 2, "b"))[0].decision
    assert (other.level, other.limited_by) == (0, "customers")
    # 150 of the 1000 were paid: the account's cap has room for 1000 more, and the budget too.
    ledger.settle(kit.event("r0", 150, redeemed=True))
    assert [each.decision.level for each in ledger.authorize(asked(kit, "r3", 2))] == [2]


def test_other_percentages_under_the_same_caps_are_another_ledger(kit):
    campaign = kit.campaign(sides={"customer": coupons()})
    check_terms(campaign, noted_terms(campaign), [("customer", 1)])
    changed = replace(campaign, sides={"customer": coupons(share=25)})
    with pytest.raises(Conflict, match="percentages"):
        check_terms(changed, noted_terms(campaign), [("customer", 1)])
