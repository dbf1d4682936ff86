"""What a day teaches about its curves: against the Kalman filter's recursion, and on days that drift."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from benchmarks.pacing.scenarios import SCENARIOS
from shadowprice.campaign import Budget
from shadowprice.pacing.budgets.learned import HOURLY_DRIFT, LARGEST, REQUEST_VARIATION, spend_ratio
from shadowprice.pacing.pacers import make_pacer
from shadowprice.pacing.replay.compare import Setting
from shadowprice.pacing.resolve import CampaignState
from shadowprice.pacing.spend import SpendReport
from shadowprice.price import PriceRecord

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
MakeSetting = Callable[..., Setting]


def record(**changes: Any) -> PriceRecord:
    fields: dict[str, Any] = {
        "campaign": "spring",
        "version": 9,
        "slot": 8,
        "prices": {"budget": 0.01},
        "tie_share": 0.0,
        "status": "optimal",
        "primal": 1.0,
        "dual": 1.0,
        "gap": 0.0,
        "violation": 0.0,
        "spent": 1000,
        "remaining": 1600,
        "sample_rows": 1,
        "model_version": "m",
        "solved_at": NOW,
        "expires_at": NOW,
        "at": 8.0,
        "requests": 100,
        "expected": 4000.0,
        "plan": (1000.0, 1100.0, 5000.0),
        "arrivals": (100.0, 200.0, 4100.0),
        "spend_ratio": 1.0,
    }
    return PriceRecord(**(fields | changes))


def learned(setting: Setting, paid: float, asked: int = 100, at: float = 9.0, **changes: Any) -> float:
    """The ratio after ``asked`` more requests that took ``paid`` minor units; the plan has one for each."""
    newest: PriceRecord = changes.pop("newest", record())
    spend = SpendReport(spent=0, responses={}, requests={"customer": 100 + asked, "merchant": 0}, observed_at=NOW)
    arguments = {"campaign": setting.campaign, "newest": newest, "model_version": "m"} | changes
    return spend_ratio(spend=spend, committed=1000.0 + paid, at=at, **arguments)


@pytest.fixture
def setting(make_setting: MakeSetting) -> Setting:
    return make_setting(requests=10)


@pytest.mark.parametrize(("asked", "hours"), [(3, 1.0), (100, 1.0), (3000, 1.0), (50, 1 / 12), (500, 4.0)])
def test_the_gain_is_the_one_that_the_filters_recursion_settles_at(setting: Setting, asked: int, hours: float) -> None:
    noise, step = REQUEST_VARIATION**2 / asked, HOURLY_DRIFT**2 * hours
    variance = 1.0
    for _ in range(100_000):
        before = variance + step
        gain = before / (before + noise)
        variance = (1 - gain) * before
    found = learned(setting, 1.5 * asked, asked, 8.0 + hours)
    assert found - 1 == pytest.approx(0.5 * gain, rel=1e-6)


def test_more_requests_than_forecast_are_not_a_surprise_of_the_curves(setting: Setting) -> None:
    assert learned(setting, 100.0) == 1.0
    assert learned(setting, 400.0, asked=400) == 1.0
    assert learned(setting, 90.0) < 1.0 < learned(setting, 110.0)


def test_what_teaches_nothing_keeps_the_ratio_and_a_new_model_or_a_mean_starts_at_one(
    setting: Setting, make_setting: MakeSetting
) -> None:
    kept = record(spend_ratio=0.8)
    unplanned = replace(kept, plan=(), arrivals=())
    for newest in (replace(kept, status="steered"), replace(kept, status="bounded"), unplanned):
        assert learned(setting, 10.0, newest=newest) == 0.8
    assert learned(setting, 0.0, asked=0, newest=kept) == 0.8
    assert learned(setting, 10.0, at=8.0, newest=kept) == 0.8
    assert learned(setting, 10.0, newest=kept, model_version="other") == 1.0
    assert learned(setting, 10.0, newest=None) == 1.0
    mean = make_setting(requests=10, form="per_account")
    assert learned(mean, 10.0, newest=kept) == 1.0


def test_one_wrong_total_teaches_no_more_than_a_doubling(setting: Setting) -> None:
    assert learned(setting, 1e9) == learned(setting, 200.0)
    assert learned(setting, 1e9, newest=record(spend_ratio=LARGEST)) == LARGEST


def test_the_price_is_that_of_the_money_over_the_ratio(make_setting: MakeSetting) -> None:
    """Where each expected minor unit costs two, the price is that of half the money, and the plan is all of it."""
    setting = make_setting(requests=2400)

    def solved(limit: float, newest: PriceRecord | None) -> PriceRecord:
        state = CampaignState(
            campaign=replace(setting.campaign, budget=Budget(limit=limit)),
            at=9.0,
            slot_and_step=(9, 0),
            spend=SpendReport(spent=0, responses={}, requests={"customer": 100, "merchant": 0}, observed_at=NOW),
            remaining={"customer": np.full(2, 800.0), "merchant": np.full(2, 400.0)},
            curves=lambda: {side: mine.curves for side, mine in setting.model.items()},
            newest=newest,
            version=1,
            model_version="m",
            now=NOW,
        )
        return state.solve().record

    before = record(spend_ratio=2.0, spent=0, status="steered", prices={"budget": 0.004})
    twice, half = solved(80_000, before), solved(40_000, None)
    assert twice.prices == pytest.approx(half.prices, rel=1e-9)
    assert twice.plan[-1] == pytest.approx(2 * half.plan[-1], rel=1e-9)
    assert twice.spend_ratio == 2.0


def test_a_day_whose_responses_fall_is_noticed_and_spends_its_budget(make_setting: MakeSetting) -> None:
    """Simulated. Responses fall to 70 % from noon on; a day as forecast must not be taken for one."""
    drift, still = SCENARIOS["response_drift"], SCENARIOS["stationary"]
    setting = make_setting(seed=3)
    falling = drift.run(drift.apply(setting), make_pacer("hourly"))
    usual = still.run(still.apply(setting), make_pacer("hourly"))
    ratio = {name: np.array([found.record.spend_ratio for _, found in played.prices]) for name, played in
             (("falling", falling), ("usual", usual))}  # fmt: skip
    assert ratio["falling"][0] == ratio["usual"][0] == 1.0
    # What is paid on response falls by 30 %, what is paid on grant does not.
    assert 0.65 < ratio["falling"][-1] < 0.92
    assert np.abs(ratio["usual"] - 1).max() < 0.12
    spent = falling.outcomes.cost.sum() / setting.campaign.budget.limit
    assert 0.985 < spent <= 1.0
