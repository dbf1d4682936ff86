import doctest

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from shadowprice.errors import InvalidInput
from shadowprice.evaluation import metrics
from shadowprice.evaluation.uplift import slope
from shadowprice.evaluation.uplift.slope import slope_over_windows, within_slope


def confounded(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    merchant = rng.integers(0, 12, 900)
    window = rng.integers(0, 3, 900)
    value = 10 * rng.integers(1, 6, 900) + 20 * merchant
    # The merchants with the largest coupons have the lowest response: the raw slope points down.
    y = 0.004 * value - 0.15 * merchant + 0.1 * window + rng.normal(0, 0.3, 900)
    account = [f"c{i}" for i in rng.integers(0, 150, 900)]
    return pd.DataFrame({"y": y, "value": value, "merchant": merchant, "window": window, "account": account})


def test_the_slope_within_cells_and_its_error_agree_with_dummies_in_statsmodels():
    frame = confounded()
    frame["cell"] = frame["merchant"].astype(str) + "-" + frame["window"].astype(str)
    groups = pd.factorize(frame["account"])[0]
    reference = smf.ols("y ~ value + C(cell)", frame).fit(cov_type="cluster", cov_kwds={"groups": groups})
    found = within_slope(frame["y"], frame["value"], [frame["merchant"], frame["window"]], cluster=frame["account"])
    assert found.value == pytest.approx(reference.params["value"], rel=1e-8)
    assert found.standard_error == pytest.approx(reference.bse["value"], rel=1e-8)
    assert found.t == pytest.approx(reference.tvalues["value"], rel=1e-8)
    assert (found.rows, found.cells, found.clusters) == (900, 36, 150)


def test_the_error_in_two_ways_of_clusters_agrees_with_statsmodels():
    frame = confounded()
    rng = np.random.default_rng(5)
    account, partner = pd.factorize(frame["account"])[0], rng.integers(0, 30, 900)
    # Slopes that differ between accounts and between partners make their rows dependent within cells.
    steepness = rng.normal(0, 0.05, 150)[account] + rng.normal(0, 0.05, 30)[partner]
    frame["y"] += steepness * (frame["value"] - 20 * frame["merchant"])
    frame["cell"] = frame["merchant"].astype(str) + "-" + frame["window"].astype(str)
    groups = np.column_stack([account, partner])
    reference = smf.ols("y ~ value + C(cell)", frame).fit(
        cov_type="cluster", cov_kwds={"groups": groups}, use_t=True
    )  # fmt: skip
    cells = [frame["merchant"], frame["window"]]
    found = within_slope(frame["y"], frame["value"], cells, cluster=frame["account"], partner=partner)
    low, high = reference.conf_int().loc["value"]
    assert (found.value, found.standard_error) == pytest.approx(
        (reference.params["value"], reference.bse["value"]), rel=1e-6
    )
    assert (found.low, found.high, found.clusters) == pytest.approx((low, high, 30), rel=1e-6)
    alone = within_slope(frame["y"], frame["value"], cells, cluster=frame["account"])
    assert found.standard_error > 1.2 * alone.standard_error


def test_holding_the_confounder_fixed_turns_a_raw_slope_that_points_the_wrong_way():
    frame = confounded()
    raw = within_slope(frame["y"], frame["value"], [np.zeros(900, dtype=int)])
    held = within_slope(frame["y"], frame["value"], [frame["merchant"], frame["window"]], cluster=frame["account"])
    assert raw.high < 0
    assert held.low < 0.004 < held.high
    assert held.p_value < 1e-6


def test_cells_in_which_the_value_does_not_vary_carry_no_information():
    rng = np.random.default_rng(3)
    value = np.r_[np.full(50, 10), rng.integers(1, 5, 50)]
    cell = np.repeat(["fixed", "varied"], 50)
    y = rng.normal(size=100)
    found = within_slope(y, value, [cell])
    changed = within_slope(y + np.where(cell == "fixed", rng.normal(size=100), 0), value, [cell])
    assert found.informative_rows == 50
    assert changed.value == pytest.approx(found.value, rel=1e-12)


def test_a_value_that_never_varies_within_a_cell_is_refused():
    with pytest.raises(InvalidInput, match="value: does not vary"):
        within_slope([0, 1, 0, 1], [5, 5, 9, 9], [["a", "a", "b", "b"]])


def test_the_slope_of_curves_is_the_mean_of_each_accounts_least_squares_line():
    levels = np.array([10, 20, 50, 100])
    response = np.random.default_rng(4).random((4, 25))
    expected = np.mean([np.polyfit(levels, curve, 1)[0] for curve in response.T])
    assert metrics.curve_slope(response, levels=levels) == pytest.approx(expected)


def drifting(seed: int, slopes: np.ndarray, rows: int = 3000) -> pd.DataFrame:
    """Windows whose slopes differ; merchants who give more have lower responses."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"window": rng.integers(0, slopes.size, rows), "merchant": rng.integers(0, 40, rows)})
    frame["value"] = 10 * rng.integers(1, 6, rows) + 5 * frame["merchant"]
    noise = rng.normal(0, 0.5, rows)
    frame["y"] = slopes[frame["window"]] * frame["value"] - 0.05 * frame["merchant"] + noise
    return frame


def test_windows_that_disagree_do_not_identify_a_slope_that_pooled_rows_are_sure_of():
    covered, sure = [], []
    for seed in range(60):
        rng = np.random.default_rng(1000 + seed)
        frame = drifting(seed, rng.normal(0.0, 0.01, 6))
        cells = [frame["merchant"].to_numpy()]
        found, _ = slope_over_windows(frame["y"], frame["value"], cells, frame["window"])
        pooled = within_slope(frame["y"], frame["value"], [*cells, frame["window"].to_numpy()])
        covered.append(found.low <= 0 <= found.high)
        sure.append(not pooled.low <= 0 <= pooled.high)
    assert np.mean(covered) > 0.88
    assert np.mean(sure) > 0.6


def test_a_slope_that_windows_agree_on_is_identified():
    frame = drifting(0, np.full(6, 0.01))
    found, _ = slope_over_windows(frame["y"], frame["value"], [frame["merchant"]], frame["window"])
    assert found.identified
    assert found.low < 0.01 < found.high
    assert (found.windows, found.clusters, found.informative_rows) == (6, 40, 3000)


def test_a_slope_that_one_cell_carries_is_not_identified():
    rng = np.random.default_rng(2)
    frame = drifting(2, np.zeros(6))
    heavy = frame["merchant"] == 0
    frame.loc[heavy, "value"] = 1000 * rng.integers(1, 6, heavy.sum())
    frame.loc[heavy, "y"] = 1e-4 * frame.loc[heavy, "value"]
    found, _ = slope_over_windows(frame["y"], frame["value"], [frame["merchant"]], frame["window"])
    assert not found.identified


def test_its_weights_make_one_regression_with_dummies_the_same_slope():
    frame = drifting(3, np.linspace(-0.02, 0.04, 6), rows=1200)
    found, weight = slope_over_windows(frame["y"], frame["value"], [frame["merchant"]], frame["window"])
    frame["cell"] = frame["merchant"].astype(str) + "-" + frame["window"].astype(str)
    reference = smf.wls("y ~ value + C(cell)", frame, weights=weight).fit()
    assert found.value == pytest.approx(reference.params["value"], rel=1e-6)


def test_the_example_of_the_slope_over_windows_runs():
    assert doctest.testmod(slope).failed == 0


def test_windows_without_two_informative_cells_are_left_out():
    frame = drifting(4, np.full(3, 0.01))
    constant = frame["window"] == 1
    frame.loc[constant, "value"] = 50
    found, _ = slope_over_windows(frame["y"], frame["value"], [frame["merchant"]], frame["window"])
    assert found.windows == 2
    with pytest.raises(InvalidInput, match="value: does not vary"):
        slope_over_windows([0, 1, 0, 1], [5, 5, 9, 9], [["a", "a", "b", "b"]], [0, 0, 0, 0])
    with pytest.raises(InvalidInput, match="cells: columns differ in length"):
        slope_over_windows([0, 1, 0, 1], [5, 6, 9, 8], [["a", "a", "b", "b"]], [0, 0, 0])


def test_in_one_window_its_error_is_the_jackknife_over_cells():
    frame = drifting(5, np.array([0.02]), rows=1200)
    found, _ = slope_over_windows(frame["y"], frame["value"], [frame["merchant"]], frame["window"])
    without = []
    for merchant in range(40):
        rest = frame[frame["merchant"] != merchant]
        without.append(within_slope(rest["y"], rest["value"], [rest["merchant"].to_numpy()]).value)
    spread = np.sum((np.array(without) - found.value) ** 2) * 39 / 40
    assert found.standard_error == pytest.approx(spread**0.5, rel=1e-9)
