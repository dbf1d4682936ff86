"""Evidence against closed forms, its false alarms on null data, and its power."""

import numpy as np
import pytest
from scipy import special, stats

from shadowprice.errors import InvalidInput
from shadowprice.watch.evidence import SHIFTS, evidence

RUNS = 1000
"""At each edge of the range."""


def test_the_evidence_of_one_day_is_the_mean_likelihood_ratio() -> None:
    y, p = np.array([1.0, 0.0, 0.0, 1.0, 1.0]), np.array([0.1, 0.3, 0.6, 0.2, 0.5])
    ratios = []
    for shift in (*SHIFTS, *(-each for each in SHIFTS)):
        q = special.expit(special.logit(p) + shift)
        ratios.append(np.prod(stats.bernoulli.pmf(y, q) / stats.bernoulli.pmf(y, p)))
    # Half of the mass waits for a later change.
    assert evidence(y, p, p, np.zeros(5, dtype=int))[0] == pytest.approx(np.log(0.5 + 0.5 * np.mean(ratios)))


def test_the_evidence_is_a_martingale_at_the_null_mean() -> None:
    p = 0.3
    expected = 0.0
    for code in range(2**6):
        y = np.array([code >> bit & 1 for bit in range(6)], dtype=float)
        chance = np.prod(np.where(y == 1, p, 1 - p))
        expected += chance * np.exp(evidence(y, p, p, np.array([0, 0, 1, 3, 3, 4]))[-1])
    assert expected == pytest.approx(1.0)


@pytest.mark.parametrize("edge", ["low", "high"])
def test_false_alarms_at_any_time_stay_below_the_stated_rate(edge: str) -> None:
    rng = np.random.default_rng(5)
    day = np.repeat(np.arange(14), 40)
    low, high = np.full(day.size, 0.18), np.full(day.size, 0.25)
    truth = low if edge == "low" else high
    alarms = [
        evidence((rng.random(day.size) < truth).astype(float), low, high, day).max() >= np.log(1 / 0.05)
        for _ in range(RUNS)
    ]
    # A rate of exactly 5 % would exceed this bound once in a thousand tests.
    assert np.mean(alarms) <= 0.05 + 3.1 * np.sqrt(0.05 * 0.95 / RUNS)


def test_ratios_in_the_unit_range_raise_no_more_false_alarms() -> None:
    rng = np.random.default_rng(6)
    day = np.repeat(np.arange(20), 20)
    alarms = [evidence(rng.beta(1, 3, day.size), 0.25, 0.25, day).max() >= np.log(1 / 0.05) for _ in range(300)]
    assert np.mean(alarms) <= 0.05


def test_a_late_shift_is_found_within_days() -> None:
    rng = np.random.default_rng(7)
    day = np.repeat(np.arange(40), 200)
    found = []
    for _ in range(100):
        y = (rng.random(day.size) < np.where(day < 20, 0.2, 0.3)).astype(float)
        grown = evidence(y, 0.2, 0.2, day)
        found.append(int(np.argmax(grown >= np.log(1 / 0.05))) if (grown >= np.log(1 / 0.05)).any() else 40)
    assert np.median(found) <= 23
    assert np.max(found) < 30


def test_a_response_above_one_and_days_out_of_order_are_refused() -> None:
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        evidence([0, 2], 0.5, 0.5, [0, 0])
    with pytest.raises(InvalidInput, match="descend"):
        evidence([0, 1], 0.5, 0.5, [1, 0])
    with pytest.raises(InvalidInput, match="range"):
        evidence([0, 1], 0.6, 0.5, [0, 0])
