"""A two-sided market with known truth, and days of requests in it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache

import numpy as np

from shadowprice.campaign import Budget, Campaign, Side, Terms
from shadowprice.curves import Curves
from shadowprice.pacing.forecast import Forecast, Profile
from shadowprice.pacing.replay.compare import Setting
from shadowprice.pacing.replay.day import Accounts, draw_day
from shadowprice.pacing.replay.outcomes import NamedCurves, OutcomeModel
from shadowprice.pacing.replay.policies import past_traffic

LEVELS: dict[Side, tuple[int, ...]] = {"customer": (50, 80, 100, 150, 200), "merchant": (0, 20, 50, 100)}
LIMIT = 32
"""Minor units a request, in the mean."""
DELAY_HOURS = 0.5
START = datetime(2026, 3, 1, tzinfo=UTC)
_HOUR = np.arange(24)
SHARES = 1 + 0.9 * np.sin((_HOUR - 9) / 24 * 2 * np.pi) + 0.6 * np.exp(-(((_HOUR - 12) / 1.5) ** 2))


@lru_cache(maxsize=2)
def market(seed: int, accounts: int = 1500) -> tuple[dict[Side, NamedCurves], dict[Side, Accounts]]:
    """True curves and activity of both sides: redemption by an exponential hazard in r^b, a ratio linear in r."""
    rng = np.random.default_rng(seed)
    money = {side: np.array(levels)[:, None] / 100 for side, levels in LEVELS.items()}
    hazard = np.exp(rng.normal(-1.8, 0.6, accounts)) + np.exp(rng.normal(-1, 0.7, accounts)) * money["customer"] ** (
        rng.uniform(0.5, 1.6, accounts)
    )
    ratio = np.exp(rng.normal(-0.5, 0.5, accounts)) + np.exp(rng.normal(-1.2, 0.8, accounts)) * money["merchant"]
    responses: dict[Side, np.ndarray] = {"customer": -np.expm1(-hazard), "merchant": ratio}
    truth: dict[Side, NamedCurves] = {}
    who: dict[Side, Accounts] = {}
    for side, response in responses.items():
        names = np.array([f"{side[0]}{i:05d}" for i in range(accounts)])
        truth[side] = NamedCurves(names, Curves(np.array(LEVELS[side], dtype=np.int64), response.astype(np.float32)))
        who[side] = Accounts(names, np.exp(rng.normal(0, 0.8, accounts)))
    return truth, who


def market_day(
    seed: int, requests: int, shock: Mapping[int, float] | None = None, *, exploration: float = 0.0
) -> Setting:
    """A day of about ``requests`` requests, two thirds of them customers'; the model's curves are the true ones."""
    truth, who = market(seed)
    campaign = Campaign(
        name="spring",
        sides={
            "customer": Terms(levels=LEVELS["customer"]),
            "merchant": Terms(levels=LEVELS["merchant"], cost_basis="on_grant", weight=0.5),
        },
        budget=Budget(limit=LIMIT * requests),
        starts_at=START,
        exploration=exploration,
    )
    profiles: dict[Side, Profile] = {
        "customer": Profile(SHARES, requests * 2 / 3),
        "merchant": Profile(SHARES, requests / 3),
    }
    forecast = Forecast.of(campaign, profiles)
    return Setting(
        campaign=campaign,
        day=draw_day(forecast.expected, who, seed=seed, shock=shock),
        outcomes=OutcomeModel(campaign, truth, seed=seed),
        model=truth,
        forecast=forecast,
        history=past_traffic(who, 4000, seed + 1000),
    )
