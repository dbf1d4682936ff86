"""Evaluation of the predictions of one side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Side, Terms
from shadowprice.curves import Curves, expected_amounts
from shadowprice.errors import InvalidInput
from shadowprice.evaluation import metrics
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
from shadowprice.evaluation.statistics.clusters import row_clusters
from shadowprice.evaluation.statistics.intervals import Estimate, Interval
from shadowprice.evaluation.statistics.means import mean
from shadowprice.evaluation.statistics.windows import weeks
from shadowprice.evaluation.uplift.slope import Slope, within_slope
from shadowprice.graphs.partners import row_partners
from shadowprice.learning.identification import shape_of, slope_within_cells
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.base import at_level, labels, row_amounts
from shadowprice.responses.weights import given_weights


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


def mean_squared_error(frame: pd.DataFrame, curves: Curves) -> float:
    """Mean squared error of the response of the level that each row was given."""
    level, y = labels(frame)
    return float(metrics.mse(y, curves.response[level, np.arange(y.size)], weight=given_weights(frame)))


def evaluate_side(
    side: Side,
    frame: pd.DataFrame,
    partner: NDArray[np.str_] | None,
    curves: Curves,
    before: Curves | None,
    known: NDArray[np.float64] | None,
    replications: int,
    terms: Terms | None,
) -> SideEvaluation:
    """Compare the curves of a side with the outcomes of its rows.

    Args:
        side: of the rows.
        frame: rows of a split.
        partner: of each row, for intervals; None: none is known.
        curves: of the rows.
        before: the same without correction; None: they are not corrected.
        known: (J, N), true response; None: unknown.
        replications: of the bootstrap.
        terms: of the side; None: without a campaign.
    """
    level, y = labels(frame)
    p = at_level(curves, level)
    other = None if before is None else at_level(before, level)
    truth = None if known is None else known[level, np.arange(level.size)]
    account = frame["account_id"].to_numpy(dtype=str)
    weight = given_weights(frame)
    interval = Interval(replications=replications, cluster=row_clusters(frame), partner=partner)
    judged: dict[str, Any] = {"weight": weight, "interval": interval}
    table = partial(calibration_table, weight=weight, interval=interval)
    estimates: dict[str, Estimate] = {
        "mae": metrics.mae(y, p, **judged),
        "mse": metrics.mse(y, p, **judged),
        "ece": metrics.ece(y, p, groups=level, **judged),
        "base_rate": mean(y, weight, interval.cluster, interval.level, partner=partner),
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
    account, partner = row_clusters(rows), row_partners(rows, side, data.snapshots)
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
