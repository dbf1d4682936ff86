"""Curve repair against scikit-learn's isotonic regression, and on curves whose truth is known."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.isotonic import IsotonicRegression

from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.evaluation import metrics
from shadowprice.responses.repair.repair import IsotonicMap, Repair, pava


def sklearn_pava(y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    x = np.arange(len(y))
    return np.stack([IsotonicRegression().fit(x, y[:, n], weight[:, n]).predict(x) for n in range(y.shape[1])], axis=1)


@pytest.mark.parametrize("levels", [1, 2, 3, 10])
def test_projection_is_isotonic_regression(levels: int) -> None:
    rng = np.random.default_rng(levels)
    y, weight = rng.normal(size=(levels, 200)), rng.uniform(0.1, 5.0, size=(levels, 200))
    np.testing.assert_allclose(pava(y, weight), sklearn_pava(y, weight), atol=1e-12)
    one = weight[:, 0]
    np.testing.assert_allclose(pava(y, one), sklearn_pava(y, np.tile(one[:, None], 200)), atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(arrays(np.float64, (5, 3), elements=st.floats(-10, 10).map(lambda v: round(v, 2))))
def test_projection_rises_is_idempotent_and_keeps_what_rises(y: np.ndarray) -> None:
    once = pava(y)
    assert (np.diff(once, axis=0) >= 0).all()
    np.testing.assert_array_equal(pava(once), once)
    rising = (np.diff(y, axis=0) >= 0).all(axis=0)
    np.testing.assert_array_equal(once[:, rising], y[:, rising])
    np.testing.assert_allclose(once.mean(axis=0), y.mean(axis=0), atol=1e-12)


def test_no_rising_curve_is_nearer() -> None:
    rng = np.random.default_rng(0)
    y, weight = rng.normal(size=4), rng.uniform(0.5, 2, size=4)
    best = float(weight @ (pava(y, weight) - y) ** 2)
    others = np.sort(rng.normal(size=(20_000, 4)), axis=1)
    assert best <= (((others - y) ** 2) @ weight).min()


@pytest.mark.parametrize(
    ("y", "weight", "words"),
    [
        (np.array([[1.0], [np.nan]]), None, "finite"),
        (np.ones((2, 1)), np.array([1.0, 0.0]), "positive"),
        (np.ones((2, 1)), np.ones(3), "shape"),
    ],
)
def test_bad_columns_are_refused(y, weight, words) -> None:
    with pytest.raises(InvalidInput, match=words):
        pava(y, weight)


def test_a_map_runs_through_the_centers_of_isotonic_blocks() -> None:
    rng = np.random.default_rng(1)
    p = rng.uniform(size=5000)
    y = (rng.uniform(size=5000) < p**2).astype(float)
    fitted = IsotonicMap.fit(p, y)
    bins = np.searchsorted(np.sort(p)[np.arange(1, 50) * 100], p, side="right")
    means = np.array([[p[bins == b].mean(), y[bins == b].mean()] for b in range(50)])
    isotonic = IsotonicRegression().fit(means[:, 0], means[:, 1], np.bincount(bins)).predict(means[:, 0])
    np.testing.assert_allclose(np.unique(isotonic)[1:], fitted.observed[1:-1], atol=1e-12)
    first = isotonic == isotonic[0]
    assert isotonic[0] == 0
    half = 0.5 / np.bincount(bins)[first].sum()
    assert fitted.observed[0] == pytest.approx(min(half, fitted.observed[1] / 2)), "half a response where there is none"
    assert (np.diff(fitted.predicted) > 0).all()
    assert (np.diff(fitted.observed) > 0).all()
    grid = np.linspace(0, 1, 101)
    assert np.abs(fitted(grid) - grid**2).max() < 0.12
    assert (np.diff(fitted(grid)) > 0).all(), "no two levels of a rising curve may tie after calibration"


def test_a_plateau_is_not_carried_on_by_a_model_that_rises() -> None:
    """Responses of 0.3, then 0.8 whatever the prediction: the map's end lies within a standard error of the plateau."""
    rng = np.random.default_rng(4)
    p = rng.uniform(0.2, 1.0, size=4000)
    y = (rng.uniform(size=4000) < np.where(p < 0.4, 0.3, 0.8)).astype(float)
    fitted = IsotonicMap.fit(p, y)
    mean, count = y[p >= 0.5].mean(), np.count_nonzero(p >= 0.5)
    assert fitted(0.999) == pytest.approx(mean, abs=3 * np.sqrt(mean * (1 - mean) / count) + 0.02)
    assert fitted(0.999) < 0.9 < 0.8 * 0.999 / 0.7, "in proportion to the prediction it would be"
    assert (np.diff(fitted(np.linspace(0.2, p.max(), 50))) > 0).all()


def world(rows: int, seed: int, bent: bool = True) -> tuple[Curves, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rising truth, a model that bends it and dips at one level, and randomized levels and responses."""
    rng = np.random.default_rng(seed)
    base = rng.normal(-2, 1, size=rows)
    truth = 1 / (1 + np.exp(-(base + np.array([0.0, 0.5, 1.0, 1.5])[:, None])))
    model = np.sqrt(truth) if bent else truth
    if bent:
        model[2] *= 0.7
    level = rng.integers(0, 4, size=rows)
    y = (rng.uniform(size=rows) < truth[level, np.arange(rows)]).astype(float)
    return Curves([10, 20, 30, 40], model.astype(np.float32)), truth, level, y, np.arange(rows) // 2


@pytest.mark.parametrize("calibration", ["pooled", "by_level"])
def test_repair_brings_curves_nearer_to_the_truth_on_rows_it_has_not_seen(calibration) -> None:
    curves, _, level, y, account = world(20_000, 0)
    repair = Repair.fit(curves, level, y, calibration=calibration, account=account)
    unseen, truth, level, y, _ = world(20_000, 1)
    fixed = repair.apply(unseen)
    assert repair.notes["kept"]
    assert metrics.rpr(unseen.response) > 0.1
    assert metrics.rpr(fixed.response) == 0
    rows = np.arange(level.size)
    before = metrics.ece(y, unseen.response[level, rows], groups=level)
    after = metrics.ece(y, fixed.response[level, rows], groups=level)
    assert after < before / 3
    error = [np.mean((each.response - truth) ** 2) for each in (unseen, fixed)]
    assert error[1] < error[0] / 5
    if calibration == "by_level":
        assert after < 0.02, "a map per level also takes the dip out"


def test_a_calibrated_model_is_left_alone() -> None:
    kept = []
    for seed in range(20):
        curves, _, level, y, account = world(2000, seed, bent=False)
        kept.append(Repair.fit(curves, level, y, calibration="by_level", account=account).notes["kept"])
    assert np.mean(kept) < 0.2


def test_a_pooled_map_keeps_a_rising_curve_rising_and_its_levels_apart() -> None:
    curves, _, level, y, account = world(5000, 3)
    rising = Curves(curves.levels, np.sort(curves.response, axis=0))
    repair = Repair.fit(rising, level, y, calibration="pooled", project=False, account=account)
    fixed = repair.apply(rising).response
    assert repair.notes["kept"]
    assert metrics.rpr(fixed) == 0
    assert metrics.epr(fixed) <= metrics.epr(rising.response) + 1e-9


def test_it_is_the_same_after_json() -> None:
    curves, _, level, y, account = world(3000, 5)
    for options in ({"calibration": "by_level"}, {"calibration": "pooled", "ceiling": np.inf}, {"project": False}):
        repair = Repair.fit(curves, level, y, account=account, **options)
        again = Repair.from_dict(json.loads(json.dumps(repair.to_dict())))
        np.testing.assert_array_equal(again.apply(curves).response, repair.apply(curves).response)
        assert again.is_identity == repair.is_identity


def test_too_few_rows_calibrate_nothing_but_curves_are_still_projected() -> None:
    curves, _, level, y, _ = world(150, 6)
    repair = Repair.fit(curves, level, y, calibration="pooled")
    assert not repair.maps
    np.testing.assert_allclose(
        repair.apply(curves).response,
        sklearn_pava(curves.response.astype(float), np.tile(np.bincount(level)[:, None], 150)),
        atol=1e-6,
    )


def test_a_repair_of_other_levels_is_refused() -> None:
    curves, _, level, y, account = world(3000, 7)
    repair = Repair.fit(curves, level, y, calibration="by_level", account=account)
    with pytest.raises(InvalidInput, match="fitted on 4 levels"):
        repair.apply(Curves([10, 20], curves.response[:2]))
