"""Check whether a log identifies the effect of the incentive, and the trial that would."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.evaluation import metrics
from shadowprice.evaluation.policy.gate import Check
from shadowprice.evaluation.policy.mending import MEANINGS, MENDS
from shadowprice.evaluation.statistics.windows import DAY, weeks
from shadowprice.evaluation.uplift.slope import NOT_IDENTIFIED, ROUNDING, Slope, slope_over_windows
from shadowprice.evaluation.uplift.trial_plan import TrialPlan, plan_trial
from shadowprice.responses.repair.effect import cell_names

WORTH_FINDING = 0.25
"""Rise of the response from the lowest level to the highest, as a share of the mean response, that a trial finds."""
RULE = "mean slope of the curves inside the interval of the log's, within cells and over weeks"


def slope_within_cells(rows: pd.DataFrame, levels: Sequence[int], confounders: Sequence[str]) -> Slope | None:
    """Slope of response in amount within cells of the confounders, over weeks; None where no cell has two amounts.

    Args:
        rows: labeled requests: level, response, snapshot_at and the confounders.
        levels: (J,) minor units.
        confounders: columns whose cells hold the reasons for the level fixed.
    """
    amount = np.asarray(levels, dtype=np.float64)[rows["level"].to_numpy(dtype=np.int64)]
    try:
        pooled, _ = slope_over_windows(
            rows["response"], amount, [cell_names(rows, confounders)], weeks(rows["snapshot_at"])
        )
        return pooled
    except InvalidInput:
        return None


def shape_of(curves: Curves) -> tuple[float, float]:
    """Share of pairs of levels at which a curve falls, and mean slope of the curves; zeros for one level."""
    if curves.levels.size < 2:
        return 0.0, 0.0
    return float(metrics.rpr(curves.response)), float(metrics.curve_slope(curves.response, levels=curves.levels))


def identification(
    side: Side, rows: pd.DataFrame, levels: Sequence[int], slope: Slope | None, curve_slope: float
) -> Check:
    """Check of the gate that curves claim no other effect than the log identifies.

    The text says where the effect is not identified, and which trial would identify it. Flat curves pass then; curves
    that rise by more than the interval do not.
    """
    if slope is None:
        finding = f"{NOT_IDENTIFIED}: no cell has two levels; curves {curve_slope:.3g}"
        return _check(side, finding, abs(curve_slope) <= ROUNDING)
    slopes = f"curves {curve_slope:.3g}, log {slope.value:.3g} [{slope.low:.3g}, {slope.high:.3g}] per minor unit"
    passed = slope.allows(curve_slope)
    if slope.identified:
        return _check(side, slopes, passed)
    plan = trial(rows, levels, slope)
    return _check(side, f"{slopes}: {NOT_IDENTIFIED}; {plan or 'confounders are missing'}", passed)


def _check(side: Side, found: str, passed: bool) -> Check:
    return Check(side, RULE, found, passed, meaning=MEANINGS["effect"], mend="" if passed else MENDS["effect"])


def trial(rows: pd.DataFrame, levels: Sequence[int], slope: Slope) -> TrialPlan | None:
    """Trial that would identify the effect; None where the log leaves no rising slope open.

    It finds a response that is a quarter higher at the highest level than at the lowest, or half the upper end of
    ``slope`` where the log leaves no more than that open.
    """
    if slope.high <= 0 or len(levels) < 2:
        return None
    y = rows["response"].to_numpy(dtype=np.float64)
    days = max(1.0, float(rows["snapshot_at"].max() - rows["snapshot_at"].min()) / DAY)
    probability = bool(np.isin(y, (0.0, 1.0)).all())
    base = float(y.mean())
    find = slope.high / 2
    if base > 0:
        find = min(find, WORTH_FINDING * base / (levels[-1] - levels[0]))
    return plan_trial(levels, base, find, len(rows) / days, variance=None if probability else float(y.var()))
