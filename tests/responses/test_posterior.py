"""Posterior of curves against ordinary least squares with clusters, its own coverage, and what it may do to a curve."""

import numpy as np
import statsmodels.api as sm

from shadowprice.curves import Curves
from shadowprice.responses.posterior import CurvePosterior, basis

LEVELS = np.array([0, 50, 100, 200])
DELTA = np.array([0.02, -0.3, 0.2, -0.5])
TERMS = 4


def believed(accounts: int, rng: np.random.Generator) -> Curves:
    start, slope = rng.uniform(0.1, 0.3, accounts), rng.uniform(0.05, 0.25, accounts)
    return Curves(LEVELS, (start + slope * (LEVELS[:, None] / 100.0)).astype(np.float32))


def trial(curves: Curves, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Levels at random, and responses by curves that are off by ``DELTA``."""
    truth = curves.response + np.tensordot(DELTA, basis(curves), axes=1)
    level = rng.integers(0, LEVELS.size, curves.accounts)
    return level, (rng.random(curves.accounts) < truth[level, np.arange(level.size)]).astype(float)


def test_many_rows_give_least_squares_with_errors_by_account() -> None:
    rng = np.random.default_rng(0)
    curves = believed(200_000, rng)
    level, y = trial(curves, rng)
    account = np.arange(y.size) // 4
    found = CurvePosterior.fit(curves, level, y, account)
    rows = np.arange(y.size)
    fitted = sm.OLS(y - curves.response[level, rows], basis(curves)[:, level, rows].T).fit(
        cov_type="cluster", cov_kwds={"groups": account, "use_correction": False}
    )
    np.testing.assert_allclose(found.mean, fitted.params, atol=0.02)
    np.testing.assert_allclose(np.sqrt(np.diag(found.covariance)), fitted.bse, rtol=0.03)


def test_the_law_covers_the_planted_error() -> None:
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(300):
        curves = believed(3000, rng)
        level, y = trial(curves, rng)
        found = CurvePosterior.fit(curves, level, y, np.arange(y.size))
        inside.append(np.abs(found.mean - DELTA) < 1.96 * np.sqrt(np.diag(found.covariance)))
    share = np.mean(inside, axis=0)
    assert (share > 0.90).all(), share
    assert (share < 0.99).all(), share


def test_few_rows_leave_about_the_prior() -> None:
    found = CurvePosterior.fit(believed(4, np.random.default_rng(0)), [0, 1, 2, 3], [0, 1, 0, 0], [0, 1, 2, 3])
    assert np.abs(found.mean[1:]).max() < 0.6
    np.testing.assert_allclose(np.diag(found.covariance)[1:], np.ones(TERMS - 1), atol=0.4)


def test_a_curve_that_rises_stays_in_range_and_never_falls_wherever_it_is_moved() -> None:
    rng = np.random.default_rng(2)
    curves = believed(500, rng)
    law = CurvePosterior(np.zeros(TERMS), np.eye(TERMS))
    for delta in (*rng.normal(0, 3, (200, TERMS)), np.full(TERMS, -9.0)):
        # Above 1 an own effect may outweigh the mean one, and the curve of an account may fall.
        moved = law.move(curves, np.minimum(delta, [9.0, 9.0, 9.0, 0.0]) * [1.0, 0.0, 1.0, 1.0]).response
        assert moved.min() >= 0.0
        assert moved.max() <= 1.0
        assert np.diff(moved, axis=0).min() >= -1e-6
    axes = np.stack(list(CurvePosterior(np.zeros(TERMS), np.diag([4.0, 1.0, 9.0, 0.0])).axes()))
    np.testing.assert_allclose(axes.T @ axes, np.diag([4.0, 1.0, 9.0, 0.0]), atol=1e-12)
    assert CurvePosterior.from_dict(law.to_dict()).covariance.tolist() == law.covariance.tolist()
