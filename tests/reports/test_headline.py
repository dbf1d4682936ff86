from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from shadowprice.currency import Currency
from shadowprice.evaluation.policy.attainable import Attainable
from shadowprice.reports.headline import against, change_sentence, headline, solve_sentence


def changed(example, at: int, **entries):
    run = example.scenarios[0]
    policies = [*run.policies]
    policies[at] = dataclasses.replace(policies[at], **entries)
    return dataclasses.replace(example, scenarios=(dataclasses.replace(run, policies=tuple(policies)),))


def test_a_worse_day_than_a_static_price_is_said_as_plainly_as_a_better_one(example):
    assert "2.9 % higher than with a price kept" in headline(example).sentence
    assert "1.2 % lower than with a price kept" in headline(changed(example, 1, value=10_412.4 / 0.988)).sentence


def test_a_run_without_comparison_claims_no_response_as_its_own(example):
    run = dataclasses.replace(example.scenarios[0], policies=example.scenarios[0].policies[:1], attainable=None)
    told = headline(dataclasses.replace(example, scenarios=(dataclasses.replace(run, gains={}, weights={}),)))
    assert told.sentence == (
        "The campaign paid $4,991.00 of its budget of $5,000.00. It brought 10,412 responses; the number due to "
        "incentives is not known."
    )
    assert [tile.name for tile in told.tiles] == ["Budget used"]
    assert headline(dataclasses.replace(example, scenarios=())) is None


def test_each_side_is_told_in_its_own_unit_with_its_interval_over_both_comparisons(example):
    shown = headline(example)
    assert (
        "added 3,140 more redemptions [2,980, 3,300] and 1,152 more share ratios [1,072, 1,232] than" in shown.sentence
    )
    assert (
        "112 more responses by weight [−67.6, 292] than the best flat incentive at equal spend (+140 redemptions and "
        "−27.6 share ratios)" in shown.sentence
    )
    tiles = {tile.name: tile for tile in shown.tiles}
    assert tiles["Extra redemptions"].figure == "+3,140"
    # $2,500 for 3,140 extra redemptions, $1,000 for 1,152.4 share ratios.
    assert tiles["Cost per extra redemption"].figure == "$0.80"
    assert tiles["Cost per extra unit of share ratio"].figure == "$0.87"
    assert tiles["Cost per extra redemption"].aside.startswith("95 % interval [$0.76, $0.84]; $2,500.00 more")


def test_the_price_of_money_is_told_as_what_one_dollar_brings_and_one_response_costs(example):
    run = example.scenarios[0]
    level = dataclasses.replace(run.policies[0], price=np.full(24, 0.004))
    flat = dataclasses.replace(example, scenarios=(dataclasses.replace(run, policies=(level, *run.policies[1:])),))
    tile = next(tile for tile in headline(flat).tiles if tile.name == "One more $1 brings")
    assert tile.figure == "0.4 redemptions or 0.8 share ratios"
    assert "one extra redemption costs $2.50; one extra unit of share ratio costs $1.25" in tile.aside


def test_one_hindsight_number_is_told_as_a_share_of_the_extra_value_and_of_the_gain_over_flat(example):
    shown = headline(example)
    # (10,412.4 − 6,120) / (10,495 − 6,120), and 10,412.4 between flat 10,300 and the optimum 10,495.
    assert "It reached 98.1 % of the extra value possible in hindsight, and 57.6 % of the gain" in shown.sentence
    assert "99.2 %" not in shown.sentence
    tile = next(tile for tile in shown.tiles if tile.name == "Of the possible")
    assert tile.share == pytest.approx(4292.4 / 4375)


def test_a_share_above_all_that_is_possible_gives_its_reason(example):
    more = changed(example, 0, value=10_600.0, mean_cost=510_000.0)
    told = headline(more).sentence
    assert "102.4 % of the extra value possible in hindsight" in told
    assert "(above 100 %: its outcomes cost less than their mean, which is 102.0 % of the budget" in told
    assert more.scenarios[0].why_above(example.scenarios[0].policies[0]) == ""


def test_a_value_below_the_lowest_level_and_a_gain_that_is_not_defined_are_reported_as_such(example):
    run = example.scenarios[0]
    poor = dataclasses.replace(run, attainable=Attainable(lowest=10_500.4, flat=np.nan, best=10_600.0), gains={})
    shown = headline(dataclasses.replace(example, scenarios=(poor,)))
    assert "added 88 fewer responses than the lowest incentive" in shown.sentence
    assert "gain over" not in shown.sentence


def test_a_run_that_overspent_is_not_compared_with_the_optimum(example):
    over = changed(example, 0, spend=np.full(24, 30_000.0))
    told = headline(over)
    assert "gain" not in told.sentence
    assert told.tiles[0].share == pytest.approx(1.44)
    run = over.scenarios[0]
    assert against(run, run.policies[0]) == "44.00 % over"


def test_change_points_are_said_in_words(example):
    side = example.sides[0]
    assert "2 change points: $0.80" in change_sentence(side, Currency())
    assert change_sentence(example.sides[1], Currency()) == ""
    none = dataclasses.replace(side.hazard, at=side.hazard.at[:0])
    assert "no change point" in change_sentence(dataclasses.replace(side, hazard=none), Currency())


def test_the_solves_sentence_counts_only_what_was_published(example):
    worst = dataclasses.replace(example.solves[0], gap=0.5, published=False)
    told = solve_sentence((*example.solves[1:3], worst))
    assert told.startswith("3 solves, 2 published.")
    assert "0.5" not in told
    assert solve_sentence(()) == ""


def test_one_side_is_told_in_its_own_unit_over_the_best_flat_incentive_too(example):
    run = example.scenarios[0]
    gains = {
        over: dataclasses.replace(gain, whole=gain.sides["customer"], sides={"customer": gain.sides["customer"]})
        for over, gain in run.gains.items()
    }
    shown = headline(dataclasses.replace(example, scenarios=(dataclasses.replace(run, gains=gains),)))
    assert "; 140 more redemptions [−20, 300] than the best flat incentive at equal spend" in shown.sentence
    tile = next(tile for tile in shown.tiles if tile.name == "Over the best flat incentive")
    assert (tile.figure, tile.aside) == ("+140", "redemptions at equal spend, 95 % interval [−20, 300]")
