"""Seven-day runs on a population whose effects are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from shadowprice.arms import UNASSIGNED, Arm, Experiment
from shadowprice.errors import InvalidInput, InvalidTable
from shadowprice.experiments import assign
from shadowprice.experiments.analysis import analyse
from shadowprice.experiments.columns import Columns

RUNS, EFFECT = 150, 0.06


def experiment(salt: str) -> Experiment:
    arms = (Arm(name="holdout", kind="holdout", share=3000), Arm(name="policy", kind="policy", share=5000))
    return Experiment(arms=arms, salt=salt)


def served(test: Experiment, seed: int, accounts: int = 500) -> pd.DataFrame:
    """Requests of seven days; each account has a response of its own, and the policy adds EFFECT on average."""
    rng = np.random.default_rng(seed)
    names = np.array([f"a{row}" for row in range(accounts)])
    own = rng.uniform(0.05, 0.6, accounts)
    effect = rng.choice([0.0, 2 * EFFECT], accounts)
    who = np.repeat(np.arange(accounts), rng.poisson(4, accounts))
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


def test_the_lift_of_seven_day_runs_covers_the_truth_at_the_stated_rate() -> None:
    covered, ever_missed = [], []
    for seed in range(RUNS):
        test = experiment(f"run-{seed}")
        found = analyse(served(test, seed), test, columns=Columns(covariates=("past",)))
        (lift,), (daily,) = found.lifts, found.daily
        covered.append(lift.value.low <= EFFECT <= lift.value.high)
        ever_missed.append(not daily.value.low[-1] <= EFFECT <= daily.value.high[-1])
        assert not found.mismatch
    # 150 runs at 95 %: a binomial share outside of this has a probability below 0.2 %.
    assert 0.90 <= np.mean(covered) <= 0.99
    assert np.mean(ever_missed) <= 0.05


def test_the_result_counts_each_arm_and_finds_the_segment_that_responds() -> None:
    test = experiment("spring")
    frame = served(test, 1, 4000)
    found = analyse(frame, test, segment="segment")
    for arm in found.arms:
        rows = frame[frame["arm"] == arm.arm]
        assert (arm.requests, arm.value, arm.cost) == (len(rows), rows["value"].sum(), rows["cost"].sum())
        assert arm.units == rows["account_id"].nunique()
    assert {each.arm for each in found.arms} == {"holdout", "policy", UNASSIGNED}
    assert found.baseline == "holdout"
    assert sum(found.sample_ratio.observed.values()) == frame["account_id"].nunique()
    by_name = {each.segment: each for each in found.segments["policy"].segments}
    assert by_name["sensitive"].adjusted < 0.01 < by_name["other"].adjusted


def test_rows_lost_in_one_arm_are_a_mismatch() -> None:
    test = experiment("spring")
    frame = served(test, 2, 4000)
    lost = frame[(frame["arm"] != "policy") | (frame["account_id"].str[-1] > "2")]
    found = analyse(lost, test)
    assert found.mismatch
    assert found.sample_ratio.mismatch
    # Requests that are too young for the analysis are no lost accounts.
    assert not analyse(lost, test, asked=frame).mismatch


def test_an_account_that_was_raised_into_an_arm_counts_from_then_on() -> None:
    before = experiment("spring")
    after = before.raised("policy", 7000)
    frame = served(before, 3)
    later = served(after, 4).assign(day=lambda rows: rows["day"] + 7)
    found = analyse(pd.concat([frame, later]), after)
    moved = {
        name for name in frame.loc[frame["arm"] == UNASSIGNED, "account_id"] if after.arm_of([name])[0] == "policy"
    }
    assert moved
    requests = {each.arm: each.requests for each in found.arms}
    assert requests["policy"] == (frame["arm"] == "policy").sum() + (later["arm"] == "policy").sum()


def test_another_experiment_than_the_one_that_was_served_is_refused() -> None:
    frame = served(experiment("spring"), 5)
    with pytest.raises(InvalidTable, match="another arm than the hash gives"):
        analyse(frame, experiment("summer"))
    only = Experiment(arms=(Arm(name="new", kind="policy", share=10_000),), salt="a")
    with pytest.raises(InvalidInput, match="no holdout"):
        analyse(frame.assign(arm="new"), only)
