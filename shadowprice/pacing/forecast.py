"""Forecast of the requests still to come: an hourly profile, corrected by the requests of today."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.errors import InvalidInput

DAY_VARIATION = 0.2
"""Coefficient of variation of a day's level around the profile, before anything is seen."""
HOUR_VARIATION = 0.1
"""Coefficient of variation of an hour around the day's level, beyond Poisson noise."""
MEMORY = 0.8
"""Share of an hour's weight that is left one hour later."""
PERSISTENCE = 0.5
"""Share of the last hour's surprise expected to last into the next hour, and so on."""


@dataclass(frozen=True)
class Profile:
    """A side's ordinary day.

    shares  float64 (24,), share of the day's requests in each hour of the day (UTC), sums to 1
    level   requests a day
    """

    shares: NDArray[np.float64]
    level: float

    def __post_init__(self) -> None:
        shares = np.asarray(self.shares, dtype=np.float64)
        if shares.shape != (24,) or not np.all(np.isfinite(shares)) or np.any(shares < 0) or shares.sum() <= 0:
            raise InvalidInput("must be 24 shares, not negative, not all zero", field="shares")
        if not (np.isfinite(self.level) and self.level >= 0):
            raise InvalidInput("must be a number of requests, not negative", field="level")
        object.__setattr__(self, "shares", shares / shares.sum())

    @classmethod
    def fit(cls, at: ArrayLike, days: float) -> Profile:
        """The profile of past requests.

        Args:
            at: datetime64 (n,), UTC, times of all requests of ``days`` whole days.
            days: length of the history.

        One request is added to every hour, so that the forecast of no hour is 0.
        """
        hours = np.asarray(at, dtype="datetime64[h]").astype(np.int64)
        return cls.of_counts(hours, np.ones(hours.size, dtype=np.int64), days)

    @classmethod
    def of_counts(cls, hours: NDArray[np.int64], count: NDArray[np.int64], days: float) -> Profile:
        """The profile of :meth:`fit` from the number of requests in each hour.

        Args:
            hours: int (n,), hours since 1970, UTC.
            count: (n,), requests in each.
            days: length of the history.
        """
        if not days > 0:
            raise InvalidInput("must be positive", field="days")
        shares = np.bincount(hours % 24, count, minlength=24).astype(np.float64)
        return cls(shares + 1.0, int(count.sum()) / days)

    def expected(self, campaign: Campaign) -> NDArray[np.float64]:
        """(hours,): expected requests in each slot of the window; one that begins within an hour has parts of two."""
        start = campaign.starts_at
        hours = start.hour + np.arange(campaign.hours)
        part = (start.minute * 60 + start.second) / 3600
        return self.level * ((1 - part) * self.shares[hours % 24] + part * self.shares[(hours + 1) % 24])


@dataclass(frozen=True)
class Forecast:
    """Expected requests by slot, and their correction during the day.

    expected  side → float64 (hours,), requests expected in each slot before the window opens
    """

    expected: Mapping[Side, NDArray[np.float64]]

    @classmethod
    def of(cls, campaign: Campaign, profiles: Mapping[Side, Profile]) -> Forecast:
        """Return the forecast of a campaign's window from each side's ordinary day.

        Where the campaign states its ``expected_requests``, the profiles give the shares of sides and hours, and the
        campaign gives the total of its window.
        """
        past = sum(float(profile.expected(campaign).sum()) for profile in profiles.values())
        if campaign.expected_requests is not None and past > 0:
            growth = campaign.expected_requests / past
            profiles = {side: replace(profile, level=growth * profile.level) for side, profile in profiles.items()}
        return cls({side: profile.expected(campaign) for side, profile in profiles.items()})

    def remaining(self, at: float, observed: Mapping[Side, ArrayLike]) -> dict[Side, NDArray[np.float64]]:
        """Requests expected from ``at`` to the end of the window, given those before it.

        Args:
            at: hours since the window opened, 0 … hours.
            observed: side → (⌈at⌉,), requests seen in each earlier slot, the last of them in progress where
                ``at`` is not whole.

        Returns:
            side → (hours − ⌊at⌋,), the first the rest of the slot in progress.

        The ratio of observed to expected is tracked by a discounted mean, each hour weighted by its precision: with
        expected count E and extra variation c its weight is E/(1 + c²E); the prior ratio of 1 weighs 1/c_day². Old
        hours, the prior among them, lose weight by ``MEMORY`` per hour. The last hour's surprise (shrunk the same way)
        is added and fades by ``PERSISTENCE`` per hour, so that the next solve reacts to a shock at once. A slot in
        progress counts by its elapsed share φ: an expectation of φ·E, and weights and surprises that fade by the
        φ-th power.
        """
        slot, part = int(at), at - int(at)
        ahead: dict[Side, NDArray[np.float64]] = {}
        for side, expected in self.expected.items():
            seen = _counts(observed, side, slot + (part > 0))
            rest = expected[slot:].copy()
            rest[:1] *= 1.0 - part
            ahead[side] = rest * self._ratio(expected, seen, slot, part)
        return ahead

    @staticmethod
    def _ratio(expected: NDArray[np.float64], seen: NDArray[np.float64], slot: int, part: float) -> NDArray[np.float64]:
        prior = 1.0 / DAY_VARIATION**2
        weight, total, surprise = prior, prior, 0.0
        for hour, (count, whole) in enumerate(zip(seen, expected, strict=False)):
            elapsed = 1.0 if hour < slot else part
            mean = whole * elapsed
            precision = mean / (1.0 + HOUR_VARIATION**2 * mean)
            weight, total = MEMORY**elapsed * weight + precision, MEMORY**elapsed * total
            surprise *= PERSISTENCE**elapsed
            if mean > 0:
                total += precision * count / mean
                seen_now = precision / (precision + prior) * (count / mean - total / weight)
                surprise = (1.0 - elapsed) * surprise + seen_now
        ahead = np.maximum(np.arange(1, expected.size - slot + 1) - part, 0.0)
        ratio: NDArray[np.float64] = np.maximum(total / weight + surprise * PERSISTENCE**ahead, 0.0)
        return ratio


def _counts(observed: Mapping[Side, ArrayLike], side: Side, slot: int) -> NDArray[np.float64]:
    counts = np.asarray(observed.get(side, ()), dtype=np.float64)
    if counts.shape != (slot,):
        raise InvalidInput(
            f"side {side!r} needs one count for each of {slot} slots, got shape {counts.shape}", field="observed"
        )
    return counts
