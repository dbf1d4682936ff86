import numpy as np
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.evaluation import metrics


def trial(rows: int, seed: int):
    """y, paid, the true return on spend, treatment: rows differ in what their spend brings."""
    random = np.random.default_rng(seed)
    roi = random.uniform(0, 2, rows)
    treatment = random.integers(0, 2, rows)
    spend = 0.3
    visit = random.random(rows) < 0.2 + spend * treatment
    bought = random.random(rows) < 0.05 + roi * spend * treatment * 0.3
    return bought.astype(float), visit.astype(float), roi, treatment


def by_walking(y, paid, score, treatment, steps):
    """The published procedure, row by row."""
    order = np.argsort(-score, kind="stable")
    y, paid, arm = y[order], paid[order], treatment[order].astype(bool)
    whole = paid[arm].mean() - paid[~arm].mean()
    total = y[arm].mean() - y[~arm].mean()
    heights, k, sums = [0.0], 1, np.zeros((2, 2))
    for i in range(y.size):
        sums[int(arm[i])] += y[i], paid[i]
        gained, spent = sums[1] / arm.sum() - sums[0] / (~arm).sum()
        if i == y.size - 1 or (k < steps and spent >= whole / steps * k):
            heights.append(gained)
            k += 1
    return sum(heights) / (total * (steps + 1))


@pytest.mark.parametrize("steps", [5, 20])
def test_it_is_the_published_procedure(steps: int) -> None:
    rows = trial(20_000, 1)
    assert metrics.aucc(*rows, steps=steps) == pytest.approx(by_walking(*rows, steps), abs=1e-3)


def test_a_random_score_has_about_a_half_and_the_true_ratio_more() -> None:
    y, paid, roi, treatment = trial(200_000, 2)
    noise = np.random.default_rng(3).random(y.size)
    assert metrics.aucc(y, paid, noise, treatment) == pytest.approx(0.5, abs=0.02)
    # Spend is the same for all, so at a share q of it the best rows have brought 1 − (1 − q)² of the value.
    assert metrics.aucc(y, paid, roi, treatment) == pytest.approx(2 / 3, abs=0.02)


def test_scores_that_are_no_scores_are_refused() -> None:
    y, paid, roi, treatment = trial(50, 0)
    with pytest.raises(InvalidInput, match="treatment"):
        metrics.aucc(y, paid, roi, treatment + 1)
    with pytest.raises(InvalidInput, match="steps"):
        metrics.aucc(y, paid, roi, treatment, steps=0)
    assert np.isnan(metrics.aucc(y, paid, roi, np.ones(50)))


@pytest.mark.parametrize("wobble", [0.0, 1e-15])
def test_rows_of_equal_scores_enter_together_in_any_order(wobble: float) -> None:
    y, paid, roi, treatment = trial(2_000, 4)
    random = np.random.default_rng(5)
    order = random.permutation(y.size)
    for score in (np.full(y.size, 0.3), np.round(roi, 1)):
        scored = score + wobble * random.standard_normal(y.size)
        first = metrics.aucc(y, paid, scored, treatment)
        again = metrics.aucc(y[order], paid[order], score[order], treatment[order])
        assert first == pytest.approx(again, abs=1e-9)
    assert metrics.aucc(y, paid, np.full(y.size, 0.3) + wobble * roi, treatment) == pytest.approx(0.5, abs=1e-12)


def test_the_curve_is_straight_within_a_group_of_equal_scores() -> None:
    """Two groups of scores: the area is that of a triangle and a trapezium."""
    random = np.random.default_rng(6)
    rows = 4_000
    score, treatment = random.integers(0, 2, rows).astype(float), random.integers(0, 2, rows)
    paid = treatment * 1.0
    y = (random.random(rows) < 0.1 + 0.2 * treatment * (1 + score)).astype(float)
    arm, best = treatment == 1, score == 1
    spent = (arm & best).sum() / arm.sum()
    gained = y[arm & best].sum() / arm.sum() - y[~arm & best].sum() / (~arm).sum()
    total = y[arm].mean() - y[~arm].mean()
    area = 0.5 * spent * gained + 0.5 * (1 - spent) * (gained + total)
    steps = 2_000
    assert metrics.aucc(y, paid, score, treatment, steps=steps) == pytest.approx(area / total, abs=2 / steps)


def test_other_rankings_take_scores_that_differ_by_rounding_for_ties() -> None:
    y, _, roi, treatment = trial(2_000, 7)
    score = np.round(roi, 1)
    wobbled = score + 1e-15 * np.random.default_rng(8).standard_normal(y.size)
    for metric in (metrics.auuc, metrics.qini, metrics.lift, metrics.wau):
        assert metric(y, wobbled, treatment) == pytest.approx(metric(y, score, treatment), abs=1e-12)
