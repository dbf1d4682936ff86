"""Uplift metrics against the loops of their definitions, written out (scikit-uplift's formulas)."""

import numpy as np
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.evaluation import Interval, metrics


def trial(rows: int, seed: int, ties: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Response, score, treatment and true effect."""
    rng = np.random.default_rng(seed)
    effect = rng.uniform(-0.1, 0.4, rows)
    arm = rng.integers(0, 2, rows)
    y = (rng.uniform(size=rows) < 0.3 + arm * effect).astype(float)
    score = effect + rng.normal(0, 0.1, rows)
    return y, np.round(score, 1) if ties else score, arm, effect


def curve(y, score, arm, kind):
    """Points after each distinct score, from the best down."""
    points = [(0.0, 0.0)]
    for threshold in sorted(set(score), reverse=True):
        chosen = score >= threshold
        treated, control = (chosen & (arm == 1)), (chosen & (arm == 0))
        n1, n0 = treated.sum(), control.sum()
        y1, y0 = y[treated].sum(), y[control].sum()
        if kind == "uplift":
            height = ((y1 / n1 if n1 else 0) - (y0 / n0 if n0 else 0)) * (n1 + n0)
        else:
            height = y1 - (y0 * n1 / n0 if n0 else 0)
        points.append((n1 + n0, height))
    return np.array(points).T


def area(points):
    return np.trapezoid(points[1], points[0])


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_auuc_and_qini_are_the_areas_of_their_curves(seed, ties):
    y, score, arm, _ = trial(80, seed, ties)
    points = curve(y, score, arm, "uplift")
    assert metrics.auuc(y, score, arm) == pytest.approx(area(points) / 80**2, rel=1e-12)
    points, best = curve(y, score, arm, "qini"), curve(y, y * arm - y * (1 - arm), arm, "qini")
    random = 0.5 * points[0, -1] * points[1, -1]
    expected = (area(points) - random) / (area(best) - random)
    assert metrics.qini(y, score, arm) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_lift_and_wau_are_differences_of_arm_means_in_ranges_of_the_score(seed):
    y, score, arm, _ = trial(200, seed)
    order = np.argsort(-score)
    first = order[:60]
    expected = y[first][arm[first] == 1].mean() - y[first][arm[first] == 0].mean()
    assert metrics.lift(y, score, arm) == pytest.approx(expected, rel=1e-12)
    total, treated = 0.0, 0
    for part in np.array_split(order, 10):
        n1 = (arm[part] == 1).sum()
        total += n1 * (y[part][arm[part] == 1].mean() - y[part][arm[part] == 0].mean())
        treated += n1
    assert metrics.wau(y, score, arm) == pytest.approx(total / treated, rel=1e-12)


@pytest.mark.parametrize("name", ["auuc", "qini", "lift", "wau"])
def test_a_whole_weight_is_repeated_rows(name):
    y, score, arm, _ = trial(120, 7)
    times = 1 + np.arange(120) % 3
    repeated = [np.repeat(each, times) for each in (y, score, arm)]
    call = getattr(metrics, name)
    assert call(y, score, arm, weight=times) == pytest.approx(call(*repeated), rel=1e-9)
    found = call(y, score, arm, interval=Interval(replications=100))
    assert found.low < found.value < found.high


def test_the_true_effect_ranks_better_than_noise_and_worse_than_perfect():
    y, _, arm, effect = trial(20_000, 3)
    noise = np.random.default_rng(0).normal(size=y.size)
    assert metrics.qini(y, effect, arm) > metrics.qini(y, noise, arm) + 0.03
    assert abs(metrics.qini(y, noise, arm)) < 0.02
    assert metrics.qini(y, np.where(arm == 1, y, -y), arm) == pytest.approx(1.0)
    average = y[arm == 1].mean() - y[arm == 0].mean()
    assert metrics.auuc(y, noise, arm) == pytest.approx(average / 2, abs=0.01)
    assert metrics.lift(y, effect, arm) == pytest.approx(effect[effect >= np.quantile(effect, 0.7)].mean(), abs=0.03)


def test_an_empty_arm_is_not_a_number_and_a_third_arm_is_refused():
    y, score, arm, _ = trial(50, 0)
    assert np.isnan(metrics.auuc(y, score, np.ones(50)))
    assert np.isnan(metrics.qini(y, score, np.zeros(50)))
    with pytest.raises(InvalidInput, match="treatment: must be 0 or 1"):
        metrics.lift(y, score, arm + 1)
