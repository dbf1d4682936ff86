import math

import numpy as np
import pytest
from scipy import stats

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.confidence_sequence import confidence_sequence


def by_the_book(x: list[float], alpha: float) -> list[tuple[float, float, float]]:
    """The theorem's sums, one value after the other, without the running intersection."""
    found = []
    for n in range(1, len(x) + 1):
        mean, variance = 0.5, 0.25
        top = bottom = spread = 0.0
        for t in range(1, n + 1):
            bet = min(math.sqrt(2 * math.log(2 / alpha) / (variance * t * math.log(1 + t))), 0.5)
            top, bottom = top + bet * x[t - 1], bottom + bet
            spread += 4 * (x[t - 1] - mean) ** 2 * (-math.log(1 - bet) - bet) / 4
            mean = (0.5 + sum(x[:t])) / (t + 1)
            means = [(0.5 + sum(x[:i])) / (i + 1) for i in range(1, t + 1)]
            variance = (0.25 + sum((x[i] - means[i]) ** 2 for i in range(t))) / (t + 1)
        half = (math.log(2 / alpha) + spread) / bottom
        found.append((top / bottom, top / bottom - half, top / bottom + half))
    return found


def test_it_is_the_theorem_with_the_intersection_of_what_came_before() -> None:
    x = np.random.default_rng(0).beta(2, 5, 60)
    found = confidence_sequence(3 + 2 * x, 3, 5, level=0.9)
    expected = np.array(by_the_book(x.tolist(), 0.1))
    np.testing.assert_allclose(found.value, 3 + 2 * expected[:, 0])
    np.testing.assert_allclose(found.low, 3 + 2 * np.maximum.accumulate(np.maximum(expected[:, 1], 0)))
    np.testing.assert_allclose(found.high, 3 + 2 * np.minimum.accumulate(np.minimum(expected[:, 2], 1)))
    assert (found.last.value, found.last.low, found.last.high) == (found.value[-1], found.low[-1], found.high[-1])


def test_it_covers_the_mean_at_all_sizes_at_once_and_an_interval_looked_at_daily_does_not() -> None:
    replications, rows, truth = 400, 1500, 0.2
    random = np.random.default_rng(1)
    always = daily = 0
    for _ in range(replications):
        x = (random.random(rows) < truth).astype(float)
        found = confidence_sequence(x, 0, 1)
        always += bool((found.low <= truth).all() and (truth <= found.high).all())
        n = np.arange(1, rows + 1)
        mean = np.cumsum(x) / n
        half = stats.norm.ppf(0.975) * np.sqrt(mean * (1 - mean) / n)
        looked = slice(99, None, 20)
        daily += bool((np.abs(mean - truth) <= half)[looked].all())
    assert always / replications >= 0.95
    assert daily / replications < 0.85


def test_its_width_follows_the_spread_and_not_the_bounds() -> None:
    random = np.random.default_rng(2)
    narrow, wide = (confidence_sequence(0.5 + spread * (random.random(5000) - 0.5), 0, 1) for spread in (0.1, 1.0))
    width = [each.high[-1] - each.low[-1] for each in (narrow, wide)]
    assert width[0] < 0.4 * width[1]
    fixed = 2 * 1.96 * np.sqrt(1 / 12 / 5000)
    assert fixed < width[1] < 3 * fixed


@pytest.mark.parametrize(
    ("x", "low", "high", "level", "message"),
    [([2.0], 0, 1, 0.95, r"x: .*rows: 0"), ([1.0], 1, 1, 0.95, "low"), ([0.5], 0, 1, 1.0, "level")],
)
def test_what_cannot_be_is_refused(x: list[float], low: float, high: float, level: float, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        confidence_sequence(x, low, high, level=level)
