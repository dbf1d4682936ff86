"""Rules of the gate on the evidence of a trial, on the slope of the curves, and on calibration by prediction."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.evidence import evidence_in
from benchmarks.trials import draw
from shadowprice.evaluation.policy.effect_rules import evidence_rule, risk_rule, slope_rule
from shadowprice.evaluation.policy.gate import gate
from shadowprice.evaluation.prediction.calibration import worst_bin

METRICS = {"customer": {"auc": 0.8, "ece": 0.01, "base_rate": 0.3, "rpr": 0.0}}


def test_the_gate_refuses_an_effect_that_is_not_identified_and_names_the_command_of_a_trial() -> None:
    found = replace(evidence_in(draw("gift", seed=0, effect=0)), plan="shadowprice plan RUN --curve 0.01")
    assert found.verdict == "not identified"
    result = gate(METRICS, extra=[evidence_rule(found)])
    assert not result.passed
    assert "shadowprice plan RUN --curve 0.01" in str(result)
    assert gate(METRICS, extra=[evidence_rule(found, required=False)]).passed
    assert gate(METRICS, extra=[evidence_rule(evidence_in(draw("bonus", seed=0, effect=2)))]).passed


def test_an_incentive_that_lowers_the_response_is_refused_without_a_trial() -> None:
    check = evidence_rule(evidence_in(draw("bonus", seed=0, effect=-2)))
    assert not check.passed
    assert check.mend.startswith("Do not spend on this incentive")


@pytest.mark.parametrize(("times", "passed"), [(1.0, True), (0.2, False), (0.0, False), (2.5, False)])
def test_curves_must_rise_as_the_trial_says(times: float, passed: bool) -> None:
    """A gift-matching trial whose curves had a slope above the interval of its own rows passed before."""
    found = evidence_in(draw("gift", seed=0, effect=1))
    mean = np.array([each.response.value for each in found.levels])
    assert found.verdict == "identified"
    (check,) = slope_rule(found, mean[0] + times * (mean - mean[0]))
    assert check.passed is passed
    assert bool(check.mend) is not passed


def test_a_trial_that_is_more_exact_than_any_model_leaves_a_tolerance() -> None:
    trial = draw("bonus", seed=0, accounts=400_000, effect=3)
    found, mean = evidence_in(trial), trial.truth.mean(axis=1)
    steep = mean[0] + 1.12 * (mean - mean[0])
    (allowed,), (strict,) = slope_rule(found, steep), slope_rule(found, steep, 0.0)
    assert allowed.passed
    assert not strict.passed


def test_levels_without_an_order_have_no_slope() -> None:
    assert slope_rule(evidence_in(draw("email", seed=0, accounts=5000)), np.array([0.1, 0.2, 0.2])) == []


def test_a_top_range_of_5_percent_predicted_and_9_percent_observed_is_refused() -> None:
    """Calibration by level passes this model: its error is 16 % of the mean response."""
    rng, refused = np.random.default_rng(0), 0
    for _ in range(40):
        p = np.sort(rng.uniform(0.005, 0.035, 15_000))
        p[-1500:] = 0.05
        truth = np.where(p == 0.05, 0.09, p)
        y = (rng.random(p.size) < truth).astype(float)
        refused += not risk_rule("customer", worst_bin(y, p), y.mean(), 0.25).passed
    assert refused >= 36


def test_calibrated_predictions_pass_whatever_the_base_rate() -> None:
    rng, refused = np.random.default_rng(1), 0
    for base in (0.02, 0.5):
        for _ in range(200):
            p = np.clip(base * np.exp(rng.normal(-0.3, 0.7, 2000)), 0.0, 0.98)
            y = (rng.random(p.size) < p).astype(float)
            refused += not risk_rule("customer", worst_bin(y, p), y.mean(), 0.25).passed
    assert refused <= 0.05 * 400


def test_the_text_names_the_range_with_what_was_predicted_and_observed() -> None:
    p = np.repeat([0.1, 0.2, 0.3], 1000)
    y = np.concatenate([np.arange(1000) < n for n in (100, 200, 600)]).astype(float)
    check = risk_rule("customer", worst_bin(y, p), 0.3, 0.25)
    assert not check.passed
    assert check.found.startswith("0.3 predicted, 0.6 [")
    assert check.found.endswith("in range 3 of 3")
