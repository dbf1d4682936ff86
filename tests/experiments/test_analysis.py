"""Seven-day runs on a population whose effects are known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from shadowprice.arms import UNASSIGNED, Arm, Experiment
from shadowprice.errors import InvalidInput, InvalidTable
from shadowprice.experiments import assign
from shadowprice.experiments.analysis import analyze
from shadowprice.experiments.columns import Columns

RUNS, EFFECT, ASKS = 80, 0.06, 4


def experiment(salt: str) -> Experiment:
    arms = (Arm(name="holdout", kind="holdout", share=3000), Arm(name="policy", kind="policy", share=5000))
    return Experiment(arms=arms, salt=salt)


def served(test: Experiment, seed: int, accounts: int = 500) -> pd.DataFrame:
    """Requests of seven days; each account has a response of its own, and the policy adds EFFECT on average."""
    rng = np.random.default_rng(seed)
    names = np.array([f"a{row}" for row in range(accounts)])
    own = rng.uniform(0.05, 0.6, accounts)
    effect = rng.choice([0.0, 2 * EFFECT], accounts)
    who = np.repeat(np.arange(accounts), rng.poisson(ASKS, accounts))
    arm = assign(test, names)[who]
    value = (rng.random(who.size) < own[who] + effect[who] * (arm != "holdout")).astype(float)
    return pd.DataFrame(
        {
            "account_id": names[who],
            "arm": arm,
            "day": rng.integers(0, 7, who.size),
            "value": value,
            "cost": 50.0 * value * (arm != "holdout"),
            "past": (own + rng.normal(0, 0.05, accounts))[who],
            "segment": np.where(effect > 0, "sensitive", "other")[who],
        }
    )


def listed(accounts: int = 500) -> pd.DataFrame:
    return pd.DataFrame({"account_id": [f"a{row}" for row in range(accounts)]})


def test_the_lift_of_seven_day_runs_covers_the_truth_at_the_stated_rate() -> None:
    covered, ever_missed = [], []
    for seed in range(RUNS):
        test = experiment(f"run-{seed}")
        frame = served(test, seed)
        past = listed().merge(frame.drop_duplicates("account_id")[["account_id", "past"]], how="left")
        found = analyze(frame, test, accounts=past, columns=Columns(covariates=("past",)))
        (lift,), (daily,) = found.lifts, found.daily
        covered.append(lift.value.low <= EFFECT * ASKS <= lift.value.high)
        per_day = EFFECT * ASKS / 7
        ever_missed.append(bool(((daily.value.low > per_day) | (daily.value.high < per_day)).any()))
        assert not found.mismatch
    # 80 runs at 95 %: a binomial share below this has a probability of 1 %.
    assert 0.88 <= np.mean(covered) <= 0.99
    assert np.mean(ever_missed) <= 0.05


def test_the_result_counts_each_arm_and_finds_the_segment_that_responds() -> None:
    test = experiment("spring")
    frame = served(test, 1, 4000)
    accounts = frame.drop_duplicates("account_id")[["account_id", "segment"]]
    found = analyze(frame, test, accounts=accounts, segment="segment")
    for arm in found.arms:
        rows = frame[frame["arm"] == arm.arm]
        assert (arm.requests, arm.value, arm.cost) == (len(rows), rows["value"].sum(), rows["cost"].sum())
        assert arm.units == rows["account_id"].nunique()
    assert {each.arm for each in found.arms} == {"holdout", "policy", UNASSIGNED}
    assert found.baseline == "holdout"
    assert sum(found.asked_ratio.observed.values()) == frame["account_id"].nunique()
    by_name = {each.segment: each for each in found.segments["policy"].segments}
    assert by_name["sensitive"].adjusted < 0.01 < by_name["other"].adjusted
    with pytest.raises(InvalidInput, match="segment: needs a list"):
        analyze(frame, test, segment="segment")


def test_rows_lost_in_one_arm_are_a_mismatch_without_a_list_and_a_warning_with_one() -> None:
    test = experiment("spring")
    frame = served(test, 2, 4000)
    lost = frame[(frame["arm"] != "policy") | (frame["account_id"].str[-1] > "2")]
    found = analyze(lost, test)
    assert found.mismatch
    assert found.asked_ratio.mismatch
    with_list = analyze(lost, test, accounts=listed(4000))
    assert not with_list.mismatch
    assert with_list.asked_differs
    # Requests that are too young for the analysis are no lost accounts.
    assert not analyze(frame, test, known=frame.index.isin(lost.index)).mismatch


def test_the_sample_ratio_counts_who_was_assigned_and_not_whom_an_incentive_brought() -> None:
    """Half as many accounts ask without the incentive. All are assigned by the hash, so nothing is amiss."""
    rng, test = np.random.default_rng(3), experiment("autumn")
    names = listed(4000)["account_id"].to_numpy()
    arm = assign(test, names)
    comes = rng.random(4000) < np.where(arm == "holdout", 0.3, 0.6)
    frame = pd.DataFrame({"account_id": names[comes], "arm": arm[comes], "day": 0, "value": 1.0, "cost": 0.0})
    found = analyze(frame, test, accounts=listed(4000))
    assert not found.mismatch
    assert found.asked_differs
    counts = {name: int((arm == name).sum()) for name in ("holdout", "policy", UNASSIGNED)}
    assert found.assigned_ratio is not None
    assert found.assigned_ratio.observed == counts
    expected = stats.chisquare(list(counts.values()), [1200, 2000, 800]).pvalue
    assert found.assigned_ratio.p_value == pytest.approx(expected)
    (lift,) = found.lifts
    assert lift.value.low <= 0.3 <= lift.value.high
    assert found.per_request[0].value.value == 0.0
    assert [each.assigned for each in found.arms] == [counts["holdout"], counts["policy"], counts[UNASSIGNED]]
    # A list that was drawn by arm is not that of the campaign.
    assert analyze(frame, test, accounts=listed(4000)[comes]).mismatch


def test_an_account_that_was_raised_into_an_arm_counts_from_then_on() -> None:
    before = experiment("spring")
    after = before.raised("policy", 7000)
    frame = served(before, 3)
    later = served(after, 4).assign(day=lambda rows: rows["day"] + 7)
    found = analyze(pd.concat([frame, later], ignore_index=True), after, accounts=listed())
    moved = {
        name for name in frame.loc[frame["arm"] == UNASSIGNED, "account_id"] if after.arm_of([name])[0] == "policy"
    }
    assert moved
    requests = {each.arm: each.requests for each in found.arms}
    assert requests["policy"] == (frame["arm"] == "policy").sum() + (later["arm"] == "policy").sum()
    assert [each.experiment.share("policy") for each in found.periods] == [5000, 7000]
    assert [(each.first, each.last) for each in found.periods] == [(0, 6), (7, 13)]


def test_a_raised_share_does_not_bias_the_lift() -> None:
    """Responses rise from day to day, and most of the policy's accounts come late."""
    values, truth = [], 0.02
    for seed in range(12):
        rng, before = np.random.default_rng(seed), experiment(f"raise-{seed}")
        before = replace(before, arms=(before.arms[0], replace(before.arms[1], share=500)))
        after = before.raised("policy", 7000)
        who, day = rng.integers(0, 1500, 6000), rng.integers(0, 10, 6000)
        names = np.array([f"a{row}" for row in range(1500)])
        arm = np.where(day < 5, assign(before, names)[who], assign(after, names)[who])
        value = (rng.random(6000) < 0.05 + 0.03 * day + truth * (arm != "holdout")) * 1.0
        frame = pd.DataFrame({"account_id": names[who], "arm": arm, "day": day, "value": value, "cost": 0.0})
        found = analyze(frame, after, accounts=listed(1500))
        values.append((found.lifts[0].value.value / 4, found.per_request[0].value.value))
    error = np.std(values, axis=0) / np.sqrt(len(values))
    assert (np.abs(np.mean(values, axis=0) - truth) < 3.5 * error).all()
    # Pooled days give 0.06 more.
    assert (error < 0.01).all()


def test_another_experiment_than_the_one_that_was_served_is_refused() -> None:
    frame = served(experiment("spring"), 5)
    with pytest.raises(InvalidTable, match="another arm than the hash gives"):
        analyze(frame, experiment("summer"))
    only = Experiment(arms=(Arm(name="new", kind="policy", share=10_000),), salt="a")
    with pytest.raises(InvalidInput, match="no holdout"):
        analyze(frame.assign(arm="new"), only)
