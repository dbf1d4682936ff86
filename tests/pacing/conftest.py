"""A small two-sided market with known truth, and days of requests in it."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache

import numpy as np
import pytest

from shadowprice.campaign import Budget, BudgetForm, Campaign, Side, Terms
from shadowprice.curves import Curves
from shadowprice.pacing.forecast import Forecast, Profile
from shadowprice.pacing.replay.compare import Setting
from shadowprice.pacing.replay.day import Accounts, draw_day
from shadowprice.pacing.replay.outcomes import NamedCurves, OutcomeModel
from shadowprice.pacing.replay.policies import past_traffic

LEVELS: dict[Side, tuple[int, ...]] = {"customer": (50, 80, 100, 150, 200), "merchant": (0, 20, 50, 100)}
LIMITS: dict[BudgetForm, float] = {"total": 32.0, "per_account": 32.0, "per_response": 70.0}
START = datetime(2026, 3, 1, tzinfo=UTC)
HOURS = np.arange(24)
SHARES = 1 + 0.9 * np.sin((HOURS - 9) / 24 * 2 * np.pi) + 0.6 * np.exp(-(((HOURS - 12) / 1.5) ** 2))


@lru_cache
def market(seed: int, accounts: int = 1500) -> tuple[dict[Side, NamedCurves], dict[Side, Accounts]]:
    """True curves and activity of both sides."""
    rng = np.random.default_rng(seed)
    money = {side: np.array(levels)[:, None] / 100 for side, levels in LEVELS.items()}
    hazard = np.exp(rng.normal(-1.8, 0.6, accounts)) + np.exp(rng.normal(-1, 0.7, accounts)) * money["customer"] ** (
        rng.uniform(0.5, 1.6, accounts)
    )
    ratio = np.exp(rng.normal(-0.5, 0.5, accounts)) + np.exp(rng.normal(-1.2, 0.8, accounts)) * money["merchant"]
    truth: dict[Side, NamedCurves] = {}
    who: dict[Side, Accounts] = {}
    for side, response in (("customer", -np.expm1(-hazard)), ("merchant", ratio)):
        names = np.array([f"{side[0]}{i:05d}" for i in range(accounts)])
        truth[side] = NamedCurves(names, Curves(np.array(LEVELS[side]), response))  # type: ignore[index]
        who[side] = Accounts(names, np.exp(rng.normal(0, 0.8, accounts)))  # type: ignore[index]
    return truth, who


def make_setting(
    seed: int = 0,
    *,
    form: BudgetForm = "total",
    requests: float = 6000,
    shock: Mapping[int, float] | None = None,
    model: Mapping[Side, NamedCurves] | None = None,
) -> Setting:
    """A day of about ``requests`` requests, two thirds of them customers'."""
    truth, who = market(seed)
    campaign = Campaign(
        name="spring",
        sides={
            "customer": Terms(levels=LEVELS["customer"]),
            "merchant": Terms(levels=LEVELS["merchant"], cost_basis="on_grant", weight=0.5),
        },
        budget=Budget(form=form, limit=LIMITS[form] * (round(requests) if form == "total" else 1)),
        starts_at=START,
    )
    forecast = Forecast.of(
        campaign, {"customer": Profile(SHARES, requests * 2 / 3), "merchant": Profile(SHARES, requests / 3)}
    )
    return Setting(
        campaign=campaign,
        day=draw_day(forecast.expected, who, seed=seed, shock=shock),
        outcomes=OutcomeModel(campaign, truth, seed=seed),
        model=truth if model is None else model,
        forecast=forecast,
        history=past_traffic(who, 4000, seed + 1000),
    )


@pytest.fixture(name="make_setting", scope="session")
def _make_setting() -> Callable[..., Setting]:
    return make_setting
