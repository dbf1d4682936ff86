"""Figures of days with retrains, and what they are asked of."""

import pytest

from pipelines.days.week import check_days
from shadowprice.currency import Currency
from shadowprice.errors import InvalidInput
from shadowprice.pacing.replay.loop import CLOSED, FROZEN, ORACLE, LoopDay
from shadowprice.reports.loop import loop_facts, loop_sentence, loop_summary

DAYS = [
    LoopDay(0, 100.0, {CLOSED: 50.0, FROZEN: 50.0, ORACLE: 60.0}, {CLOSED: 99.0, FROZEN: 101.0, ORACLE: 98.0}, True),
    LoopDay(1, 100.0, {CLOSED: 55.0, FROZEN: 45.0, ORACLE: 60.0}, {CLOSED: 97.0, FROZEN: 99.0, ORACLE: 99.0}, False),
]


def test_the_sums_of_the_days_are_those_of_each_way_and_say_that_they_are_simulated() -> None:
    found = loop_summary(DAYS)
    assert found["simulated"] is True
    assert (found["days"], found["models_taken"], found["budget"]) == (2, 1, 200.0)
    assert found["value"] == {"closed_loop": 105.0, "frozen": 95.0, "oracle": 120.0}
    assert found["largest_overspend"] == {"closed_loop": 0.0, "frozen": 1.0, "oracle": 0.0}
    assert [day["retrained"] for day in found["by_day"]] == [True, False]
    sentence = loop_sentence(found, Currency())
    assert "(simulated)" in sentence
    assert "overspends by $0.00 on a day" in sentence
    assert "+10.5% true value against the frozen model and 87.5% of that of the true curves" in sentence
    assert loop_facts(DAYS)["spend of the budget, closed loop"] == "98.0%"


def test_days_need_a_population_whose_truth_is_known_on_each() -> None:
    check_days(1, "thornton")
    check_days(7, "world")
    with pytest.raises(InvalidInput, match="days: needs a population whose truth"):
        check_days(7, "thornton")
    with pytest.raises(InvalidInput, match="days: must be at least 1"):
        check_days(0, "world")
