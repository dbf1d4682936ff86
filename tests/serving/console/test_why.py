import pytest

from serving.console.why import OTHERWISE, Choice, why
from shadowprice.currency import Currency
from shadowprice.decision import decide

LEVELS = [Choice("$0.00", 0.12, 0.0), Choice("$1.00", 0.25, 25.0), Choice("$2.00", 0.26, 52.0)]


@pytest.mark.parametrize("price", [0.0002, 0.001, 0.0046, 0.006, 0.02])
def test_the_next_level_costs_more_per_response_than_one_is_worth_exactly_where_the_rule_does_not_take_it(price):
    value, cost = [[each.response] for each in LEVELS], [[each.cost] for each in LEVELS]
    chosen = int(decide(value, cost, [price], 0.5, ["r1"]).level[0])
    told = why(LEVELS, chosen, price, "optimal", Currency(), ratio=False)
    if chosen == len(LEVELS) - 1:
        assert told.endswith("nothing costs more.")
    else:
        assert "above the" in told
        assert "that one is worth now" in told


def test_it_names_the_rise_and_both_prices():
    told = why(LEVELS, 1, 0.005, "optimal", Currency(), ratio=False)
    assert told == (
        "$1.00, because it raises the expected response from 12.0 % to 25.0 %; $2.00 would cost $27.00 per extra "
        "response, above the $2.00 that one is worth now."
    )


def test_a_level_that_no_dearer_one_beats_says_so():
    worse = [LEVELS[0], LEVELS[1], Choice("$2.00", 0.2, 40.0)]
    told = why(worse, 1, 0.005, "optimal", Currency(), ratio=False)
    assert told.endswith("nothing dearer would raise it further.")


def test_shares_are_no_percentage():
    assert "from 1.1 to 1.4" in why(
        [Choice("$0.10", 1.1, 10), Choice("$0.50", 1.4, 50)], 1, 0.001, "tie", Currency(), ratio=True
    )


@pytest.mark.parametrize("reason", OTHERWISE)
def test_a_decision_that_is_no_choice_has_its_own_reason(reason):
    assert why([], -1, 0.0, reason, Currency(), ratio=False) == f"Nothing, because {OTHERWISE[reason]}."
    assert why(LEVELS, 0, 0.1, reason, Currency(), ratio=False).startswith("$0.00, because ")


def test_without_a_curve_there_is_no_sentence():
    assert why([], 1, 0.1, "optimal", Currency(), ratio=False) == ""
