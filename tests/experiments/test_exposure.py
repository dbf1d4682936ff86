"""Effect for everybody from own arm and share of partners: against algebra, and against known truth."""

from __future__ import annotations

import numpy as np
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.experiments.effects import TwoArms
from shadowprice.experiments.exposure import effect_of_all, exposure_of

TRIALS = 2000


def test_it_is_least_squares_with_errors_by_unit_written_as_algebra() -> None:
    rng = np.random.default_rng(0)
    own, share, unit = rng.random(400) < 0.4, rng.random(400), rng.integers(0, 40, 400)
    y = 0.3 + 0.5 * own + 0.2 * share + rng.normal(size=40)[unit] + rng.normal(size=400)
    design = np.column_stack([np.ones(400), own, share, own * share])
    bread = np.linalg.inv(design.T @ design)
    found = bread @ design.T @ y
    scores = design * (y - design @ found)[:, None]
    meat = sum(np.outer(scores[unit == each].sum(0), scores[unit == each].sum(0)) for each in range(40))
    variance = bread @ meat @ bread * (40 / 39) * (399 / 396)
    effect, ones = effect_of_all(y, own, share, unit), np.array([0, 1, 1, 1])
    assert effect.value == pytest.approx(ones @ found)
    assert effect.error == pytest.approx(np.sqrt(ones @ variance @ ones))
    assert effect.degrees == 36


def test_it_covers_the_effect_for_everybody_where_the_difference_misses_it() -> None:
    rng = np.random.default_rng(1)
    accounts, partners = 240, 60
    ties = np.unique(
        np.stack([np.repeat(np.arange(accounts), 5), accounts + rng.integers(0, partners, 5 * accounts)]), axis=1
    )
    covered, naive = 0, 0
    for _ in range(TRIALS):
        arm = rng.random(accounts + partners) < 0.5
        own, share = arm[:accounts], exposure_of(ties, arm, 0)[:accounts]
        y = 1.0 + 0.2 * own + 0.5 * share + rng.normal(size=accounts)
        effect = effect_of_all(y, own, share, np.arange(accounts))
        covered += effect.low <= 0.7 <= effect.high
        two = TwoArms.of(own, np.arange(accounts))
        plain = two.effect(two.difference(y))
        naive += plain.low <= 0.7 <= plain.high
    assert 0.93 <= covered / TRIALS <= 0.97
    assert naive / TRIALS < 0.1


def test_what_cannot_be_estimated_is_refused_by_name() -> None:
    own, unit = np.array([True, False] * 10), np.arange(20)
    with pytest.raises(InvalidInput, match="exposure: follows from the own arm"):
        effect_of_all(np.zeros(20), own, own.astype(float), unit)
    with pytest.raises(InvalidInput, match=r"exposure: must be a share of partners in \[0, 1\]"):
        effect_of_all(np.zeros(20), own, np.full(20, 1.5), unit)
    with pytest.raises(InvalidInput, match="treated"):
        effect_of_all(np.zeros(20), np.ones(20, bool), np.linspace(0, 1, 20), unit)
    with pytest.raises(InvalidInput, match="unit: has 2 units"):
        effect_of_all(np.zeros(20), own, np.linspace(0, 1, 20), unit // 10)
