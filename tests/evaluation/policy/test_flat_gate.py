"""A flat policy is judged by rules that mean something for one curve of all accounts."""

import math

import pytest

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.flat_gate import flat_gate
from shadowprice.evaluation.policy.gate import Check, Requirements, gate
from shadowprice.evaluation.statistics.intervals import Estimate

COIN = {"auc": Estimate(0.5, 0.47, 0.53), "ece": 0.01, "base_rate": 0.5, "rpr": 0.0, "mse": 0.25}


def test_a_policy_that_ranks_nobody_passes_and_as_a_personal_model_it_does_not() -> None:
    assert flat_gate({"customer": COIN}).passed
    assert not gate({"customer": COIN}).passed
    rules = " ".join(each.rule for each in flat_gate({"customer": COIN}).checks)
    assert "AUC" not in rules
    assert "squared error" not in rules


@pytest.mark.parametrize(
    ("change", "rule"),
    [({"ece": 0.2}, "calibration"), ({"rpr": 0.1}, "falls"), ({"ece": math.nan}, "finite")],
)
def test_it_is_refused_where_its_curve_is_wrong(change: dict[str, float], rule: str) -> None:
    found = flat_gate({"customer": COIN | change})
    assert not found.passed
    assert any(rule in reason for reason in found.reasons)


def test_calibration_by_level_is_not_asked_for_where_levels_had_reasons() -> None:
    assert flat_gate({"customer": COIN | {"ece": 0.2}}, confounded=["customer"]).passed
    assert not flat_gate({"customer": COIN | {"ece": 0.2, "rpr": 0.1}}, confounded=["customer"]).passed


def test_the_share_of_the_calibration_error_is_a_limit() -> None:
    assert flat_gate({"customer": COIN | {"ece": 0.2}}, Requirements(ece_share=0.5)).passed


def test_a_check_of_the_trial_decides_with_the_others() -> None:
    unlike = Check("customer", "alike accounts", "they differed", passed=False)
    assert not flat_gate({"customer": COIN}, extra=[unlike]).passed


def test_it_needs_a_side() -> None:
    with pytest.raises(InvalidInput, match="at least one side"):
        flat_gate({})
