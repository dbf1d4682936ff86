import numpy as np
import pytest
from scipy import stats

from shadowprice.evaluation.statistics.fieller import fieller


def test_the_bounds_are_where_the_test_of_the_difference_just_rejects():
    found = fieller(2.0, 0.8, (0.09, 0.02), 0.01, degrees=30)
    assert found is not None
    bound = stats.t.ppf(0.975, 30)
    for ratio in (found.low, found.high):
        error = np.sqrt(0.09 - 2 * ratio * 0.01 + ratio**2 * 0.02)
        assert abs(2.0 - ratio * 0.8) / error == pytest.approx(bound)


def test_it_covers_a_ratio_whose_denominator_is_uncertain():
    rng = np.random.default_rng(0)
    covariance = np.array([[0.04, 0.01], [0.01, 0.03]])
    drawn = rng.multivariate_normal([1.0, 0.7], covariance, 4000)
    found = [fieller(a, b, (0.04, 0.03), 0.01) for a, b in drawn]
    inside = [each is not None and each.low <= 1 / 0.7 <= each.high for each in found]
    unbounded = [each is None for each in found]
    # An unbounded set holds the truth where the difference at the truth is not rejected.
    held = [abs(a - b / 0.7) <= 1.96 * np.sqrt(0.04 - 0.02 / 0.7 + 0.03 / 0.49) for a, b in drawn]
    covered = [inner or (free and kept) for inner, free, kept in zip(inside, unbounded, held, strict=True)]
    assert 0.94 < np.mean(covered) < 0.96
    assert 0.0 < np.mean(unbounded) < 0.5


def test_a_denominator_that_may_be_zero_has_no_bounds():
    assert fieller(1.0, 0.1, (0.01, 0.01)) is None
