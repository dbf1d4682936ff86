"""The arrival forecast on days whose law is known."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.errors import InvalidInput
from shadowprice.pacing.forecast import Forecast, Profile

HOURS = np.arange(24)
SHARES = 1 + 0.9 * np.sin((HOURS - 9) / 24 * 2 * np.pi)
EXPECTED = 12_000 * SHARES / SHARES.sum()
FORECAST = Forecast({"customer": EXPECTED})


def ratio(observed: np.ndarray, slot: int) -> np.ndarray:
    """Forecast over profile, for each slot to come."""
    remaining = FORECAST.remaining(slot, {"customer": observed[:slot]})["customer"]
    return np.asarray(remaining / EXPECTED[slot:])


def poisson_day(rng: np.random.Generator, factor: np.ndarray | float = 1.0) -> np.ndarray:
    return rng.poisson(EXPECTED * factor)


def test_before_anything_is_seen_the_forecast_is_the_profile() -> None:
    np.testing.assert_array_equal(ratio(np.zeros(0), 0), np.ones(24))


def test_a_day_exactly_as_expected_changes_nothing() -> None:
    for slot in (1, 12, 23, 24):
        np.testing.assert_allclose(ratio(EXPECTED, slot), 1.0, rtol=1e-12)


def test_a_busy_day_is_recognized_within_the_morning() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        observed = poisson_day(rng, 1.3)
        assert ratio(observed, 8).mean() == pytest.approx(1.3, abs=0.09)
        assert ratio(observed, 14).mean() == pytest.approx(1.3, abs=0.06)


def test_on_days_of_unknown_level_the_error_is_a_fraction_of_the_profiles() -> None:
    rng = np.random.default_rng(1)
    ours, profiles = [], []
    for _ in range(100):
        observed = poisson_day(rng, np.exp(rng.normal(0, 0.2)))
        for slot in range(6, 23):
            truth = observed[slot:].sum() / EXPECTED[slot:].sum()
            ours.append(np.average(ratio(observed, slot), weights=EXPECTED[slot:]) - truth)
            profiles.append(1 - truth)
    assert np.sqrt(np.mean(np.square(ours))) < 0.3 * np.sqrt(np.mean(np.square(profiles)))


def test_a_doubled_noon_is_half_believed_for_the_next_hour_and_mostly_forgotten_by_the_evening() -> None:
    rng = np.random.default_rng(2)
    factor = np.where(HOURS == 12, 2.0, 1.0)
    days = [poisson_day(rng, factor) for _ in range(50)]
    after = np.mean([ratio(day, 13) for day in days], axis=0)
    assert 1.4 < after[0] < 1.7
    assert after[-1] < 1.3
    assert np.mean([ratio(day, 16) for day in days]) < 1.12
    assert np.mean([ratio(day, 20) for day in days]) < 1.05


def test_a_sustained_doubling_becomes_the_level() -> None:
    rng = np.random.default_rng(3)
    factor = np.where(HOURS >= 12, 2.0, 1.0)
    days = [poisson_day(rng, factor) for _ in range(50)]
    next_hour = [float(np.mean([ratio(day, slot)[0] for day in days])) for slot in range(13, 19)]
    assert next_hour == sorted(next_hour)
    assert next_hour[1] > 1.55
    assert next_hour[-1] > 1.75
    # Twice as near to the truth as a discounted mean without the reaction to the last hour.
    plain = np.mean([np.average(day[:13] / EXPECTED[:13], weights=0.8 ** np.arange(12, -1, -1)) for day in days])
    assert 2.0 - next_hour[0] < 0.7 * (2.0 - plain)


def test_a_handful_of_night_requests_moves_little() -> None:
    thin = Forecast({"customer": EXPECTED / 200})
    remaining = thin.remaining(3, {"customer": [1, 0, 2]})["customer"]
    assert np.abs(remaining / (EXPECTED[3:] / 200) - 1).max() < 0.25


def test_an_hour_without_expected_requests_teaches_nothing() -> None:
    closed = np.where(HOURS < 6, 0.0, EXPECTED)
    remaining = Forecast({"customer": closed}).remaining(6, {"customer": [0, 0, 5, 0, 0, 0]})["customer"]
    np.testing.assert_allclose(remaining, closed[6:])


def test_a_surprise_fades_over_an_hour_that_is_closed() -> None:
    open_again = np.where(HOURS == 13, 0.0, EXPECTED)
    seen = np.where(HOURS == 12, 2.0, 1.0) * open_again
    forecast = Forecast({"customer": open_again})
    before = forecast.remaining(13, {"customer": seen[:13]})["customer"][1:] / open_again[14:]
    after = forecast.remaining(14, {"customer": seen[:14]})["customer"] / open_again[14:]
    np.testing.assert_allclose(after, before, rtol=1e-12)


def test_the_forecast_is_never_negative_and_reads_nothing_but_its_arguments() -> None:
    observed = np.concatenate([EXPECTED[:12] * 3, [0.0] * 12])
    for slot in range(25):
        first, second = ratio(observed, slot), ratio(observed, slot)
        np.testing.assert_array_equal(first, second)
        assert (first >= 0).all()


def test_each_side_is_forecast_on_its_own() -> None:
    both = Forecast({"customer": EXPECTED, "merchant": EXPECTED / 2})
    remaining = both.remaining(2, {"customer": EXPECTED[:2] * 2, "merchant": EXPECTED[:2] / 2})
    assert remaining["customer"].sum() > 1.3 * EXPECTED[2:].sum()
    np.testing.assert_allclose(remaining["merchant"], EXPECTED[2:] / 2)


@pytest.mark.parametrize("observed", [{}, {"customer": [1.0]}, {"customer": [1.0, 2.0, 3.0]}])
def test_counts_that_do_not_fit_the_slot_are_refused(observed: dict[str, list[float]]) -> None:
    with pytest.raises(InvalidInput, match="observed"):
        FORECAST.remaining(2, observed)  # type: ignore[arg-type]


def test_a_profile_is_learnt_from_past_requests() -> None:
    rng = np.random.default_rng(4)
    days = [np.repeat(HOURS, poisson_day(rng)) + 24 * day for day in range(14)]
    minutes = (np.concatenate(days) * 60 + 7).astype("timedelta64[m]")
    profile = Profile.fit(np.datetime64("2026-02-01T00:00") + minutes, days=14)
    assert profile.level == pytest.approx(12_000, rel=0.01)
    np.testing.assert_allclose(profile.shares, SHARES / SHARES.sum(), rtol=0.1)
    assert profile.shares.sum() == pytest.approx(1.0)


def test_a_window_that_starts_at_noon_reads_the_profile_from_noon_and_around_midnight() -> None:
    campaign = Campaign(
        name="late",
        sides={"customer": Terms(levels=(1,))},
        budget=Budget(limit=1),
        starts_at=datetime(2026, 3, 1, 12, tzinfo=UTC),
        hours=30,
    )
    expected = Forecast.of(campaign, {"customer": Profile(SHARES, 12_000)}).expected["customer"]
    np.testing.assert_allclose(expected, EXPECTED[np.arange(12, 42) % 24])
    half = replace(campaign, starts_at=campaign.starts_at + timedelta(minutes=30))
    between = Forecast.of(half, {"customer": Profile(SHARES, 12_000)}).expected["customer"]
    np.testing.assert_allclose(between[:-1], (expected[:-1] + expected[1:]) / 2)


@pytest.mark.parametrize(
    ("shares", "level", "field"),
    [
        (np.ones(23), 1.0, "shares"),
        (np.zeros(24), 1.0, "shares"),
        (-np.ones(24), 1.0, "shares"),
        (np.full(24, np.nan), 1.0, "shares"),
        (np.ones(24), -1.0, "level"),
        (np.ones(24), np.nan, "level"),
    ],
)
def test_an_impossible_profile_is_refused(shares: np.ndarray, level: float, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Profile(shares, level)
    assert caught.value.field == field
