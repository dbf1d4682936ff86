"""Units of a canary: nested as its share grows, independent of the arms, never of a holdout."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from shadowprice.arms import CANARY, Arm, Experiment, treatment
from shadowprice.errors import InvalidInput
from shadowprice.pacing.canary import FILE, Canary

UNITS = [f"a{each}" for each in range(20_000)]
TRIAL = Canary(
    campaign="spring",
    model_version="m2",
    incumbent="m1",
    stage=0,
    share=100,
    since=datetime(2026, 3, 1, tzinfo=UTC),
    prices={"budget": 0.004},
)
TEST = Experiment(
    arms=(
        Arm(name="holdout", kind="holdout", share=2000),
        Arm(name="policy", kind="policy", share=4000),
        Arm(name="explore", kind="explore", share=1000),
    ),
    salt="spring",
)


def test_a_unit_stays_with_the_canary_while_its_share_grows_and_another_model_takes_others() -> None:
    small, large = TRIAL.takes(UNITS), replace(TRIAL, share=1000).takes(UNITS)
    assert not (small & ~large).any()
    # Five standard errors of a binomial share.
    assert abs(small.mean() - 0.01) < 5 * np.sqrt(0.01 * 0.99 / 20_000)
    assert abs(large.mean() - 0.1) < 5 * np.sqrt(0.1 * 0.9 / 20_000)
    other = replace(TRIAL, share=1000, model_version="m3").takes(UNITS)
    assert abs((large & other).mean() - 0.01) < 5 * np.sqrt(0.01 * 0.99 / 20_000)
    assert not replace(TRIAL, share=10_000).takes([""]).any()


def test_the_canary_takes_an_equal_share_of_policy_and_unassigned_units_and_no_others() -> None:
    treated = treatment(TEST, UNITS, 0.05)
    on_trial = replace(TRIAL, share=3000).treats(treated, UNITS).arm == CANARY
    assert not on_trial[treated.held | (treated.exploration == 1.0)].any()
    for arm in ("policy", "unassigned"):
        assert abs(on_trial[treated.arm == arm].mean() - 0.3) < 0.03
    assert replace(TRIAL, share=0).treats(treated, UNITS).arm.tolist() == treated.arm.tolist()


def test_the_file_of_a_canary_is_read_as_it_was_written_and_refused_where_it_is_wrong(tmp_path) -> None:
    assert Canary.read(tmp_path, "spring") is None
    TRIAL.write(tmp_path)
    assert Canary.read(tmp_path, "spring") == TRIAL
    with pytest.raises(InvalidInput, match="is of campaign 'spring', not 'autumn'"):
        Canary.read(tmp_path, "autumn")
    content = json.loads((tmp_path / FILE).read_text())
    for wrong in ({"share": 10_001}, {"model_version": "../m"}, {"since": "2026-03-01"}, {"speed": 1}):
        (tmp_path / FILE).write_text(json.dumps(content | wrong))
        with pytest.raises(InvalidInput, match=r"canary"):
            Canary.read(tmp_path, "spring")


def test_no_arm_of_an_experiment_may_be_called_canary() -> None:
    with pytest.raises(InvalidInput, match="canary"):
        Arm(name="canary", kind="policy", share=100)
