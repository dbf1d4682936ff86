from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from shadowprice.evaluation.policy.attainable import Attainable
from shadowprice.reports.data import Currency
from shadowprice.reports.headline import against, change_sentence, headline, solve_sentence


def changed(example, at: int, **entries):
    run = example.scenarios[0]
    policies = [*run.policies]
    policies[at] = dataclasses.replace(policies[at], **entries)
    return dataclasses.replace(example, scenarios=(dataclasses.replace(run, policies=tuple(policies)),))


def test_a_worse_day_than_a_static_price_is_said_as_plainly_as_a_better_one(example):
    assert "2.9 % higher than with a price kept" in headline(example).sentence
    assert "1.2 % lower than with a price kept" in headline(changed(example, 1, value=10_412.4 / 0.988)).sentence


def test_a_run_without_comparison_makes_none(example):
    run = dataclasses.replace(example.scenarios[0], policies=example.scenarios[0].policies[:1], attainable=None)
    told = headline(dataclasses.replace(example, scenarios=(run,)))
    assert told.sentence == "The campaign paid $4,991.00 of its budget of $5,000.00 and contributed 10,412 responses."
    assert [tile.name for tile in told.tiles] == ["Budget used", "Contributed"]
    assert headline(dataclasses.replace(example, scenarios=())) is None


def test_the_headline_judges_by_the_gain_over_the_best_flat_mixture_not_by_the_whole_value(example):
    shown = headline(example)
    # 10,412.4 between flat 10,300 and the optimum 10,495; 99.2 % of the optimum itself.
    assert "contributed 10,412 responses, 4,292 more than the lowest incentive" in shown.sentence
    assert "57.6 % of the gain" in shown.sentence
    assert "99.2 %" not in shown.sentence
    tile = next(tile for tile in shown.tiles if tile.name == "Of the attainable gain")
    assert tile.share == pytest.approx(112.4 / 195.0)
    assert tile.aside == "best flat mixture: 10,300, optimum: 10,495"


def test_a_value_below_the_lowest_level_and_a_gain_that_is_not_defined_are_reported_as_such(example):
    run = example.scenarios[0]
    poor = dataclasses.replace(run, attainable=Attainable(lowest=10_500.4, flat=np.nan, best=10_600.0))
    shown = headline(dataclasses.replace(example, scenarios=(poor,)))
    assert "88 fewer than the lowest incentive" in shown.sentence
    assert "gain" not in shown.sentence
    assert "Of the attainable gain" not in [tile.name for tile in shown.tiles]


def test_a_run_that_overspent_is_not_compared_with_the_optimum(example):
    over = changed(example, 0, spend=np.full(24, 30_000.0))
    told = headline(over)
    assert "gain" not in told.sentence
    assert told.tiles[0].share == pytest.approx(1.44)
    run = over.scenarios[0]
    assert against(run, run.policies[0]) == "44.00 % over"


def test_change_points_are_said_in_words(example):
    side = example.sides[0]
    assert "2 change points: 80 cents" in change_sentence(side, Currency())
    assert change_sentence(example.sides[1], Currency()) == ""
    none = dataclasses.replace(side.hazard, at=side.hazard.at[:0])
    assert "no change point" in change_sentence(dataclasses.replace(side, hazard=none), Currency())


def test_the_solves_sentence_counts_only_what_was_published(example):
    worst = dataclasses.replace(example.solves[0], gap=0.5, published=False)
    told = solve_sentence((*example.solves[1:3], worst))
    assert told.startswith("3 solves, 2 published.")
    assert "0.5" not in told
    assert solve_sentence(()) == ""
