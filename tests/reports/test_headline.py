from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from shadowprice.reports.data import Currency
from shadowprice.reports.headline import against, change_sentence, headline, solve_sentence


def changed(example, at: int, **entries):
    run = example.scenarios[0]
    policies = [*run.policies]
    policies[at] = dataclasses.replace(policies[at], **entries)
    return dataclasses.replace(example, scenarios=(dataclasses.replace(run, policies=tuple(policies)),))


def test_a_worse_day_than_a_static_price_is_said_as_plainly_as_a_better_one(example):
    assert "2.9 % more than a price kept" in headline(example).sentence
    assert "1.2 % less than a price kept" in headline(changed(example, 1, value=10_412.4 / 0.988)).sentence


def test_a_run_without_comparison_makes_none(example):
    run = dataclasses.replace(example.scenarios[0], policies=example.scenarios[0].policies[:1])
    told = headline(dataclasses.replace(example, scenarios=(run,)))
    assert told.sentence == "The campaign paid $4,991.00 of its budget of $5,000.00 and brought 10,412 responses."
    assert [tile.name for tile in told.tiles] == ["Budget used", "Brought"]
    assert headline(dataclasses.replace(example, scenarios=())) is None


def test_a_run_that_overspent_is_not_compared_with_hindsight(example):
    over = changed(example, 0, spend=np.full(24, 30_000.0))
    told = headline(over)
    assert "hindsight" not in told.sentence
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
