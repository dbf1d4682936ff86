"""Rules of the gate on the effect and on risk: evidence of the trial, slope, calibration by prediction."""

import numpy as np

from shadowprice.evaluation.policy.gate import Check
from shadowprice.evaluation.policy.mending import MEANINGS, MENDS
from shadowprice.evaluation.prediction.calibration import WorstBin
from shadowprice.evaluation.statistics.metric import Array
from shadowprice.evaluation.uplift.evidence import SideEvidence

TOLERANCE = 0.1
"""Share of the trial's slope by which the curves' mean slope may leave its interval."""
EVIDENCE = "the trial identifies the effect of the incentive"


def evidence_rule(found: SideEvidence, *, required: bool = True) -> Check:
    """Check that the trial shows a response that rises with the incentive; the mend is the trial that would show it."""
    passed = found.verdict == "identified"
    mend = "" if passed else MENDS[found.verdict]
    if found.plan and not passed:
        mend = f"This command plans a trial that would identify it: {found.plan}"
    return Check(found.side, EVIDENCE, found.sentence or found.verdict, passed, required, MEANINGS["evidence"], mend)


def slope_rule(found: SideEvidence, mean_curve: Array, tolerance: float = TOLERANCE) -> list[Check]:
    """Check that the mean curve (J,) of the model rises as in the trial; no check where the trial has no slope.

    The curve's slope is weighted by the levels' rows like the trial's. It may leave the interval by ``tolerance`` of
    the trial's slope, because the interval of a large trial is narrower than any model is exact.
    """
    if found.slope is None or not found.trend:
        return []
    slope, allowed = float(np.asarray(found.trend) @ mean_curve), tolerance * abs(found.slope.value)
    passed = found.slope.low - allowed <= slope <= found.slope.high + allowed
    rule = f"mean slope of the curves inside the interval of the trial's, within {tolerance:.0%} of its slope"
    slopes = f"curves {slope:.3g}, trial {found.slope.value:.3g} [{found.slope.low:.3g}, {found.slope.high:.3g}]"
    mend = "" if passed else MENDS["slope"]
    return [Check(found.side, rule, f"{slopes} per minor unit", passed, meaning=MEANINGS["slope"], mend=mend)]


def risk_rule(side: str, found: WorstBin, base_rate: float, share: float) -> Check:
    """Check that predictions are calibrated where they are low and where they are high.

    Args:
        side: whose responses.
        found: range of the prediction that is furthest from its responses.
        base_rate: mean response.
        share: of it that prediction and response of a range may differ by, by the lower bound of the difference.
    """
    rule = f"prediction and response of each tenth by prediction within {share:.0%} of the mean response, by the bound"
    risks = f"{found.predicted:.4g} predicted, {found.observed} observed in range {found.place} of {found.ranges}"
    passed = found.distance <= share * base_rate
    return Check(side, rule, risks, passed, meaning=MEANINGS["risk"], mend="" if passed else MENDS["risk"])
