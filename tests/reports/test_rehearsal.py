from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from shadowprice.evaluation.policy.attainable import Attainable
from shadowprice.reports.rehearsal import against, rehearsal, solve_sentence


def changed(example, at: int, **entries):
    run = example.scenarios[0]
    policies = [*run.policies]
    policies[at] = dataclasses.replace(policies[at], **entries)
    return dataclasses.replace(example, scenarios=(dataclasses.replace(run, policies=tuple(policies)),))


def test_a_worse_day_than_a_static_price_is_said_as_plainly_as_a_better_one(example):
    assert "2.9 % higher than with a price kept" in rehearsal(example).sentence
    assert "1.2 % lower than with a price kept" in rehearsal(changed(example, 1, value=10_412.4 / 0.988)).sentence


def test_a_rehearsal_claims_no_response_as_its_own(example):
    told = rehearsal(example)
    assert told.sentence.startswith("The campaign paid $4,991.00 of its budget of $5,000.00. It reached 98.1 % of")
    for word in ("added", "flat", "more responses", "redemptions"):
        assert word not in told.sentence
    run = dataclasses.replace(example.scenarios[0], policies=example.scenarios[0].policies[:1], attainable=None)
    alone = rehearsal(dataclasses.replace(example, scenarios=(dataclasses.replace(run, weights={}),)))
    assert alone.sentence == "The campaign paid $4,991.00 of its budget of $5,000.00."
    assert [tile.name for tile in alone.tiles] == ["Budget used"]
    assert rehearsal(dataclasses.replace(example, scenarios=())) is None


def test_a_share_of_a_gain_that_may_be_nothing_is_not_shown(example):
    run = dataclasses.replace(example.scenarios[0], shares=False)
    told = rehearsal(dataclasses.replace(example, scenarios=(run,)))
    assert "possible" not in told.sentence
    assert "Of the possible" not in [tile.name for tile in told.tiles]
    assert np.isnan(run.of_best(run.policies[0]))


def test_the_price_of_money_is_told_as_what_one_dollar_brings_and_one_response_costs(example):
    run = example.scenarios[0]
    level = dataclasses.replace(run.policies[0], price=np.full(24, 0.004))
    flat = dataclasses.replace(example, scenarios=(dataclasses.replace(run, policies=(level, *run.policies[1:])),))
    tile = next(tile for tile in rehearsal(flat).tiles if tile.name == "One more $1 brings")
    assert tile.figure == "0.4 redemptions or 0.8 share ratios"
    assert "one extra redemption costs $2.50; one extra unit of share ratio costs $1.25" in tile.aside


def test_the_possible_is_told_as_a_share_of_the_extra_value(example):
    # (10,412.4 − 6,120) / (10,495 − 6,120).
    tile = next(tile for tile in rehearsal(example).tiles if tile.name == "Of the possible")
    assert tile.share == pytest.approx(4292.4 / 4375)


def test_a_share_above_all_that_is_possible_gives_its_reason(example):
    more = changed(example, 0, value=10_600.0, mean_cost=510_000.0)
    told = rehearsal(more).sentence
    assert "102.4 % of the extra value possible in hindsight" in told
    assert "(above 100 %: its outcomes cost less than their mean, which is 102.0 % of the budget" in told
    assert more.scenarios[0].why_above(example.scenarios[0].policies[0]) == ""


def test_where_nothing_is_possible_no_share_is_told(example):
    run = example.scenarios[0]
    poor = dataclasses.replace(run, attainable=Attainable(lowest=10_500.4, flat=np.nan, best=10_500.4))
    assert "possible" not in rehearsal(dataclasses.replace(example, scenarios=(poor,))).sentence


def test_a_run_that_overspent_is_not_compared_with_the_optimum(example):
    over = changed(example, 0, spend=np.full(24, 30_000.0))
    told = rehearsal(over)
    assert "possible" not in told.sentence
    assert told.tiles[0].share == pytest.approx(1.44)
    run = over.scenarios[0]
    assert against(run, run.policies[0]) == "44.00 % over"


def test_the_solves_sentence_counts_only_what_was_published(example):
    worst = dataclasses.replace(example.solves[0], gap=0.5, published=False)
    told = solve_sentence((*example.solves[1:3], worst))
    assert told.startswith("3 solves, 2 published.")
    assert "0.5" not in told
    assert solve_sentence(()) == ""
