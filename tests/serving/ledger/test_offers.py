"""A budget in numbers of offers, and offers whose costs do not ascend, in every store."""

from dataclasses import replace

import pytest

from serving.ledger.terms import check_terms, noted_terms
from shadowprice.campaign import Terms
from shadowprice.errors import Conflict


def emails(costs, offers=("none", "letter", "mail"), basis="on_grant"):
    amounts = (0,) * len(costs)
    levels = tuple(range(len(costs)))
    return Terms(levels=levels, offers=offers, amounts=amounts, costs=costs, ordered=False, cost_basis=basis)


def given(recorded):
    return [(each.decision.level, each.decision.incentive, each.decision.reason) for each in recorded]


def asked(kit, name, level, costs):
    shares = [0.2, 0.2, 0.2]
    shares[level] = 0.6
    return kit.item(name, level=level, incentive=costs[level], propensity=0.6, propensities=shares)


def test_a_hard_stop_counts_offers(open_ledger, kit):
    ledger = open_ledger(limit=2, sides={"customer": emails((0, 1, 1))})
    wanted = [asked(kit, f"r{place}", level, (0, 1, 1)) for place, level in enumerate([1, 0, 2, 1, 2])]
    assert given(ledger.authorize(*wanted)) == [
        (1, 1, "tie"),
        (0, 0, "tie"),
        (2, 1, "tie"),
        (0, 0, "budget_exhausted"),
        (0, 0, "budget_exhausted"),
    ]
    assert ledger.money() == (2, 0)
    # Granted for certain: it costs its one whether the account responds or not.
    assert ledger.settle(kit.event("r0", 1, redeemed=False), kit.event("r2", 1, redeemed=True)) == (2, 0)
    assert ledger.money() == (0, 2)


def test_the_dearest_offer_need_not_be_the_last(open_ledger, kit):
    costs = (0, 5, 2)
    ledger = open_ledger(limit=8, sides={"customer": emails(costs)})
    recorded = ledger.authorize(asked(kit, "a", 1, costs), asked(kit, "b", 1, costs), asked(kit, "c", 2, costs))
    assert given(recorded) == [(1, 5, "tie"), (0, 0, "budget_exhausted"), (2, 2, "tie")]
    # The letter does not fit 3, so its probability is the control's.
    assert recorded[1].decision.propensities == pytest.approx((0.8, 0.0, 0.2))
    assert ledger.money() == (7, 0)


def test_a_control_that_costs_something_is_not_given_in_place_of_a_dearer_offer(open_ledger, kit):
    ledger = open_ledger(limit=90, sides={"customer": emails((80, 2, 2), ("letter", "a", "b"))})
    costs = (80, 2, 2)
    recorded = ledger.authorize(asked(kit, "a", 0, costs), asked(kit, "b", 0, costs), asked(kit, "c", 1, costs))
    assert given(recorded) == [(0, 80, "tie"), (-1, 0, "budget_exhausted"), (1, 2, "tie")]


def test_other_offers_under_the_same_costs_are_another_ledger(kit):
    campaign = kit.campaign(sides={"customer": emails((0, 1, 1))})
    swapped = replace(campaign, sides={"customer": emails((0, 1, 1), ("none", "mail", "letter"))})
    check_terms(campaign, noted_terms(campaign), [("customer", 1)])
    with pytest.raises(Conflict, match=r"mail.*letter"):
        check_terms(swapped, noted_terms(campaign), [("customer", 1)])
