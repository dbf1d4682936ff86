"""Judging a trained model on the test split: metrics with intervals, calibration, curves, change points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from shadowprice.allocation import Problem, Resource, solve
from shadowprice.campaign import Side, Terms
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput, ShadowpriceError
from shadowprice.evaluation import metrics
from shadowprice.evaluation.calibration import CalibrationTable, calibration_table, equal_bins
from shadowprice.evaluation.change_points import ChangePoints, find_change_points
from shadowprice.evaluation.every_look import at_equal_price
from shadowprice.evaluation.frontier import Trial, at_equal_spend
from shadowprice.evaluation.gate import Compared, GateResult, Limits, gate
from shadowprice.evaluation.intervals import Estimate, Interval
from shadowprice.evaluation.likelihood import account_offset
from shadowprice.evaluation.per_level import ResponseByLevel, response_by_level
from shadowprice.evaluation.slope import Slope, within_slope
from shadowprice.learning.calibrate import uncalibrated
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.sided import SidedModel

Looks = Literal["once", "every"]
Policy = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Value and cost (J, N) of the curves that are decided by."""


@dataclass(frozen=True)
class SideEvaluation:
    """How a model does on the test rows of one side.

    rows, accounts  size of the test split
    metrics         name → estimate with a 95 % interval, bootstrapped by account
    by_level        response by incentive level: observed, predicted, true where known
    curve           mean curve over the test rows, (J,)
    true_curve      mean true curve over the test rows, (J,), where known
    hazard          mean hazard rate per minor unit in each segment, (J,); customers only
    true_hazard     the same of the known truth
    change_points   of the population's hazard, given the model's view of each account; from all labelled rows,
                    because a change point needs tens of thousands; customers only
    reliability     mean response in equally filled ranges of the prediction
    uncorrected     the same before the model was calibrated, when it was
    data_slope      slope of response in value with confounders held fixed, where it can be told
    curve_slope     mean slope of the model's curves
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
    uncorrected: CalibrationTable | None
    data_slope: Slope | None
    curve_slope: float


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of both sides, and the gate's verdict."""

    sides: Mapping[Side, SideEvaluation]
    gate: GateResult
    against: Mapping[str, Compared | str] = field(default_factory=dict)
    """The model's value against the incumbent's, or why they could not be compared."""

    def flat(self) -> dict[str, float]:
        """Metrics as ``side_name`` → value, for a table of runs."""
        return {f"{s}_{name}": e.value for s, side in self.sides.items() for name, e in side.metrics.items()}


def evaluate(
    model: SidedModel,
    data: TrainingSet,
    *,
    truth: pd.DataFrame | None = None,
    corrections: Mapping[Side, float] | None = None,
    confounders: Mapping[str, list[str]] | None = None,
    replications: int = 400,
    limits: Limits | None = None,
    incumbent: SidedModel | None = None,
    terms: Mapping[Side, Terms] | None = None,
    looks: Looks = "once",
) -> Evaluation:
    """Evaluate on the test split.

    Args:
        model: the trained model.
        data: its training set.
        truth: account_id, side, level, response: the true expected response, where known.
        corrections: what calibration added to each side, to show the model without it too.
        confounders: side → columns whose crossing holds the reasons for the incentive's value fixed.
        replications: of the bootstrap.
        limits: what the gate asks for.
        incumbent: the model in use, which the candidate must beat.
        terms: of the campaign, by which values and costs are counted; needed with an incumbent. Merchants paid on
            response get the metric ``paid_units``, the share of the units they brought that these terms pay for.
            Below 1 the expected cost of the curves, incentive × units, is by so much above what is really paid.
        looks: ``once`` compares at equal spend, with an interval that is meant to be looked at once; ``every``
            compares the same two models net of money at one price, found on the validation split, with an interval
            that holds however often they are compared while the test split grows in order of time. Customers only.

    Raises:
        InvalidInput: a side has no test row.
    """
    test = data.part("test")
    for side, frame in test.items():
        if frame.empty:
            raise InvalidInput(f"side {side!r} has no test row", field="split")
    curves = model.curves(data.snapshots, test)
    before = uncalibrated(model, corrections).curves(data.snapshots, test) if corrections else {}
    sides: dict[Side, SideEvaluation] = {}
    for side, frame in test.items():
        known = None if truth is None else true_curves(truth, side, frame["account_id"], len(data.levels[side]))
        slope = _data_slope(data, side, (confounders or {}).get(side, []))
        sides[side] = _side(
            side, frame, curves[side], before.get(side), known, slope, replications, (terms or {}).get(side)
        )
        if side == "customer":
            labelled = model.curves(data.snapshots, {side: data.rows[side]})[side]
            points = _change_points(data.rows[side], labelled)
            sides[side] = replace(
                sides[side], hazard=_mean_hazard(labelled.response, labelled.levels), change_points=points
            )
    found: dict[str, Mapping[str, Estimate]] = {side: each.metrics for side, each in sides.items()}
    if incumbent is None:
        return Evaluation(sides, gate(found, limits=limits))
    baseline, against = _against(model, incumbent, data, test, curves, terms or {}, replications, looks)
    return Evaluation(sides, gate(found, baseline, limits, against), against)


def _against(
    model: SidedModel,
    incumbent: SidedModel,
    data: TrainingSet,
    test: Mapping[Side, pd.DataFrame],
    curves: Mapping[Side, Curves],
    terms: Mapping[Side, Terms],
    replications: int,
    looks: Looks,
) -> tuple[dict[str, dict[str, float]], dict[str, Compared | str]]:
    """The incumbent's squared error, and the candidate's value against its own, side by side."""
    if looks not in get_args(Looks):
        raise InvalidInput(f"must be one of {get_args(Looks)}, got {looks!r}", field="looks")
    try:
        theirs = incumbent.curves(data.snapshots, test)
    except ShadowpriceError as error:
        return {}, dict.fromkeys(map(str, test), f"the incumbent cannot read these rows: {error}")
    baseline: dict[str, dict[str, float]] = {}
    against: dict[str, Compared | str] = {}
    for side, frame in test.items():
        own = curves[side]
        if side not in theirs or not np.array_equal(theirs[side].levels, own.levels):
            against[side] = "the incumbent has other levels"
            continue
        level, y = frame["level"].to_numpy(dtype=np.int64), frame["response"].to_numpy(dtype=np.float64)
        baseline[side] = {"mse": metrics.mse(y, theirs[side].response[level, np.arange(y.size)])}
        if side not in terms or "propensity" not in frame or frame["propensity"].isna().any():
            against[side] = "not every test row has a propensity, so no policy's value can be told from them"
            continue
        of = terms[side]
        # The candidate has not seen these rows, so its curves may serve as the outcome model of both.
        trial = replace(
            _trial(frame, of, own.levels), expected_value=of.value(own.response), expected_cost=of.cost(own.response)
        )
        policies = [(of.value(each.response), of.cost(each.response)) for each in (own, theirs[side])]
        if looks == "every":
            against[side] = _at_every_look(side, model, data, of, trial, policies)
            continue
        interval = Interval(replications=replications)
        against[side] = at_equal_spend(trial, policies[0], policies[1], estimator="dr", interval=interval)
    return baseline, against


def _trial(frame: pd.DataFrame, terms: Terms, levels: NDArray[np.int64]) -> Trial:
    """Labelled rows as a trial, in the campaign's values and money."""
    level, y = frame["level"].to_numpy(dtype=np.int64), frame["response"].to_numpy(dtype=np.float64)
    return Trial(
        level=level,
        value=terms.weight * y,
        cost=levels[level] * terms.paid_units(y),
        propensity=frame["propensity"],
        account=frame["account_id"].to_numpy(dtype=str),
    )


def _at_every_look(
    side: Side, model: SidedModel, data: TrainingSet, terms: Terms, trial: Trial, policies: Sequence[Policy]
) -> Compared | str:
    """Both policies at the price at which the candidate would spend, on the validation split, what its trial spent.

    Price and bounds come from rows before the test split, so that they are fixed when the first of its rows is seen.
    """
    if side != "customer":
        return "a response without a bound that is known beforehand cannot be compared at every look"
    earlier = data.rows[side]
    before = earlier[earlier["split"] == "validation"].reset_index(drop=True)
    drawn = earlier.loc[earlier["split"] != "test", "propensity"]
    if before.empty or drawn.isna().any():
        return "there are no earlier rows with propensities to take the price of money from"
    curves = model.curves(data.snapshots, {side: before})[side]
    spent = float(np.asarray(_trial(before, terms, curves.levels).cost, dtype=np.float64).mean())
    value, cost = terms.value(curves.response), terms.cost(curves.response)
    solved = solve(Problem(value.astype(np.float32), [Resource.per_account("spent", cost, spent)]))
    try:
        return at_equal_price(
            trial,
            policies[0],
            policies[1],
            price=float(solved.prices[0]),
            largest_value=terms.weight,
            largest_cost=float(max(terms.levels)),
            least_propensity=float(drawn.min()),
        )
    except InvalidInput as error:
        return f"the test rows are not as the earlier ones: {error}"


def true_curves(truth: pd.DataFrame, side: Side, accounts: pd.Series, levels: int) -> NDArray[np.float64]:
    """(J, n): the true curves of the given accounts."""
    own = truth[truth["side"] == side].pivot(index="account_id", columns="level", values="response")
    return np.asarray(own.reindex(accounts.to_numpy(dtype=str))[list(range(levels))].to_numpy(dtype=np.float64).T)


def _side(
    side: Side,
    frame: pd.DataFrame,
    curves: Curves,
    before: Curves | None,
    known: NDArray[np.float64] | None,
    slope: Slope | None,
    replications: int,
    terms: Terms | None,
) -> SideEvaluation:
    level = frame["level"].to_numpy(dtype=np.int64)
    y = frame["response"].to_numpy(dtype=np.float64)
    rows = np.arange(level.size)
    p = curves.response[level, rows].astype(np.float64)
    account = frame["account_id"].to_numpy(dtype=str)
    interval = Interval(replications=replications, cluster=account)
    found: dict[str, Estimate] = {
        "mae": metrics.mae(y, p, interval=interval),
        "mse": metrics.mse(y, p, interval=interval),
        "ece": metrics.ece(y, p, groups=level, interval=interval),
    }
    if side == "customer":
        safe = np.clip(p, 1e-6, 1 - 1e-6)
        found["auc"] = metrics.auc(y, p, interval=interval)
        found["logloss"] = metrics.logloss(y, safe, interval=interval)
    if side == "merchant" and terms is not None and terms.cost_basis == "on_response":
        paid = float(terms.paid_units(y).sum() / y.sum()) if y.sum() > 0 else 1.0
        found["paid_units"] = Estimate(paid, paid, paid)
    reversed_pairs = metrics.rpr(curves.response) if curves.levels.size > 1 else 0.0
    found["rpr"] = Estimate(reversed_pairs, reversed_pairs, reversed_pairs)
    return SideEvaluation(
        rows=len(frame),
        accounts=int(np.unique(account).size),
        metrics=found,
        by_level=response_by_level(
            y, p, level, curves.levels, truth=None if known is None else known[level, rows], cluster=account
        ),
        curve=curves.response.mean(axis=1, dtype=np.float64),
        true_curve=None if known is None else known.mean(axis=1),
        hazard=None,
        true_hazard=None if known is None or side != "customer" else _mean_hazard(known, curves.levels),
        change_points=None,
        reliability=_reliability(y, p, account),
        uncorrected=None if before is None else _reliability(y, before.response[level, rows].astype(float), account),
        data_slope=slope,
        curve_slope=float(metrics.curve_slope(curves.response, levels=curves.levels))
        if len(curves.levels) > 1
        else 0.0,
    )


def _data_slope(data: TrainingSet, side: Side, confounders: list[str]) -> Slope | None:
    """Slope of response in value over all labelled rows, the confounders and the graph's period held fixed."""
    rows = data.rows[side]
    period = np.searchsorted(
        [snapshot.at.timestamp() for snapshot in data.snapshots], rows["snapshot_at"], side="right"
    )
    amounts = np.asarray(data.levels[side], dtype=np.float64)[rows["level"]]
    cells: list[ArrayLike] = [period, *(rows[column].astype(str).to_numpy() for column in confounders)]
    try:
        return within_slope(rows["response"], amounts, cells, cluster=rows["account_id"].to_numpy(dtype=str))
    except InvalidInput:
        return None


def _mean_hazard(response: NDArray[np.floating[Any]], levels: NDArray[np.int64]) -> NDArray[np.float64]:
    """(J,): mean hazard rate per minor unit in each segment of the curves (J, n)."""
    probability = np.clip(np.asarray(response, dtype=np.float64), 0.0, 1.0 - 1e-7)
    steps = np.diff(-np.log1p(-probability), axis=0, prepend=0.0).mean(axis=1)
    widths = np.diff(levels, prepend=0).astype(np.float64)
    return np.asarray(np.divide(steps, widths, out=np.zeros_like(steps), where=widths > 0))


def _reliability(y: NDArray[np.float64], p: NDArray[np.float64], account: NDArray[np.str_]) -> CalibrationTable:
    return calibration_table(y, p, equal_bins(p), cluster=account)


def _change_points(frame: pd.DataFrame, curves: Curves) -> ChangePoints:
    level = frame["level"].to_numpy(dtype=np.int64)
    y = frame["response"].to_numpy(dtype=np.float64)
    return find_change_points(y, level, curves.levels, account_offset(curves.response))
