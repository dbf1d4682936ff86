"""The watch on the arms of an experiment."""

import numpy as np
import pandas as pd
import pytest

from shadowprice.arms import Arm, Experiment
from shadowprice.experiments.columns import Columns
from shadowprice.experiments.sample_ratio import sequential_sample_ratio
from shadowprice.watch.sample_ratio import sample_ratio_finding

TEST = Experiment(
    arms=(Arm(name="holdout", kind="holdout", share=2000), Arm(name="policy", kind="policy", share=8000)), salt="s"
)


def requests(lost: float) -> pd.DataFrame:
    names = np.array([f"a{each}" for each in range(4000)])
    arm = TEST.arm_of(names.tolist())
    kept = (arm != "holdout") | (np.random.default_rng(0).random(names.size) >= lost)
    return pd.DataFrame({"account_id": names, "arm": arm, "day": 7 + np.arange(4000) // 400})[kept]


def test_the_statistic_is_the_always_valid_p_value() -> None:
    whole = requests(0.0)
    found = sample_ratio_finding(whole, TEST, Columns())
    table = pd.crosstab(whole["day"], whole["arm"])[["holdout", "policy"]]
    p = sequential_sample_ratio(table.to_numpy(), [0.2, 0.8])
    assert found.statistic == pytest.approx(-np.log10(p[-1]))
    assert (found.alarm, found.day, found.side, found.level) == (False, -1, "all", -1)


def test_an_arm_that_loses_rows_raises_the_alarm_on_the_day_it_shows() -> None:
    found = sample_ratio_finding(requests(0.4), TEST, Columns())
    assert found.alarm
    assert 0 < found.day < 9
    assert found.sentence.startswith("arm holdout")
