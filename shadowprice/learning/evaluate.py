"""Evaluation of a trained model on the test split: metrics with intervals, calibration, curves, change points."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pandas as pd

from shadowprice.campaign import Side
from shadowprice.checks import require
from shadowprice.currency import Currency
from shadowprice.curves import Curves
from shadowprice.datasets.truth import true_curves
from shadowprice.errors import ShadowpriceError
from shadowprice.evaluation.policy.effect_rules import evidence_rule, risk_rule, slope_rule
from shadowprice.evaluation.policy.flat_gate import flat_gate
from shadowprice.evaluation.policy.gate import Against, Check, Compared, GateResult, Requirements, gate
from shadowprice.evaluation.policy.worth import Worth
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.uplift.evidence import SideEvidence
from shadowprice.graphs.partners import row_partners
from shadowprice.learning.amounts import with_amounts
from shadowprice.learning.calibrate import uncalibrated
from shadowprice.learning.comparison.prediction import compare_prediction
from shadowprice.learning.comparison.value import (
    CampaignWindow,
    Looks,
    check_looks,
    compare_value,
    compare_value_at_every_look,
)
from shadowprice.learning.identification import identification
from shadowprice.learning.side_evaluation import (
    SideEvaluation,
    _change_points,
    _data_slope,
    _mean_hazard,
    _without_order,
    evaluate_side,
    mean_squared_error,
)
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.sided import SidedModel
from shadowprice.tables.database import Source


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of both sides, and the gate's verdict."""

    sides: Mapping[Side, SideEvaluation]
    gate: GateResult
    value: Compared | str | None = None
    """The model's value against the incumbent's or uniform dosing, or why they could not be compared."""

    def flat(self) -> dict[str, float]:
        """Metrics as ``side_name`` → value, for a table of runs."""
        return {f"{s}_{name}": e.value for s, side in self.sides.items() for name, e in side.metrics.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class Facts:
    """Facts about a data set beside its rows.

    truth        account_id, side, level, response: the true expected response, where known
    confounders  side → columns whose crossing holds the reasons for the incentive's value fixed. Where the log does not
                 identify the effect within them, a first model need not beat uniform dosing
    evidence     side → evidence of its trial. The gate requires that the trial identifies the effect, and that the
                 curves rise as it shows. A model that replaces one in use is refused only for an effect in the wrong
                 direction: the log that the served policy leaves may be too small to show the effect again
    """

    truth: Source | None = None
    confounders: Mapping[str, list[str]] = field(default_factory=dict)
    evidence: Mapping[Side, SideEvidence] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """Rival that a model must beat in value.

    incumbent  the model in use; without one the rival is uniform dosing
    required   whether the gate requires the model to beat its rival, or only reports the comparison
    looks      ``once`` compares at the campaign's budget, with an interval for one look; ``every`` compares customers
               with the incumbent net of money at one price, found on the validation split, with an interval that holds
               however often they are compared while the test split grows in order of time
    worth      of personalizing, by more rows than the test split; it takes the place of the comparison with uniform
               dosing on the test split
    """

    incumbent: SidedModel | None = None
    required: bool = True
    looks: Looks = "once"
    worth: Worth | None = None


def evaluate(
    model: SidedModel,
    data: TrainingSet,
    *,
    facts: Facts | None = None,
    window: CampaignWindow | None = None,
    against: Comparison | None = None,
    limits: Requirements | None = None,
    corrections: Mapping[Side, float] | None = None,
    replications: int = 400,
) -> Evaluation:
    """Evaluate on the test split.

    Where the rows have balancing weights, every metric and the value of every policy is judged with them. A flat policy
    has rules of its own (:func:`~shadowprice.evaluation.policy.flat_gate.flat_gate`) and is compared with no rival.

    Args:
        model: the trained model.
        data: its training set.
        facts: about the data set, beside its rows.
        window: whose budget the model is to spend; without it only the metrics are judged. Merchants paid on
            response get the metric ``paid_units``: the share of their units that these terms pay for.
        against: rival that the model must beat.
        limits: requirements of the gate.
        corrections: amount that calibration added to each side, to show the model without it too.
        replications: of the bootstrap.

    Raises:
        InvalidInput: a side has no test row, or an incumbent comes without a campaign.
    """
    known, rival, allowed = facts or Facts(), against or Comparison(), limits or Requirements()
    check_looks(rival.looks)
    require(rival.incumbent is None or window is not None, "campaign", "is needed to compare with an incumbent")
    campaign = None if window is None else window.campaign
    data = data.newest(allowed.newest_days)
    test = data.part("test")
    for side, frame in test.items():
        newest = f" in the newest {allowed.newest_days:g} days" if allowed.newest_days else ""
        require(len(frame), "split", f"side {side!r} has no test row{newest}")
    curves = with_amounts(data, model.curves(data.inputs, test))
    before = uncalibrated(model, corrections).curves(data.inputs, test) if corrections else {}
    sides: dict[Side, SideEvaluation] = {}
    checks: list[Check] = []
    identified = True
    for side, frame in test.items():
        levels = len(data.levels[side])
        truth = None if known.truth is None else true_curves(known.truth, side, frame["account_id"], levels)
        reasons, ordered = known.confounders.get(side, []), side not in data.unordered
        require(ordered or not reasons, "confounders", f"have no slope to hold: the levels of {side}s have no order")
        slope = _data_slope(data, side, reasons) if ordered else None
        terms = None if campaign is None else campaign.terms(side)
        partner = row_partners(frame, side, data.snapshots)
        judged = evaluate_side(side, frame, partner, curves[side], before.get(side), truth, replications, terms)
        judged = replace(judged, data_slope=slope)
        sides[side] = judged if ordered else _without_order(judged)
        trial = known.evidence.get(side)
        if trial is not None:
            checks.append(evidence_rule(trial, required=rival.incumbent is None or trial.verdict == "wrong way"))
            identified &= trial.verdict == "identified"
        if reasons and judged.curve_slope is not None:
            checks.append(identification(side, data.rows[side], data.levels[side], slope, judged.curve_slope))
            identified &= slope is not None and slope.identified
        elif ordered and trial is not None and trial.verdict == "identified":
            checks += slope_rule(trial, judged.curve)
        checks.append(risk_rule(side, judged.worst, judged.metrics["base_rate"].value, allowed.ece_share))
        if side == "customer" and ordered:
            labeled = model.curves(data.inputs, {side: data.rows[side]})[side]
            points = _change_points(data.rows[side], labeled)
            sides[side] = replace(
                sides[side], hazard=_mean_hazard(labeled.response, labeled.levels), change_points=points
            )
    metrics_of: dict[str, Mapping[str, Estimate]] = {side: evaluation.metrics for side, evaluation in sides.items()}
    rows = {str(side): evaluation.rows for side, evaluation in sides.items()}
    if not model.personal:
        confounded = [side for side, reasons in known.confounders.items() if reasons]
        unlike = [
            evidence_rule(trial)
            for side, trial in known.evidence.items()
            if trial.unlike and np.ptp(sides[side].curve) > 0
        ]
        return Evaluation(sides, flat_gate(metrics_of, limits, extra=unlike, confounded=confounded, rows=rows))
    money = None if campaign is None else Currency.of(campaign.currency)
    judge = partial(gate, metrics_of, limits=limits, extra=checks, rows=rows, unordered=data.unordered, currency=money)
    if window is None:
        return Evaluation(sides, judge())
    if not window.requests:
        window = replace(window, requests={side: float(len(frame)) for side, frame in test.items()})
    if rival.incumbent is None:
        worth = rival.worth
        shown = (
            compare_value(data, curves, None, window, replications)
            if worth is None
            else worth.at(1.0).times(window.campaign.told_in)
        )
        comparison = Against(value=shown, rival="uniform dosing", required=rival.required and identified)
        return Evaluation(sides, judge(against=comparison), shown)
    theirs = _incumbents(rival.incumbent, data, test, curves)
    if isinstance(theirs, str):
        return Evaluation(sides, judge(against=Against(value=theirs, required=rival.required)), theirs)
    if rival.looks == "every":
        shown = compare_value_at_every_look(model, data, curves, theirs, window)
    else:
        shown = compare_value(data, curves, theirs, window, replications)
    baseline: dict[str, dict[str, float]] = {
        side: {"mse": mean_squared_error(frame, theirs[side])} for side, frame in test.items()
    }
    predicted = compare_prediction(data, curves, theirs, replications) if allowed.value_margin > 0 else None
    comparison = Against(value=shown, required=rival.required, baseline=baseline, prediction=predicted)
    return Evaluation(sides, judge(against=comparison), shown)


def _incumbents(
    incumbent: SidedModel, data: TrainingSet, test: Mapping[Side, pd.DataFrame], curves: Mapping[Side, Curves]
) -> dict[Side, Curves] | str:
    """The incumbent's curves on the test rows, or why there are none to compare."""
    try:
        theirs = with_amounts(data, incumbent.curves(data.inputs, test))
    except ShadowpriceError as error:
        return f"the incumbent cannot read these rows: {error}"
    if any(side not in theirs or not np.array_equal(theirs[side].levels, own.levels) for side, own in curves.items()):
        return "the incumbent has other levels"
    return theirs
