import numpy as np
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.evaluation import Estimate
from shadowprice.evaluation.policy.gate import Against, Requirements, gate, limits_of
from shadowprice.evaluation.policy.joint import AtBudget
from shadowprice.evaluation.policy.mending import Override, rows_needed

GOOD = {
    "customer": {
        "auc": Estimate(0.82, 0.80, 0.84),
        "ece": 0.01,
        "base_rate": Estimate(0.2, 0.19, 0.21),
        "rpr": 0.0,
        "mse": Estimate(0.10, 0.09, 0.11),
    },
    "merchant": {"mse": 0.2, "ece": 0.05, "base_rate": 0.8, "rpr": 0.0},
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
        (changed("customer", ece=0.051), "calibration"),
        (changed("customer", ece=Estimate(0.06, 0.051, 0.08)), "calibration"),
        (changed("customer", ece=0.02, base_rate=0.01), "calibration"),
        (changed("merchant", ece=0.21), "calibration"),
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
    assert gate(GOOD, against=Against(baseline={"customer": {"mse": 0.095}})).passed
    result = gate(GOOD, against=Against(baseline={"customer": {"mse": 0.085}}))
    assert result.reasons == ("customer: squared error not above the baseline's 0.085, found 0.1 [0.09, 0.11]",)


def test_a_calibration_error_within_its_noise_does_not_stop_a_rare_response():
    # Ten levels of 500 rows at 1 %: the error of the truth itself is about 0.35 % of a response.
    assert gate(changed("customer", ece=Estimate(0.0035, 0.0004, 0.004), base_rate=0.01)).passed


def test_limits_move_the_rules():
    assert not gate(GOOD, limits=Requirements(auc_floor=0.81)).passed
    assert not gate(GOOD, limits=Requirements(ece_share=0.04)).passed


def test_the_markdown_is_one_table_row_per_check():
    result = gate(GOOD)
    table = [line for line in str(result).splitlines() if line.startswith("|")]
    assert len(table) == 2 + len(result.checks)
    assert all(line.count("|") == 5 for line in table)


@pytest.mark.parametrize("candidate", [{}, {"courier": {"rpr": 0}}, {"customer": {"auc": 0.9}}])
def test_a_candidate_that_cannot_be_judged_is_refused(candidate):
    with pytest.raises(InvalidInput, match="candidate"):
        gate(candidate)


@pytest.mark.parametrize(("low", "rows", "passed"), [(1.0, 500.0, True), (-1.0, 500.0, False), (1.0, 20.0, False)])
def test_the_value_is_judged_once_for_the_campaign_by_its_lower_bound(low, rows, passed):
    found = AtBudget(
        1000.0,
        0.01,
        Estimate(60, 50, 70),
        Estimate(50, 45, 55),
        Estimate(10, low, 20),
        {"customer": 500, "merchant": rows},
        0,
    )
    result = gate(GOOD, against=Against(value=found, rival="uniform dosing"))
    assert result.passed == passed
    (check,) = [each for each in result.checks if each.side == "campaign"]
    assert "uniform dosing" in check.rule
    if rows < 30:
        assert "log more exploration" in check.found


def test_a_value_that_could_not_be_compared_stops_the_model():
    assert gate(GOOD, against=Against(value="no propensities")).reasons[0].endswith("found no propensities")


def test_a_value_that_is_not_required_is_reported_and_does_not_stop_the_model():
    result = gate(GOOD, against=Against(value="no propensities", rival="uniform dosing", required=False))
    assert result.passed
    assert result.reasons == ()
    assert "no propensities" in result.warnings[0]
    assert "✗ (not required)" in str(result)


def test_the_rows_that_are_named_bring_the_lower_bound_to_the_limit():
    """Against means of normal draws: with the named rows half of the lower bounds exceed the limit."""
    rng = np.random.default_rng(5)
    value, limit, rows = 0.52, 0.5, 400

    def bounds(size, times):
        return value + (rng.normal(size=(times, size)).mean(axis=1) - 1.96 / np.sqrt(size))

    present = Estimate(value, value - 1.96 / np.sqrt(rows), value + 1.96 / np.sqrt(rows))
    needed = round(rows_needed(present, limit) * rows)
    assert needed == round((1.96 / 0.02) ** 2)
    assert (bounds(needed, 1000) > limit).mean() == pytest.approx(0.5, abs=0.05)
    assert (bounds(rows, 1000) > limit).mean() < 0.1


def test_each_broken_rule_has_its_meaning_and_its_mend():
    wide = changed("customer", auc=Estimate(0.53, 0.49, 0.57), ece=0.06, rpr=0.1)
    result = gate(wide, rows={"customer": 400})
    auc, ece, rpr = result.broken
    assert auc.mend == "About 712 test rows would show it, 1.8 times the present ones, if the value stays."
    assert "calibration rolling" in ece.mend
    assert "curve_repair monotone" in rpr.mend
    assert all(each.meaning for each in result.checks)
    assert all(not each.mend for each in result.checks if each.passed)
    assert all(each.mend in str(result) for each in result.broken)
    hopeless = gate(changed("customer", auc=Estimate(0.49, 0.45, 0.53))).broken[0]
    assert hopeless.mend.startswith("More rows alone do not mend it")


@pytest.mark.parametrize(
    ("difference", "rows", "least_cost", "words"),
    [
        (Estimate(10, -10, 30), 500, 0, "About 4 times the present test rows"),
        (Estimate(-5, -9, -1), 500, 0, "More rows alone do not mend it"),
        (Estimate(10, 1, 20), 20, 0, "about 1.5 times the exploration"),
        (Estimate(10, 1, 20), 500, 2_000, "Raise the budget above $20.00"),
    ],
)
def test_a_value_that_is_not_shown_says_what_would_show_it(difference, rows, least_cost, words):
    found = AtBudget(
        1000.0, 0.01, Estimate(60, 50, 70), Estimate(50, 45, 55), difference, {"customer": rows}, least_cost
    )
    (check,) = gate(GOOD, against=Against(value=found)).broken
    assert words in check.mend


def test_an_override_takes_a_refused_model_and_is_not_kept_of_one_that_passed():
    override = Override.of({"reason": "first week of a trial", "by": "Ada"})
    refused = gate(changed("customer", rpr=0.1)).overridden(override)
    assert (refused.passed, refused.accepted) == (False, True)
    assert "taken all the same by Ada: first week of a trial" in str(refused)
    passed = gate(GOOD).overridden(override)
    assert (passed.accepted, passed.override) == (True, None)
    assert not gate(changed("customer", rpr=0.1)).overridden(Override.of({})).accepted


@pytest.mark.parametrize(
    "given", [{"reason": "x"}, {"reason": " ", "by": "Ada"}, {"reason": "x", "by": 3}, {"by": "a"}]
)
def test_an_override_without_reason_or_name_is_refused(given):
    with pytest.raises(InvalidInput, match="override"):
        Override.of(given)


def test_limits_are_parameters():
    assert gate(changed("customer", ece=0.06), limits=limits_of({"ece_share": 0.4})).passed
    for wrong in ({"ece": 0.4}, {"ece_share": "0.4"}, {"ece_share": np.nan}):
        with pytest.raises(InvalidInput, match="limits"):
            limits_of(wrong)
