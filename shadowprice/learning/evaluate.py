"""Evaluation of a trained model on the test split: metrics with intervals, calibration, curves, change points."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Side, Terms
from shadowprice.checks import require
from shadowprice.currency import Currency
from shadowprice.curves import Curves, expected_amounts
from shadowprice.datasets.truth import true_curves
from shadowprice.errors import InvalidInput, ShadowpriceError
from shadowprice.evaluation import metrics
from shadowprice.evaluation.policy.effect_rules import evidence_rule, risk_rule, slope_rule
from shadowprice.evaluation.policy.flat_gate import flat_gate
from shadowprice.evaluation.policy.gate import Against, Check, Compared, GateResult, Requirements, gate
from shadowprice.evaluation.policy.worth import Worth
from shadowprice.evaluation.prediction.calibration import (
    CalibrationTable,
    WorstBin,
    calibration_table,
    equal_bins,
    worst_bin,
)
from shadowprice.evaluation.prediction.change_points import ChangePoints, find_change_points
from shadowprice.evaluation.prediction.likelihood import account_offset
from shadowprice.evaluation.prediction.per_level import ResponseByLevel, response_by_level
from shadowprice.evaluation.statistics.intervals import Estimate, Interval
from shadowprice.evaluation.statistics.means import mean
from shadowprice.evaluation.statistics.windows import weeks
from shadowprice.evaluation.uplift.evidence import SideEvidence
from shadowprice.evaluation.uplift.slope import Slope, within_slope
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
from shadowprice.learning.identification import identification, shape_of, slope_within_cells
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.base import at_level, labels, row_amounts
from shadowprice.responses.sided import SidedModel
from shadowprice.responses.weights import given_weights
from shadowprice.tables.database import Source


@dataclass(frozen=True)
class SideEvaluation:
    """Figures of a model on the test rows of one side.

    rows, accounts  size of the test split
    metrics         name → estimate with a 95 % interval, bootstrapped by account and partner
    by_level        response by incentive level: observed, predicted, true where known
    curve           mean curve over the test rows, (J,)
    true_curve      mean true curve over the test rows, (J,), where known
    hazard          mean hazard rate per minor unit in each segment, (J,); customers only
    true_hazard     the same of the known truth
    change_points   of the population's hazard, given the model's view of each account; from all labeled rows,
                    because a change point needs tens of thousands; customers only
    reliability     mean response in equally filled ranges of the prediction
    worst           range of these in which prediction and response differ most
    uncorrected     the same before the model was calibrated, when it was
    data_slope      slope of response in value with confounders held fixed, where it can be told
    curve_slope     mean slope of the model's curves; None where levels have no order
    amounts         mean amount of the rows that responded, minor units, in equally filled ranges of the predicted one;
                    None where amounts are not learned
    """

    rows: int
    accounts: int
    metrics: Mapping[str, Estimate]
    by_level: ResponseByLevel
    curve: NDArray[np.float64]
    true_curve: NDArray[np.float64] | None
    hazard: NDArray[np.float64] | None
    true_hazard: NDArray[np.float64] | None
    change_points: ChangePoints | None
    reliability: CalibrationTable
    worst: WorstBin
    uncorrected: CalibrationTable | None
    data_slope: Slope | None
    curve_slope: float | None
    amounts: CalibrationTable | None = None


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
        judged = _side(side, frame, partner, curves[side], before.get(side), truth, replications, terms)
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
    baseline: dict[str, dict[str, float]] = {side: {"mse": _mse(frame, theirs[side])} for side, frame in test.items()}
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


def _mse(frame: pd.DataFrame, curves: Curves) -> float:
    level, y = labels(frame)
    return float(metrics.mse(y, curves.response[level, np.arange(y.size)], weight=given_weights(frame)))


def _side(
    side: Side,
    frame: pd.DataFrame,
    partner: NDArray[np.str_] | None,
    curves: Curves,
    before: Curves | None,
    known: NDArray[np.float64] | None,
    replications: int,
    terms: Terms | None,
) -> SideEvaluation:
    level, y = labels(frame)
    p = at_level(curves, level)
    other = None if before is None else at_level(before, level)
    truth = None if known is None else known[level, np.arange(level.size)]
    account = frame["account_id"].to_numpy(dtype=str)
    weight = given_weights(frame)
    interval = Interval(replications=replications, cluster=account, partner=partner)
    judged: dict[str, Any] = {"weight": weight, "interval": interval}
    table = partial(calibration_table, weight=weight, interval=interval)
    estimates: dict[str, Estimate] = {
        "mae": metrics.mae(y, p, **judged),
        "mse": metrics.mse(y, p, **judged),
        "ece": metrics.ece(y, p, groups=level, **judged),
        "base_rate": mean(y, weight, account, interval.level, partner=partner),
    }
    if side == "customer":
        estimates["auc"] = metrics.auc(y, p, **judged)
        estimates["logloss"] = metrics.logloss(y, np.clip(p, 1e-6, 1 - 1e-6), **judged)
    if side == "merchant" and terms is not None and terms.cost_basis == "on_response":
        paid = float(terms.paid_units(y).sum() / y.sum()) if y.sum() > 0 else 1.0
        estimates["paid_units"] = Estimate(paid, paid, paid)
    distinct = bool(np.all(np.diff(curves.levels)))
    reversed_pairs, curve_slope = shape_of(curves) if distinct else (np.nan, np.nan)
    estimates["rpr"] = Estimate(reversed_pairs, reversed_pairs, reversed_pairs)
    return SideEvaluation(
        rows=len(frame),
        accounts=int(np.unique(account).size),
        metrics=estimates,
        by_level=response_by_level(y, p, level, curves.levels, truth=truth, **judged),
        curve=curves.response.mean(axis=1, dtype=np.float64),
        true_curve=None if known is None else known.mean(axis=1),
        hazard=None,
        true_hazard=None if known is None or side != "customer" else _mean_hazard(known, curves.levels),
        change_points=None,
        reliability=table(y, p, equal_bins(p)),
        worst=worst_bin(y, p, **judged),
        uncorrected=None if other is None else table(y, other, equal_bins(other)),
        data_slope=None,
        curve_slope=curve_slope,
        amounts=None if curves.amounts is None else amount_table(frame, curves.amounts, interval),
    )


def amount_table(frame: pd.DataFrame, amounts: NDArray[np.float32], interval: Interval) -> CalibrationTable | None:
    """Observed against predicted mean amount of the rows that responded, by decile of the prediction.

    ``amounts`` are those of the curves of the rows. Responses count alike, a merchant's row with its units; None where
    no row responded, or all accounts have the law of their side.
    """
    observed, level = row_amounts(frame), frame["level"].to_numpy(dtype=np.int64)
    hit = observed > 0
    if not hit.any() or amounts.ndim == 2:
        return None
    predicted = expected_amounts(amounts)[level, np.arange(level.size)][hit]
    accounts, partners = (None if ids is None else np.asarray(ids)[hit] for ids in (interval.cluster, interval.partner))
    within = replace(interval, cluster=accounts, partner=partners)
    units = labels(frame)[1][hit]
    return calibration_table(observed[hit], predicted, equal_bins(predicted), weight=units, interval=within)


def _without_order(found: SideEvaluation) -> SideEvaluation:
    """Return the figures without those that read an order of the levels."""
    metrics = {name: metric for name, metric in found.metrics.items() if name != "rpr"}
    return replace(found, metrics=metrics, curve_slope=None, true_hazard=None)


def _data_slope(data: TrainingSet, side: Side, confounders: Sequence[str]) -> Slope | None:
    """Slope of response in value over all labeled rows, within weeks; over weeks where confounders are named."""
    rows, levels = data.rows[side], data.levels[side]
    if confounders:
        return slope_within_cells(rows, levels, confounders)
    amounts = np.asarray(levels, dtype=np.float64)[rows["level"]]
    account, partner = rows["account_id"].to_numpy(dtype=str), row_partners(rows, side, data.snapshots)
    try:
        return within_slope(rows["response"], amounts, [weeks(rows["snapshot_at"])], cluster=account, partner=partner)
    except InvalidInput:
        return None


def _mean_hazard(response: NDArray[np.floating[Any]], levels: NDArray[np.int64]) -> NDArray[np.float64]:
    """(J,): mean hazard rate per minor unit in each segment of the curves (J, n)."""
    probability = np.clip(np.asarray(response, dtype=np.float64), 0.0, 1.0 - 1e-7)
    steps = np.diff(-np.log1p(-probability), axis=0, prepend=0.0).mean(axis=1)
    widths = np.diff(levels, prepend=0).astype(np.float64)
    return np.asarray(np.divide(steps, widths, out=np.zeros_like(steps), where=widths > 0))


def _change_points(frame: pd.DataFrame, curves: Curves) -> ChangePoints:
    level, y = labels(frame)
    return find_change_points(y, level, curves.levels, account_offset(curves.response))
