"""Checks of a served model on simulated requests: silent on null data, and loud on a planted drift."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import special

from shadowprice.errors import InvalidInput
from shadowprice.watch.curve_shape import slope_error
from shadowprice.watch.finding import BY_LEVEL, BY_SIDE
from shadowprice.watch.label_drift import label_drift
from shadowprice.watch.reference import Reference
from shadowprice.watch.registry import CHECKS, check_all
from shadowprice.watch.stability import stability_index

LEVELS, DAYS, DAILY = 3, 20, 300
BASE = special.logit([0.15, 0.25, 0.35])


def requests(seed: int, common: float = 0.0, slope: float = 0.0, moved: float = 0.0, since: int = 0) -> pd.DataFrame:
    """Explored requests; from day ``since`` the truth is off in log odds, by level, or for other accounts."""
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(DAYS), DAILY)
    late = day >= since
    level = rng.integers(0, LEVELS, day.size)
    odds = BASE[level] + rng.normal(moved * late, 0.5)
    truth = special.expit(odds + late * (common + slope * level / (LEVELS - 1)))
    return pd.DataFrame(
        {
            "account_id": [f"a{each}" for each in range(day.size)],
            "side": "customer",
            "level": level,
            "day": day,
            "predicted": special.expit(odds),
            "response": (rng.random(day.size) < truth).astype(float),
            "explored": True,
        }
    )


def reference() -> Reference:
    rng = np.random.default_rng(99)
    predicted = special.expit(BASE[:, None] + rng.normal(0, 0.5, 5000))
    labels = {("customer", level): (5000, float(predicted[level].mean())) for level in range(LEVELS)}
    return Reference(levels={"customer": LEVELS}, predicted={"customer": predicted}, labels=labels)


def alarms(rows: pd.DataFrame) -> dict[str, int]:
    """Check → first day of an alarm."""
    found: dict[str, int] = {}
    for each in check_all(rows, reference()):
        if each.alarm:
            found[each.check] = min(each.day, found.get(each.check, each.day))
    return found


def test_a_level_whose_mean_response_in_training_is_above_1_is_not_tested() -> None:
    rows = requests(0).assign(side="merchant", level=1, response=np.tile([0.9, 0.0], DAYS * DAILY // 2))
    (found,) = label_drift(rows, replace(reference(), labels={("merchant", 1): (200, 1.3)}))
    assert not found.alarm
    assert found.sentence == (
        "merchant, level 1: not tested, because the mean response in training, 1.3000, is above 1."
    )


def test_null_data_raise_no_alarm_and_every_check_reports() -> None:
    found = [check_all(requests(seed), reference()) for seed in range(20)]
    assert sum(each.alarm for run in found for each in run) == 0
    assert {each.check for each in found[0]} == set(CHECKS) == {*BY_LEVEL, *BY_SIDE} - {"feature_drift"}
    assert "no evidence" in found[0][0].sentence


@pytest.mark.parametrize(
    ("drift", "expected", "silent"),
    [
        ({"common": 0.7, "since": 10}, {"calibration", "label_drift"}, {"stability", "curve_shape"}),
        ({"common": -0.8, "since": 10}, {"calibration", "label_drift"}, {"stability", "curve_shape"}),
        ({"slope": 1.2}, {"calibration", "label_drift", "curve_shape"}, {"stability"}),
        ({"moved": 0.7}, {"stability", "label_drift"}, {"calibration", "curve_shape"}),
    ],
)
def test_a_planted_drift_is_found_by_the_checks_that_are_meant_for_it(
    drift: dict[str, float], expected: set[str], silent: set[str]
) -> None:
    found = alarms(requests(1, **drift))  # type: ignore[arg-type]
    assert expected <= set(found)
    assert not silent & set(found)
    assert all(day >= drift.get("since", 0) for check, day in found.items() if check != "stability")


def test_the_error_of_the_slope_is_that_of_a_logistic_regression_with_an_offset() -> None:
    rows = requests(2, slope=0.5)
    step = rows["level"].to_numpy() / 2
    offset = special.logit(rows["predicted"].to_numpy())
    model = sm.GLM(rows["response"], sm.add_constant(step), family=sm.families.Binomial(), offset=offset)
    fitted = model.fit(cov_type="HC0")
    found = slope_error(rows["response"].to_numpy(), rows["predicted"].to_numpy(), step)
    assert found == pytest.approx((fitted.params.iloc[1], fitted.bse.iloc[1]), rel=1e-6)
    assert np.isnan(slope_error(np.ones(9), np.full(9, 0.5), np.zeros(9))).all()


def test_levels_without_an_order_have_no_shape_to_check() -> None:
    drifted = requests(1, slope=1.2)
    (side,) = reference().levels
    assert CHECKS["curve_shape"](drifted, reference())[0].alarm
    assert CHECKS["curve_shape"](drifted, replace(reference(), unordered=(side,))) == []
    # Their calibration is checked level by level.
    assert any(each.alarm for each in CHECKS["calibration"](drifted, replace(reference(), unordered=(side,))))


def test_without_a_response_the_slope_is_not_known_yet() -> None:
    [found] = CHECKS["curve_shape"](requests(3).assign(response=0.0), reference())
    assert not found.alarm
    assert "not known yet" in found.sentence


def test_the_stability_index_is_the_sum_over_deciles() -> None:
    expected = np.arange(1000.0)
    observed = np.concatenate([np.arange(100.0), np.arange(100.0)])
    e = (np.histogram(expected, 10)[0] + 0.5) / 1005
    o = np.full(10, 0.5 / 205)
    o[0] = 200.5 / 205
    assert stability_index(expected, observed) == (pytest.approx(((o - e) * np.log(o / e)).sum()), 10)
    # A value that most rows share makes fewer bins.
    assert stability_index(np.zeros(50), np.zeros(10))[1] == 2


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidInput, match="tolerance"):
        Reference(levels={}, tolerance=-1.0)
    with pytest.raises(InvalidInput, match="rate"):
        Reference(levels={}, rate=0.0)
    rows = requests(3)
    rows.loc[0, "response"] = 2.0
    assert "above 1" in CHECKS["calibration"](rows, reference())[int(rows["level"][0])].sentence
