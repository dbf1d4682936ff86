import pytest

from serving.ledger.terms import check_terms, noted_terms
from serving.ledger.totals import LedgerTotals
from shadowprice.campaign import Terms
from shadowprice.errors import Conflict


def test_decisions_of_before_levels_were_noted_need_only_a_side_and_level_that_there_is(kit):
    campaign = kit.campaign()
    check_terms(campaign, None, [("customer", 2), ("merchant", -1)])
    with pytest.raises(Conflict, match=r"'customer', 3"):
        check_terms(campaign, None, [("customer", 2), ("customer", 3)])
    with pytest.raises(Conflict, match="'merchant', 1"):
        check_terms(kit.campaign(sides={"customer": Terms(levels=(0, 50, 130))}), None, [("merchant", 1)])


def test_other_levels_of_the_same_number_differ_and_other_terms_do_not(kit):
    campaign = kit.campaign(sides={"merchant": Terms(levels=(20, 60))})
    dearer = kit.campaign(sides={"merchant": Terms(levels=(20, 70))})
    more = kit.campaign(sides={"merchant": Terms(levels=(20, 60), most_units=3)})
    check_terms(more, noted_terms(campaign), [("merchant", 0)])
    check_terms(dearer, noted_terms(campaign), [])
    with pytest.raises(Conflict, match=r"\[20, 60\].*\[20, 70\]"):
        check_terms(dearer, noted_terms(campaign), [("merchant", 0)])


def test_requests_of_a_side_that_the_campaign_does_not_have_are_counted_too():
    totals = LedgerTotals(
        decisions={("merchant", 0, "optimal"): 2},
        authorized={"customer": 0},
        outstanding={},
        spent={},
        responses={},
        outcomes={},
    )
    assert totals.requests == {"customer": 0, "merchant": 2}
