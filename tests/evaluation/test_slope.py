from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from shadowprice.errors import InvalidInput
from shadowprice.evaluation import metrics
from shadowprice.evaluation.slope import within_slope


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
