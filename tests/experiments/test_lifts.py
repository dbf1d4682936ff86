from __future__ import annotations

import doctest

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from shadowprice.errors import InvalidInput
from shadowprice.experiments import lift, lifts, segments
from shadowprice.experiments.always_valid import always_valid
from shadowprice.experiments.lifts import Columns, daily_lift
from shadowprice.experiments.segments import by_segment


def trial(seed: int, accounts: int = 900) -> pd.DataFrame:
    """Requests of three arms over ten days; the effect of the policy is 0.2 in one segment and 0 in the other."""
    rng = np.random.default_rng(seed)
    arm = rng.choice(["holdout", "policy", "explore"], accounts, p=[0.3, 0.4, 0.3])
    segment = rng.choice(["new", "old"], accounts)
    past = rng.normal(0, 0.3, accounts)
    rows = np.repeat(np.arange(accounts), rng.integers(1, 6, accounts))
    effect = np.where(arm == "policy", 0.2 * (segment == "new"), np.where(arm == "explore", 0.1, 0.0))
    chance = np.clip(0.35 + past + effect, 0.02, 0.98)
    value = (rng.random(rows.size) < chance[rows]).astype(float)
    return pd.DataFrame(
        {
            "account_id": [f"a{row}" for row in rows],
            "arm": arm[rows],
            "segment": segment[rows],
            "past": np.where(rng.random(accounts) < 0.9, past, np.nan)[rows],
            "partner": rng.integers(0, 40, rows.size),
            "day": rng.integers(0, 10, rows.size),
            "value": value,
            "cost": 100.0 * value * (arm[rows] != "holdout"),
        }
    )


def test_the_lift_of_every_arm_is_that_of_a_regression_with_clusters() -> None:
    assert doctest.testmod(lifts).failed == 0
    frame = trial(1)
    for found in lift(frame, "holdout"):
        two = frame[frame["arm"].isin([found.arm, "holdout"])].assign(treated=lambda t: (t["arm"] != "holdout") * 1.0)
        for name in ("value", "cost"):
            groups = pd.factorize(two["account_id"])[0]
            fit = smf.ols(f"{name} ~ treated", two).fit(cov_type="cluster", cov_kwds={"groups": groups})
            effect = getattr(found, name)
            assert effect.value == pytest.approx(fit.params["treated"])
            assert effect.error == pytest.approx(fit.bse["treated"], rel=1e-3)
        assert found.per_money.value == pytest.approx(found.value.value / found.cost.value)
        mean = frame.loc[frame["arm"] == "holdout", "value"].mean()
        assert found.relative.value == pytest.approx(found.value.value / mean)
        assert found.units == two.loc[two["treated"] == 1, "account_id"].nunique()


def test_policies_are_compared_with_each_other_too() -> None:
    frame = trial(2)
    one = lift(frame, "explore", arms=["policy"])[0]
    other = lift(frame, "policy", arms=["explore"])[0]
    assert one.value.value == pytest.approx(-other.value.value)
    assert one.baseline_units == other.units


def test_covariates_and_partners_change_the_width_and_not_the_estimand() -> None:
    frame = trial(3)
    plain, better, two_way = (
        lift(frame, "holdout", arms=["policy"], columns=columns)[0].value
        for columns in (Columns(), Columns(covariates=("past",)), Columns(partner="partner"))
    )
    assert better.error < 0.95 * plain.error
    assert abs(better.value - plain.value) < 2 * plain.error
    assert two_way.value == plain.value
    assert two_way.error != plain.error


def test_each_day_reads_the_rows_up_to_it_and_the_last_day_reads_them_all() -> None:
    frame = trial(4)
    (found,) = daily_lift(frame, "holdout", arms=["policy"])
    assert found.days == tuple(range(10))
    each = [lift(frame[frame["day"] <= day], "holdout", arms=["policy"])[0].value for day in found.days]
    assert found.value.value.tolist() == [one.value for one in each]
    expected = always_valid([one.value for one in each], [one.error for one in each])
    assert found.value.low.tolist() == expected.low.tolist()
    few = frame[frame["account_id"].isin([f"a{row}" for row in range(40)])]
    assert not np.isfinite(daily_lift(few, "holdout", arms=["policy"])[0].value.value).any()


def test_segments_are_told_with_p_values_that_allow_for_their_number() -> None:
    frame = trial(5, 3000)
    found = by_segment(frame, "holdout", "policy", "segment")
    assert [each.segment for each in found.segments] == ["new", "old"]
    assert found.different < 0.001
    p = sorted(each.p_value for each in found.segments)
    assert sorted(each.adjusted for each in found.segments) == pytest.approx([2 * p[0], max(2 * p[0], p[1])])
    q = by_segment(frame, "holdout", "policy", "segment", correction="fdr_bh")
    assert sorted(each.adjusted for each in q.segments) == pytest.approx([min(2 * p[0], p[1]), p[1]])
    new, old = (each.lift.value for each in found.segments)
    z = (new.value - old.value) / np.hypot(new.error, old.error)
    assert found.different == pytest.approx(2 * segments.stats.norm.sf(abs(z)))


def test_what_cannot_be_compared_is_refused_by_name() -> None:
    frame = trial(6, 200)
    with pytest.raises(InvalidInput, match="no rows of arm"):
        lift(frame, "control")
    with pytest.raises(InvalidInput, match="with itself"):
        lift(frame, "holdout", arms=["holdout"])
    with pytest.raises(InvalidInput, match="no column"):
        lift(frame.drop(columns="cost"), "holdout")
    frame.loc[frame.index[:1], "segment"] = "other"
    frame.loc[frame.index[1:2], "account_id"] = frame["account_id"].iloc[0]
    with pytest.raises(InvalidInput, match="differs within account_id"):
        by_segment(frame, "holdout", "policy", "segment")
