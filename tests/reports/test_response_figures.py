import dataclasses
import xml.etree.ElementTree as ElementTree

import numpy as np

from shadowprice.currency import Currency
from shadowprice.evaluation.prediction.change_points import find_change_points
from shadowprice.reports.response_figures import calibration, hazard_by_level, response_by_level


def words(svg: str) -> list[str]:
    return [each.text for each in ElementTree.fromstring(svg).iter("text")]


def test_the_response_figure_names_its_units_curves_and_change_points(example):
    side = example.sides[0]
    shown = words(response_by_level(side.levels, "customer", Currency(), side.hazard))
    assert {"Incentive, dollars", "Response, %", "truth", "model", "observed, 95 % interval"} <= set(shown)
    assert shown.count("0.8") == 2
    plain = words(response_by_level(dataclasses.replace(side.levels, truth=None), "merchant", Currency()))
    assert "truth" not in plain
    assert "Response, ratio to before" in plain


def test_levels_that_nobody_was_given_leave_a_gap_and_no_error(example):
    levels = example.sides[0].levels
    hole = np.where(np.arange(10) == 4, np.nan, 1.0)
    holed = dataclasses.replace(
        levels,
        observed=levels.observed * hole,
        predicted=levels.predicted * hole,
        low=levels.low * hole,
        high=levels.high * hole,
    )
    assert "nan" not in response_by_level(holed, "customer", Currency()).lower()


def test_the_hazard_figure_is_not_flattened_by_a_level_where_all_respond():
    rng = np.random.default_rng(0)
    level = rng.integers(0, 4, 4000)
    y = np.where(level == 3, 1, rng.random(4000) < [0.1, 0.2, 0.3, 1.0][0] * (level + 1))
    levels = np.array([50, 100, 150, 160])
    found = find_change_points(y, level, levels)
    assert found.free.hazard[-1] > 50 * found.free.hazard[0]
    shown = words(hazard_by_level(found, "customer", Currency(), levels))
    assert {"Hazard rate, per $1", "segments found", "one rate per level"} <= set(shown)


def test_a_hazard_of_zero_is_drawn():
    found = find_change_points(np.zeros(50), np.arange(50) % 2, [10, 20])
    assert "<svg" in hazard_by_level(found, "customer", Currency(), np.array([10, 20]))


def test_the_calibration_figure_shows_the_repair_only_when_there_is_one(example):
    side = example.sides[0]
    assert "after calibration" in words(calibration(side.calibration, side.repaired, "customer"))
    assert "after calibration" not in words(calibration(side.calibration, None, "customer"))
