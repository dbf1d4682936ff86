from itertools import combinations, pairwise

import numpy as np
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.evaluation import Interval, metrics


def test_rpr_and_epr_agree_with_a_loop_over_pairs():
    response = np.random.default_rng(0).integers(0, 4, (6, 40)) / 4
    falls, equals = [], []
    for curve in response.T:
        pairs = list(combinations(curve, 2))
        falls.append(np.mean([high < low for low, high in pairs]))
        equals.append(np.mean([high == low for low, high in pairs]))
    assert metrics.rpr(response) == pytest.approx(np.mean(falls))
    assert metrics.epr(response) == pytest.approx(np.mean(equals))


def test_a_rising_curve_has_no_reversed_pair_and_a_constant_one_only_equal_ones():
    rising = np.sort(np.random.default_rng(1).random((5, 30)), axis=0)
    assert metrics.rpr(rising) == metrics.epr(rising) == 0
    assert metrics.rpr(rising[::-1]) == 1
    assert metrics.epr(np.full((5, 3), 0.2)) == 1
    assert metrics.rpr(rising[:1]) == metrics.epr(rising[:1]) == 0


def test_mlss_is_zero_for_lines_on_unequal_levels_and_the_slope_deviation_of_a_kink():
    levels = [10, 20, 50, 100]
    line = np.outer(levels, [0.001, 0.002])
    assert metrics.mlss(line, levels=levels) == pytest.approx(0, abs=1e-12)
    kinked = np.array([[0.0], [0.1], [0.1], [0.1]])
    assert metrics.mlss(kinked, levels=[0, 10, 20, 30]) == pytest.approx(np.std([0.01, 0, 0]))


def test_mlss_looks_only_as_far_as_its_radius():
    response = np.array([[0.0], [0.1], [0.3], [0.4], [0.5]])
    levels = [0, 10, 20, 30, 40]
    assert metrics.mlss(response, levels=levels, radius=10) == pytest.approx(np.std([0.01, 0.02]))
    assert metrics.mlss(response, levels=levels, radius=5) == 0


def test_shape_metrics_take_intervals_over_accounts():
    response = np.random.default_rng(2).random((4, 100))
    found = metrics.rpr(response, interval=Interval(replications=300))
    assert found.low < found.value < found.high


def test_a_vector_is_refused_where_curves_are_meant():
    with pytest.raises(InvalidInput, match="response"):
        metrics.rpr([0.1, 0.2])


def test_mlss_agrees_with_a_loop_over_accounts_and_windows():
    random = np.random.default_rng(4)
    levels = np.cumsum(random.integers(1, 15, 9))
    response = random.random((9, 12))
    radius = 20.0
    roughest = []
    for curve in response.T:
        pieces = [(a, b, (curve[k + 1] - curve[k]) / (b - a)) for k, (a, b) in enumerate(pairwise(levels))]
        windows = [[s for a, b, s in pieces if a >= center - radius and b <= center + radius] for center in levels]
        roughest.append(max(np.std(window) for window in windows if window))
    assert metrics.mlss(response, levels=levels, radius=radius) == pytest.approx(np.mean(roughest))
