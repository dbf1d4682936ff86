import numpy as np
import pandas as pd
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.responses.weights import effective_rows, inverse_propensity, means_by_level, row_weights


def assigned(rows: int = 40_000, strength: float = 1.0, seed: int = 0):
    """Levels that depend on x, their propensities, and a response that depends on both."""
    random = np.random.default_rng(seed)
    x = random.integers(0, 2, rows)
    chance = np.exp(strength * np.outer(2 * x - 1, [-1, 0, 1]))
    chance /= chance.sum(axis=1, keepdims=True)
    level = (random.random(rows)[:, None] > chance.cumsum(axis=1)).sum(axis=1)
    y = random.random(rows) < np.array([[0.6, 0.7, 0.8], [0.1, 0.2, 0.3]])[x, level]
    return x, level, y.astype(float), chance[np.arange(rows), level]


def test_weighted_means_by_level_are_those_of_a_randomized_trial() -> None:
    _, level, y, chance = assigned()
    found = inverse_propensity(level, chance, 3, clip=None)
    for j, truth in enumerate([0.35, 0.45, 0.55]):
        rows = level == j
        assert np.average(y[rows], weights=found.values[rows]) == pytest.approx(truth, abs=0.02)
        assert abs(y[rows].mean() - truth) > 0.03 or j == 1, "the raw means must be off, or nothing is tested"
    assert found.values.mean() == pytest.approx(1.0)


def test_in_a_randomized_trial_every_weight_is_about_one_whatever_the_arms_shares() -> None:
    random = np.random.default_rng(1)
    arms = np.array([0.7, 0.2, 0.1])
    level = random.choice(3, 20_000, p=arms)
    found = inverse_propensity(level, arms[level], 3)
    np.testing.assert_allclose(found.values, 1.0, atol=0.05)
    assert found.effective_rows == pytest.approx(20_000, rel=1e-3)


def test_the_effective_sample_size_is_that_of_kish() -> None:
    assert effective_rows([1, 1, 1, 1]) == 4
    assert effective_rows([1, 0, 0, 0]) == 1
    assert effective_rows([3, 1]) == pytest.approx(16 / 10)
    assert effective_rows([0.0, 0.0]) == 0


def test_the_variance_of_a_weighted_mean_is_that_of_the_effective_rows() -> None:
    """What the effective size promises, against the spread of the mean over 2000 samples."""
    random = np.random.default_rng(2)
    weight = random.lognormal(0, 1, 300)
    means = random.normal(size=(2000, 300)) @ (weight / weight.sum())
    assert means.var() == pytest.approx(1 / effective_rows(weight), rel=0.1)


def test_clipping_cuts_the_largest_weights_and_says_how_many() -> None:
    _, level, _, chance = assigned(strength=2.0)
    free, cut = (inverse_propensity(level, chance, 3, clip=clip) for clip in (None, 3.0))
    assert free.clipped == 0 < cut.clipped < 0.1
    assert cut.values.max() / cut.values.min() < free.values.max() / free.values.min()
    assert cut.effective_rows > free.effective_rows
    assert "effective" in str(cut)


def test_a_level_without_overlap_is_refused_by_name() -> None:
    level = np.array([0] * 500 + [1] * 500)
    chance = np.concatenate([np.full(500, 0.5), [1e-6], np.full(499, 0.999)])
    with pytest.raises(InvalidInput, match=r"propensity: no overlap at level 1.*rows: 500"):
        inverse_propensity(level, chance, 2, clip=None)
    assert inverse_propensity(level, chance, 2, clip=5.0).clipped == 0.001


@pytest.mark.parametrize("value", [0.0, -0.1, 1.2, np.nan])
def test_a_propensity_that_cannot_be_is_refused_with_its_row(value) -> None:
    with pytest.raises(InvalidInput, match=r"propensity.*rows: 2"):
        inverse_propensity([0, 1, 0], [0.5, 0.5, value], 2)


def test_a_frames_weight_wins_over_its_propensity_and_neither_means_ones() -> None:
    frame = pd.DataFrame({"level": [0, 0, 1, 1], "propensity": [0.8, 0.2, 0.5, 0.5]})
    ipw = row_weights(frame, 2)
    assert ipw[1] / ipw[0] == pytest.approx(4)
    np.testing.assert_allclose(row_weights(frame.assign(weight=[2, 2, 0, 0]), 2), [2, 2, 0, 0])
    np.testing.assert_array_equal(row_weights(frame[["level"]], 2), np.ones(4))


def test_a_balancing_weight_stands_for_the_propensity_and_multiplies_the_rows_own() -> None:
    frame = pd.DataFrame({"level": [0, 0, 1, 1], "propensity": [0.8, 0.2, 0.5, 0.5]})
    balanced = frame.assign(balancing_weight=inverse_propensity(frame["level"], frame["propensity"], 2).values)
    np.testing.assert_allclose(row_weights(balanced, 2), row_weights(frame, 2))
    own = np.array([1.0, 2.0, 0.0, 1.0])
    product = own * row_weights(frame, 2)
    np.testing.assert_allclose(row_weights(balanced.assign(weight=own), 2), product / product.mean())


def test_means_by_level_are_those_of_repeated_rows() -> None:
    random = np.random.default_rng(0)
    level, y, weight = random.integers(0, 3, 50), random.normal(size=50), random.integers(0, 3, 50)
    mean, total = means_by_level(level, y, weight, 4)
    again = np.repeat(np.arange(50), weight)
    for j in range(3):
        assert mean[j] == pytest.approx(y[again][level[again] == j].mean())
        assert total[j] == (level[again] == j).sum()
    assert np.isnan(mean[3])


@pytest.mark.parametrize("weight", [[1, -1], [1, np.nan], [0, 0]])
def test_weights_that_cannot_be_are_refused(weight) -> None:
    with pytest.raises(InvalidInput, match="weight"):
        row_weights(pd.DataFrame({"level": [0, 1], "weight": weight}), 2)
    with pytest.raises(InvalidInput, match="balancing_weight"):
        row_weights(pd.DataFrame({"level": [0, 1], "balancing_weight": weight}), 2)


def test_weights_of_which_no_row_has_both_are_refused() -> None:
    with pytest.raises(InvalidInput, match="balancing_weight"):
        row_weights(pd.DataFrame({"level": [0, 1], "weight": [1.0, 0.0], "balancing_weight": [0.0, 1.0]}), 2)
