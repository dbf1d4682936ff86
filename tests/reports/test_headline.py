import dataclasses

import pytest

from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.currency import Currency
from shadowprice.evaluation import Estimate
from shadowprice.reports.headline import change_sentence, headline
from shadowprice.reports.run import closing_lines, worth_summary


def at_the_budget(example, **figures):
    """The example with other figures at the campaign's budget."""
    points = tuple(dataclasses.replace(each, **figures) if each.share == 1.0 else each for each in example.worth.points)
    return dataclasses.replace(example, worth=dataclasses.replace(example.worth, points=points))


def test_the_headline_is_what_the_data_say_personalizing_is_worth_and_not_a_day(example):
    shown = headline(example)
    assert shown.sentence == (
        "With the campaign's budget of $5,000.00, personal incentives bring 4,292 more weighted responses "
        "[4,052, 4,532] than the lowest incentive for every request. That is 112 more [52.4, 172] than the best flat "
        "mixture at the same cost. In brackets are 95 % intervals, from 26,000 rows of 16,800 accounts that no model "
        "had learned from."
    )
    # Another day changes nothing of it.
    assert headline(dataclasses.replace(example, scenarios=())) == shown
    tiles = {tile.name: tile for tile in shown.tiles}
    assert (tiles["In truth"].figure, tiles["In truth"].aside) == (
        "+4,300",
        "over the lowest incentive; +120 over the best flat mixture at the same cost",
    )
    # What the sentence has is not repeated.
    assert not [tile for tile in shown.tiles if "4,292" in tile.figure or "112" in tile.figure]
    assert (tiles["Cost per extra response"].figure, tiles["Expected cost"].figure) == ("$0.82", "$4,990.00")
    assert tiles["Mean over budgets, 0 % to 200 %"].figure == "+98.1"


@pytest.mark.parametrize(
    ("flat", "told"),
    [
        (
            Estimate(12.0, -80.0, 104.0),
            "It is not shown that personal incentives bring more weighted responses than the best flat mixture at the "
            "same cost: the difference of +12 [−80, 104] may be chance.",
        ),
        (
            Estimate(-40.0, -70.0, -10.0),
            "Personal incentives bring 40 fewer weighted responses [−70, −10] than the best flat mixture at the same "
            "cost: the accounts that it prefers gain less than others.",
        ),
        (Estimate(0.0, 0.0, 0.0), "So does the best flat mixture at the same cost."),
    ],
)
def test_a_difference_that_is_not_shown_or_negative_or_nothing_is_told_so(example, flat, told):
    assert told in headline(at_the_budget(example, flat=flat)).sentence


def test_a_gain_over_the_lowest_level_that_is_not_shown_has_no_cost_of_one(example):
    shown = headline(at_the_budget(example, lowest=Estimate(30.0, -50.0, 110.0)))
    assert "it is not shown that personal incentives bring more weighted responses than the lowest" in shown.sentence
    assert "Cost per extra response" not in [tile.name for tile in shown.tiles]


def test_fewer_responses_are_told_with_the_reason(example):
    fewer = at_the_budget(example, lowest=Estimate(-286.0, -400.0, -172.0))
    assert (
        "bring 286 fewer weighted responses [−400, −172] than the lowest incentive for every request: its curves "
        in (headline(fewer).sentence)
    )
    wrong = dataclasses.replace(example.evidence[0], verdict="wrong way")
    told = headline(dataclasses.replace(fewer, evidence=(wrong,))).sentence
    assert "for every request: the trial shows fewer where more is offered." in told


def test_a_budget_that_buys_nothing_is_told_without_an_interval(example):
    nothing = Estimate(0.0, 0.0, 0.0)
    shown = headline(at_the_budget(example, lowest=nothing, flat=nothing, each=None))
    assert shown.sentence.endswith("every account gets the lowest incentive: the budget does not pay for more.")
    assert "[0, 0]" not in "".join(tile.aside for tile in shown.tiles)


def test_a_cost_above_the_budget_is_told_with_its_interval(example):
    campaign = Campaign(
        name="c",
        sides={"customer": Terms(levels=(0, 100))},
        budget=Budget(limit=500_000),
        starts_at=example.created_at,
    )
    dear = at_the_budget(example, cost=Estimate(560_000.0, 520_000.0, 600_000.0))
    told = headline(dataclasses.replace(dear, campaign=campaign)).sentence
    assert "They cost $5,600.00 [$5,200.00, $6,000.00], more than the budget" in told
    assert "4,292 more redemptions" in told
    assert "more than the budget" not in headline(dataclasses.replace(example, campaign=campaign)).sentence


def test_nothing_is_claimed_where_the_worth_is_absent(example):
    withheld = dataclasses.replace(example, absent={"worth": "the trial does not identify the effect"})
    assert headline(withheld) is None
    assert worth_summary(withheld) == {"sentence": "the trial does not identify the effect"}
    assert headline(dataclasses.replace(example, worth=None)) is None


def test_the_closing_lines_state_the_evidence_first_and_no_share_of_a_gain_that_may_be_nothing(example):
    pacing = {
        "spend": 499_100,
        "allowance": 500_000.0,
        "hours": 24,
        "incremental_share": -1.94,
        "measured": {"lowest": {"responses": {"value": 0.213, "low": -3.0, "high": 3.4}}},
    }
    summary = {"currency": "USD", "pacing": pacing, "worth": worth_summary(example)}
    evidence, day = closing_lines(summary)
    assert evidence == headline(example).sentence
    assert day == "rehearsal: paid $4,991.00 of $5,000.00 in 24 hours (simulated outcomes)"
    pacing["measured"]["lowest"]["responses"]["low"] = 0.1
    pacing["incremental_share"] = 0.981
    assert "98.1 % of the extra value possible in hindsight" in closing_lines(summary)[1]
    assert summary["worth"]["points"][3]["flat"] == pytest.approx(
        {"value": 112.4, "low": 52.4, "high": 172.4, "level": 0.95}
    )


def test_change_points_are_said_in_words(example):
    side = example.sides[0]
    assert "2 change points: $0.80" in change_sentence(side, Currency())
    assert change_sentence(example.sides[1], Currency()) == ""
    none = dataclasses.replace(side.hazard, at=side.hazard.at[:0])
    assert "no change point" in change_sentence(dataclasses.replace(side, hazard=none), Currency())
