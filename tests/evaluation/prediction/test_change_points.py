from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chi2

from shadowprice.evaluation.prediction.change_points import find_change_points
from shadowprice.evaluation.prediction.current_status import CurrentStatus
from shadowprice.evaluation.prediction.segments import fit_segments

LEVELS = np.arange(20, 201, 20)
JUMPS = np.array([2, 2, 2, 2, 5, 10, 10, 10, 10, 10]) / 1000


def trial(seed, rows, rates, spread=0.8):
    """Randomized levels, accounts whose hazards differ by a known factor, one answer each."""
    rng = np.random.default_rng(seed)
    offset = rng.normal(0, spread, rows)
    level = rng.integers(0, LEVELS.size, rows)
    cumulative = np.cumsum(np.diff(np.r_[0, LEVELS]) * rates)
    y = rng.random(rows) < -np.expm1(-np.exp(offset) * cumulative[level])
    return y, level, offset


@pytest.mark.parametrize("seed", range(3))
def test_planted_change_points_at_80_and_100_are_found_among_accounts_that_differ(seed):
    y, level, offset = trial(seed, 40_000, JUMPS)
    found = find_change_points(y, level, LEVELS, offset)
    assert found.at.tolist() == [80, 100]
    assert (found.p_value < 1e-6).all()
    z = (found.segments.hazard - [0.002, 0.005, 0.010]) / found.segments.standard_error
    assert (np.abs(z) < 4).all()
    assert found.free.edges.tolist() == [0, *LEVELS]


def test_a_constant_hazard_rarely_shows_a_change_point():
    found = 0
    for seed in range(50):
        y, level, offset = trial(seed, 2000, np.full(10, 0.005))
        found += find_change_points(y, level, LEVELS, offset).at.size > 0
    assert found <= 3


def test_the_segmentation_found_is_the_one_that_a_search_of_all_finds():
    agreed = 0
    for seed in range(12):
        rates = np.array([2, 2, 6, 6, 6, 12, 12, 12, 12, 12]) / 1000
        y, level, _ = trial(seed, 3000, rates, spread=0.0)
        kept = level < 6
        y, level, levels = y[kept], level[kept], LEVELS[:6]
        data = CurrentStatus(y, level, levels)
        best = min(
            (
                -2 * (fit := fit_segments(data, [0, *inner, levels[-1]])).loglik + fit.parameters * np.log(y.size),
                inner,
            )
            for size in range(6)
            for inner in combinations(levels[:-1].tolist(), size)
        )
        agreed += tuple(find_change_points(y, level, levels).at.tolist()) == best[1]
    assert agreed >= 11


def test_the_p_value_of_the_only_boundary_is_the_one_of_a_likelihood_ratio_test():
    y, level, _ = trial(3, 4000, JUMPS, spread=0.0)
    found = find_change_points(y, np.where(level < 4, 0, 1), [80, 200])
    data = CurrentStatus(y, np.where(level < 4, 0, 1), [80, 200])
    lost = fit_segments(data, [0, 80, 200]).loglik - fit_segments(data, [0, 200]).loglik
    assert found.at.tolist() == [80]
    assert found.p_value[0] == pytest.approx(chi2.sf(2 * lost, 1))


def test_without_a_change_the_likelihood_ratio_of_a_place_fixed_beforehand_has_its_level():
    ratios = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        level = rng.integers(0, 2, 800)
        data = CurrentStatus(rng.random(800) < -np.expm1(-0.005 * np.array([100, 200])[level]), level, [100, 200])
        ratios.append(2 * (fit_segments(data, [0, 100, 200]).loglik - fit_segments(data, [0, 200]).loglik))
    assert 0.02 <= np.mean(np.array(ratios) > chi2.isf(0.05, 1)) <= 0.09


def test_zero_among_the_levels_is_fitted_as_a_base_mass_and_not_as_a_change_point():
    rng = np.random.default_rng(5)
    levels = np.array([0, 50, 100, 150])
    level = rng.integers(0, 4, 8000)
    y = rng.random(8000) < -np.expm1(-(0.2 + 0.004 * levels[level]))
    found = find_change_points(y, level, levels)
    assert found.at.size == 0
    assert abs(found.segments.base_mass - 0.2) < 4 * found.segments.base_mass_error
    assert abs(found.segments.hazard[0] - 0.004) < 4 * found.segments.standard_error[0]


def test_levels_that_nobody_was_given_are_no_candidates():
    y, level, offset = trial(1, 5000, JUMPS)
    kept = ~np.isin(level, [4, 9])
    found = find_change_points(y[kept], level[kept], LEVELS, offset[kept])
    assert found.free.edges.tolist() == [0, 20, 40, 60, 80, 120, 140, 160, 180]


def test_a_trial_of_no_incentive_alone_gives_its_base_mass_and_no_hazard():
    y = np.r_[np.ones(30), np.zeros(70)]
    found = find_change_points(y, np.zeros(100, dtype=int), [0, 50])
    assert found.segments.base_mass == pytest.approx(-np.log(0.7))
    assert found.segments.hazard.size == found.at.size == 0
