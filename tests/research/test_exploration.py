"""Laws of exploration at equal cost, against brute force and draws."""

import numpy as np
import pytest

from research.tables.exploration import ALIKE, METHODS, NEAR, SHARE, SIDE, UNIFORM, laws, sampled

SCORES = np.random.default_rng(4).normal(size=(6, 40)).cumsum(axis=0)
BEHIND = SCORES.max(axis=0) - SCORES


def test_every_rule_has_the_expected_loss_of_uniform_draws_and_leaves_each_level_possible() -> None:
    found = laws(SCORES)
    assert tuple(found) == METHODS
    lost = {name: [share[i] * sum(law[:, i] * BEHIND[:, i]) for i in range(40)] for name, (law, share) in found.items()}
    assert lost[UNIFORM] == pytest.approx(SHARE * BEHIND.mean(axis=0))
    assert lost[NEAR] == pytest.approx(lost[UNIFORM])
    for name in (ALIKE, SIDE):
        assert np.mean(lost[name]) == pytest.approx(np.mean(lost[UNIFORM]))
        assert np.ptp(found[name][1]) == 0.0
    assert np.ptp(found[SIDE][0], axis=1).max() == 0.0
    for law, share in found.values():
        assert law.sum(axis=0) == pytest.approx(1.0)
        assert law.min() > 0
        assert share.max() <= 1.0


def test_near_the_decision_a_level_is_the_likelier_the_less_it_loses() -> None:
    near = laws(SCORES)[NEAR][0]
    for i in range(40):
        by_loss = np.argsort(BEHIND[:, i])
        assert (np.diff(near[by_loss, i]) < 0).all()


def test_levels_are_served_with_their_propensities() -> None:
    law, share = laws(SCORES)[NEAR]
    chosen, random = SCORES.argmax(axis=0), np.random.default_rng(1)
    who = np.full(40_000, 7)
    level, chance = sampled(law, share, chosen, who, random.random((2, who.size)))
    assert chance.sum(axis=0) == pytest.approx(1.0)
    seen = np.bincount(level, minlength=6) / who.size
    error = np.sqrt(chance[:, 7] * (1 - chance[:, 7]) / who.size)
    assert (np.abs(seen - chance[:, 7]) < 4 * error + 1e-12).all()
