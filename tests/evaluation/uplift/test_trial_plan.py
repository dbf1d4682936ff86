"""The size of a trial against simulated trials and against statsmodels."""

import doctest

import numpy as np
import pytest
from statsmodels.stats.power import NormalIndPower

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.uplift import trial_plan
from shadowprice.evaluation.uplift.slope import within_slope
from shadowprice.evaluation.uplift.trial_plan import plan_trial

LEVELS = (100, 500, 5000)


@pytest.mark.parametrize(("base", "slope", "power"), [(0.07, 1e-5, 0.8), (0.3, 2e-5, 0.9)])
def test_simulated_trials_of_the_planned_size_find_the_slope_with_the_planned_power(
    base: float, slope: float, power: float
) -> None:
    plan = plan_trial(LEVELS, base, slope, 10_000.0, power=power)
    rng = np.random.default_rng(0)
    amount = np.repeat([plan.lowest, plan.highest], plan.requests // 2)
    found = 0
    for _ in range(600):
        y = (rng.random(plan.requests) < base + slope * (amount - plan.lowest)).astype(float)
        found += within_slope(y, amount, [np.zeros(plan.requests, dtype=int)]).low > 0
    assert found / 600 == pytest.approx(power, abs=0.045)


def test_for_a_ratio_it_is_the_size_that_statsmodels_solves_for() -> None:
    gain, variance = 0.2, 1.44
    plan = plan_trial([0, 1000], 2.0, gain / 1000, 500.0, variance=variance)
    reference = NormalIndPower().solve_power(gain / variance**0.5, power=0.8, alpha=0.05)
    assert plan.requests / 2 == pytest.approx(reference, abs=1.0)


def test_a_long_trial_takes_a_fifth_of_the_traffic_and_a_short_one_a_week() -> None:
    long = plan_trial(LEVELS, 0.07, 1e-6, 1000.0)
    assert long.share == pytest.approx(0.2, rel=0.01)
    assert long.requests == pytest.approx(long.share * long.days * 1000)
    short = plan_trial(LEVELS, 0.07, 1e-5, 1000.0)
    assert short.days == 7
    assert "100 and 5000 minor units at random" in str(short)
    assert "80% power" in str(short)
    assert doctest.testmod(trial_plan).failed == 0


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("slope", {"slope": 0.0}),
        ("levels", {"levels": [100]}),
        ("requests_per_day", {"requests_per_day": 0.0}),
        ("power, level", {"power": 1.0}),
        ("response", {"slope": 1e-3}),
        ("variance", {"variance": -1.0}),
    ],
)
def test_bad_input_is_refused_with_its_name(field: str, given: dict) -> None:
    good = {"levels": LEVELS, "response": 0.07, "slope": 1e-5, "requests_per_day": 10.0}
    with pytest.raises(InvalidInput, match=f"^{field}"):
        plan_trial(**(good | given))
