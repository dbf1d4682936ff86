import doctest
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats

from research.tables import lift as simulated
from shadowprice.errors import InvalidInput
from shadowprice.experiments import lift, lifts
from shadowprice.experiments.always_valid import always_valid
from shadowprice.experiments.columns import Columns
from shadowprice.experiments.lifts import daily_lift, lift_per_request
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


def accounts(frame: pd.DataFrame, silent: int = 300) -> pd.DataFrame:
    """The accounts of the trial, and some of each arm that never asked."""
    asked = frame.drop_duplicates("account_id")[["account_id", "arm", "segment", "past"]]
    more = pd.DataFrame({"account_id": [f"s{row}" for row in range(silent)]})
    more["arm"] = np.tile(["holdout", "policy", "explore"], silent)[:silent]
    return pd.concat([asked, more.assign(segment="new", past=np.nan)], ignore_index=True)


def test_the_lift_per_account_is_a_regression_on_all_assigned_accounts() -> None:
    assert doctest.testmod(lifts).failed == 0
    frame = trial(1)
    assigned = accounts(frame)
    sums = frame.groupby("account_id")[["value", "cost"]].sum().reset_index()
    whole = assigned.merge(sums, how="left").fillna({"value": 0.0, "cost": 0.0})
    for found in lift(frame, "holdout", assigned):
        two = whole[whole["arm"].isin([found.arm, "holdout"])].assign(treated=lambda t: (t["arm"] != "holdout") * 1.0)
        for name in ("value", "cost"):
            fit = smf.ols(f"{name} ~ treated", two).fit(cov_type="HC2")
            effect = getattr(found, name)
            assert effect.value == pytest.approx(fit.params["treated"])
            assert effect.error == pytest.approx(fit.bse["treated"])
        assert found.per_money.value == pytest.approx(found.value.value / found.cost.value)
        usual = two.loc[two["treated"] == 0, "value"].mean()
        assert found.relative.value == pytest.approx(found.value.value / usual)
        assert found.total.value == pytest.approx(found.value.value * two["treated"].sum())
        asked = frame[frame["arm"] == found.arm]
        assert (found.units, found.requests) == (asked["account_id"].nunique(), len(asked))


def test_the_difference_per_request_is_a_regression_with_clusters() -> None:
    frame = trial(1)
    for found in lift_per_request(frame, "holdout"):
        two = frame[frame["arm"].isin([found.arm, "holdout"])].assign(treated=lambda t: (t["arm"] != "holdout") * 1.0)
        groups = pd.factorize(two["account_id"])[0]
        fit = smf.ols("value ~ treated", two).fit(cov_type="cluster", cov_kwds={"groups": groups})
        assert found.value.value == pytest.approx(fit.params["treated"])
        assert found.value.error == pytest.approx(fit.bse["treated"], rel=5e-3)


def test_periods_are_compared_apart_and_added() -> None:
    """A regression on account and period with an own mean and an own effect for each; the lift is their sum."""
    rng = np.random.default_rng(12)
    names = np.array([f"a{each}" for each in range(500)])
    parts = []
    for period, cut in enumerate((0.3, 0.9)):
        arm = np.where(np.arange(500) < 50, "holdout", np.where(np.arange(500) < 500 * cut, "policy", "unassigned"))
        parts.append(pd.DataFrame({"account_id": names, "arm": arm, "period": period}))
    assigned = pd.concat(parts, ignore_index=True)
    asks = assigned.loc[np.repeat(np.arange(len(assigned)), rng.poisson(1.5, len(assigned)))].reset_index(drop=True)
    chance = 0.1 + 0.5 * asks["period"] + 0.1 * (asks["arm"] != "holdout")
    frame = asks.assign(value=(rng.random(len(asks)) < chance) * 1.0, cost=10.0)
    (found,) = lift(frame, "holdout", assigned[assigned["arm"] != "unassigned"])
    sums = frame.groupby(["account_id", "period"])["value"].sum().reset_index()
    whole = assigned[assigned["arm"] != "unassigned"].merge(sums, how="left").fillna({"value": 0.0})
    whole["treated"] = (whole["arm"] == "policy") * 1.0
    groups = pd.factorize(whole["account_id"])[0]
    fit = smf.ols("value ~ C(period) + treated:C(period)", whole).fit(cov_type="cluster", cov_kwds={"groups": groups})
    test = fit.t_test(np.array([0.0, 0.0, 1.0, 1.0]))
    assert found.value.value == pytest.approx(float(test.effect[0]))
    assert found.value.error == pytest.approx(float(test.sd[0, 0]), rel=0.01)
    each = [frame[frame["period"] == period] for period in (0, 1)]
    gain = [lift_per_request(rows, "holdout", arms=["policy"])[0].value.value for rows in each]
    (request,) = lift_per_request(frame, "holdout", arms=["policy"])
    assert request.value.value == pytest.approx(np.average(gain, weights=[len(rows) for rows in each]))
    # A sum over the accounts that were there: 100 in the first period, 400 in the second.
    by_period = [whole[(whole["period"] == period)].groupby("arm")["value"].mean().to_dict() for period in (0, 1)]
    expected = sum(n * (one["policy"] - one["holdout"]) for n, one in zip((100, 400), by_period, strict=True))
    assert found.total.value == pytest.approx(expected)


def test_shares_stand_for_a_list_that_is_missing() -> None:
    frame = trial(7)
    frame = frame[frame["arm"] != "explore"]
    numbers = pd.DataFrame({"arm": ["holdout", "policy"], "number": [400.0, 500.0]})
    (found,) = lift(frame, "holdout", numbers)
    sums = frame.groupby("arm")["value"].sum()
    assert found.value.value == pytest.approx(sums["policy"] / 500 - sums["holdout"] / 400)
    each = frame.groupby(["arm", "account_id"])["value"].sum()
    expected = np.sqrt((each["policy"] ** 2).sum() / 500**2 + (each["holdout"] ** 2).sum() / 400**2)
    assert found.value.error == pytest.approx(expected)
    assert found.relative.value == pytest.approx(sums["policy"] / 500 / (sums["holdout"] / 400) - 1)


def test_an_account_that_is_not_in_the_list_counts_in_the_sum_of_its_arm() -> None:
    frame = trial(8)
    assigned = accounts(frame)
    kept = assigned[assigned["account_id"] != frame.loc[frame["arm"] == "policy", "account_id"].iloc[0]]
    (all_listed,) = lift(frame, "holdout", assigned, arms=["policy"])
    (one_missing,) = lift(frame, "holdout", kept, arms=["policy"])
    number = (assigned["arm"] == "policy").sum()
    usual = frame.loc[frame["arm"] == "holdout", "value"].sum() / (assigned["arm"] == "holdout").sum()
    mean = all_listed.value.value + usual
    assert one_missing.value.value == pytest.approx(mean * number / (number - 1) - usual)
    with pytest.raises(InvalidInput, match="none of the accounts that asked"):
        lift(frame, "holdout", assigned.assign(account_id="x" + assigned["account_id"]), arms=["policy"])


@pytest.mark.parametrize(
    ("scenario", "trials", "sound", "faulty"),
    [
        (simulated.raised, 60, (simulated.RAISED, simulated.RAISED_REQUEST), simulated.POOLED),
        (simulated.visiting, 120, (simulated.VISITS,), simulated.VISITS_REQUEST),
        (simulated.grouped, 400, (simulated.CLUSTERS,), ""),
        (simulated.narrowed, 600, (simulated.FEW_COVARIATES,), ""),
    ],
)
def test_the_truth_is_covered(
    scenario: Callable[[np.random.Generator, str], simulated.Found], trials: int, sound: tuple[str, ...], faulty: str
) -> None:
    rng, covered = np.random.default_rng(30), dict[str, list[bool]]()
    for number in range(trials):
        for name, found, truth in scenario(rng, f"{scenario.__name__}-{number}"):
            covered.setdefault(name, []).append(found.low <= truth <= found.high)
    noise = 3 * np.sqrt(0.05 * 0.95 / trials)
    for name in sound:
        assert abs(np.mean(covered[name]) - 0.95) <= noise, name
    if faulty:
        assert np.mean(covered[faulty]) < 0.5


def test_policies_are_compared_with_each_other_too() -> None:
    frame = trial(2)
    one = lift(frame, "explore", accounts(frame), arms=["policy"])[0]
    other = lift(frame, "policy", accounts(frame), arms=["explore"])[0]
    assert one.value.value == pytest.approx(-other.value.value)
    assert one.baseline_units == other.units


def test_covariates_and_partners_change_the_width_and_not_the_estimand() -> None:
    frame = trial(3)
    plain, better, two_way = (
        lift(frame, "holdout", accounts(frame), arms=["policy"], columns=columns)[0].value
        for columns in (Columns(), Columns(covariates=("past",)), Columns(partner="partner"))
    )
    assert better.error < 0.97 * plain.error
    assert abs(better.value - plain.value) < 2 * plain.error
    assert two_way.value == pytest.approx(plain.value)
    assert two_way.error != plain.error


def test_each_day_reads_the_rows_up_to_it_and_the_last_day_reads_them_all() -> None:
    frame = trial(4)
    assigned = accounts(frame)
    (found,) = daily_lift(frame, "holdout", assigned, arms=["policy"])
    assert found.days == tuple(range(10))
    each = [lift(frame[frame["day"] <= day], "holdout", assigned, arms=["policy"])[0].value for day in found.days]
    scale = np.arange(1, 11)
    values, errors = np.array([one.value for one in each]) / scale, np.array([one.error for one in each]) / scale
    assert found.value.value.tolist() == values.tolist()
    expected = always_valid(values, errors, constant=False)
    assert found.value.low.tolist() == expected.low.tolist()
    (request,) = daily_lift(frame, "holdout", None, arms=["policy"])
    assert request.value.value[-1] == lift_per_request(frame, "holdout", arms=["policy"])[0].value.value
    few = frame[frame["account_id"].isin([f"a{row}" for row in range(40)])]
    assert not np.isfinite(daily_lift(few, "holdout", assigned, arms=["policy"])[0].value.value).any()


def test_segments_are_told_with_p_values_that_allow_for_their_number() -> None:
    frame = trial(5, 3000)
    found = by_segment(frame, "holdout", "policy", accounts(frame), "segment")
    assert [each.segment for each in found.segments] == ["new", "old"]
    assert found.different < 0.001
    p = sorted(each.p_value for each in found.segments)
    assert sorted(each.adjusted for each in found.segments) == pytest.approx([2 * p[0], max(2 * p[0], p[1])])
    q = by_segment(frame, "holdout", "policy", accounts(frame), "segment", correction="fdr_bh")
    assert sorted(each.adjusted for each in q.segments) == pytest.approx([min(2 * p[0], p[1]), p[1]])
    new, old = (each.lift.value for each in found.segments)
    z = (new.value - old.value) / np.hypot(new.error, old.error)
    assert found.different == pytest.approx(2 * stats.norm.sf(abs(z)))


def test_what_cannot_be_compared_is_refused_by_name() -> None:
    frame = trial(6, 200)
    assigned = accounts(frame)
    with pytest.raises(InvalidInput, match="no rows of arm"):
        lift(frame, "control", assigned)
    with pytest.raises(InvalidInput, match="with itself"):
        lift(frame, "holdout", assigned, arms=["holdout"])
    with pytest.raises(InvalidInput, match="no column"):
        lift(frame.drop(columns="cost"), "holdout", assigned)
    with pytest.raises(InvalidInput, match="assigned: has no column"):
        lift(frame, "holdout", assigned.drop(columns="account_id"))
    with pytest.raises(InvalidInput, match="no time in which both"):
        lift(frame, "holdout", assigned[assigned["arm"] != "policy"], arms=["policy"])
    frame.loc[frame.index[:1], "segment"] = "other"
    frame.loc[frame.index[1:2], "account_id"] = frame["account_id"].iloc[0]
    with pytest.raises(InvalidInput, match="differs within account_id"):
        by_segment(frame, "holdout", "policy", assigned, "segment")
    with pytest.raises(InvalidInput, match="assigned: needs a list"):
        by_segment(frame, "holdout", "policy", assigned.drop(columns="segment"), "segment")
