from __future__ import annotations

import numpy as np
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.evaluation import Estimate
from shadowprice.evaluation.gate import Limits, gate

GOOD = {
    "customer": {"auc": Estimate(0.82, 0.80, 0.84), "ece": 0.01, "rpr": 0.0, "mse": Estimate(0.10, 0.09, 0.11)},
    "merchant": {"mse": 0.2, "rpr": 0.0},
}


def changed(side, **entries):
    return {**GOOD, side: {**GOOD[side], **entries}}


def test_a_sound_model_passes_with_no_reasons():
    result = gate(GOOD)
    assert result.passed
    assert result.reasons == ()
    assert "passed" in str(result)


@pytest.mark.parametrize(
    ("candidate", "word"),
    [
        (changed("customer", auc=Estimate(0.52, 0.49, 0.55)), "AUC"),
        (changed("customer", auc=0.5), "AUC"),
        (changed("customer", ece=0.06), "calibration"),
        (changed("merchant", ece=0.16), "calibration"),
        (changed("customer", rpr=1e-9), "falls"),
        (changed("merchant", mse=np.nan), "finite"),
        (changed("customer", auc=np.nan), "AUC"),
    ],
)
def test_each_rule_stops_the_model_that_breaks_it_and_says_which_side(candidate, word):
    result = gate(candidate)
    broken = next(side for side in GOOD if candidate[side] != GOOD[side])
    assert not result.passed
    assert any(word in reason and reason.startswith(broken) for reason in result.reasons)
    assert "not passed" in str(result)


def test_a_squared_error_wholly_above_the_baselines_stops_the_model_and_an_overlap_does_not():
    assert gate(GOOD, baseline={"customer": {"mse": 0.095}}).passed
    result = gate(GOOD, baseline={"customer": {"mse": 0.085}})
    assert result.reasons == ("customer: squared error not above the baseline's 0.085, found 0.1 [0.09, 0.11]",)


def test_limits_move_the_rules():
    assert not gate(GOOD, limits=Limits(auc_floor=0.81)).passed
    assert not gate(GOOD, limits=Limits(ece_ceiling={"customer": 0.005, "merchant": 1})).passed


def test_the_markdown_is_one_table_row_per_check():
    result = gate(GOOD)
    table = [line for line in str(result).splitlines() if line.startswith("|")]
    assert len(table) == 2 + len(result.checks)
    assert all(line.count("|") == 5 for line in table)


@pytest.mark.parametrize("candidate", [{}, {"courier": {"rpr": 0}}, {"customer": {"auc": 0.9}}])
def test_a_candidate_that_cannot_be_judged_is_refused(candidate):
    with pytest.raises(InvalidInput, match="candidate"):
        gate(candidate)
