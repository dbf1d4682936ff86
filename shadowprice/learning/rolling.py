"""Rolling origin: a recipe is trained as of several cut dates, and judged each time on the days that follow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.checks import require
from shadowprice.curves import Curves
from shadowprice.evaluation import metrics
from shadowprice.evaluation.statistics.clusters import row_clusters
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.means import mean
from shadowprice.evaluation.statistics.windows import DAY, WEEK
from shadowprice.evaluation.uplift.slope import Slope
from shadowprice.learning.identification import shape_of, slope_within_cells
from shadowprice.learning.training_set import SPLITS, TrainingSet
from shadowprice.responses.base import at_level, labels
from shadowprice.responses.sided import SidedModel


@dataclass(frozen=True)
class Origin:
    """One cut: train on requests decided before ``at``, judge those from ``at`` to before ``until``."""

    at: datetime
    until: datetime

    def __post_init__(self) -> None:
        for name in ("at", "until"):
            aware = getattr(self, name).tzinfo is not None
            require(aware, f"origin.{name}", "needs a time zone; times here are UTC")
        require(self.until > self.at, "origin.until", "must be after the cut")


@dataclass(frozen=True)
class Judged:
    """Predictions of one side at one cut, against the responses of the days after it.

    rows            requests judged
    predicted       mean prediction at the level given; observed: mean response
    offset          mean of prediction less response, with its interval over accounts and partners
    known_offset    offset on rows whose partner has a row before the cut, and on rows without a partner
    new_offset      offset on the other rows; NaN where there are none, as is ``known_offset``
    new_share       share of those other rows
    auc, logloss    of a probability; NaN for the merchants' ratio and where all responded alike
    mse             squared error
    data_slope      slope of response in amount within cells before the cut, over weeks; None where no cell has two
                    amounts or the data set names no confounders
    curve_slope     mean slope of the curves, response per minor unit
    reversed_pairs  share of pairs of levels at which a curve falls
    """

    rows: int
    predicted: float
    observed: float
    offset: Estimate
    known_offset: Estimate
    new_offset: Estimate
    new_share: float
    auc: float
    logloss: float
    mse: float
    data_slope: Slope | None
    curve_slope: float
    reversed_pairs: float

    @property
    def inside(self) -> bool | None:
        """Return whether the slope of the curves lies in the interval of the data's; None without one."""
        slope = self.data_slope
        return None if slope is None else slope.allows(self.curve_slope)


@dataclass(frozen=True)
class Cut:
    """The judgment of one cut, by side."""

    origin: Origin
    sides: Mapping[Side, Judged]


def origins(first: datetime, last: datetime, *, every_days: float = WEEK, judge_days: float = WEEK) -> list[Origin]:
    """Cuts from ``first`` to ``last``, both included, each judged on the ``judge_days`` days after it.

    >>> [each.at.day for each in origins(datetime(2016, 5, 1, tzinfo=UTC), datetime(2016, 5, 15, tzinfo=UTC))]
    [1, 8, 15]
    """
    require(min(every_days, judge_days) > 0, "every_days, judge_days", "must be positive numbers of days")
    require(last >= first, "last", "must not be before the first cut")
    steps = int((last - first) / timedelta(days=every_days)) + 1
    cuts = [first + timedelta(days=every_days * step) for step in range(steps)]
    return [Origin(at, at + timedelta(days=judge_days)) for at in cuts]


def as_of(
    data: TrainingSet, origin: Origin, *, hold_out_days: float = WEEK, label_delay_days: float = 0.0
) -> TrainingSet:
    """The training set as it was at the cut: train and validation before it, the days after it as test.

    Args:
        data: rows of any split; their own split is not read.
        origin: the cut.
        hold_out_days: length of validation, the last days before the cut; with 0 there is none.
        label_delay_days: days until a label is known. Rows whose label was not known at the cut are left out; 0
            takes every row before the cut, as published figures on delayed labels do.

    Raises:
        InvalidInput: a side has no row to train on, to validate by or to judge.
    """
    at, until = origin.at.timestamp(), origin.until.timestamp()
    known = at - label_delay_days * DAY
    rows: dict[Side, pd.DataFrame] = {}
    for side, frame in data.rows.items():
        decided = frame["snapshot_at"].to_numpy(dtype=np.float64)
        part = np.where(decided < known - hold_out_days * DAY, "train", np.where(decided < known, "validation", ""))
        part = np.where((decided >= at) & (decided < until), "test", part)
        for name in SPLITS if hold_out_days else ("train", "test"):
            none = f"side {side!r} has no {name} row for the cut at {origin.at:%Y-%m-%d}; choose another date"
            require((part == name).any(), "origin.at", none)
        rows[side] = frame.assign(split=part)[part != ""].reset_index(drop=True)
    # A later snapshot holds what happened after the cut.
    seen = [snapshot for k, snapshot in enumerate(data.snapshots) if k == 0 or snapshot.at < origin.until]
    return replace(data, rows=rows).seeing(seen)


def roll(
    data: TrainingSet,
    cuts: Sequence[Origin],
    fit: Callable[[TrainingSet], SidedModel],
    *,
    label_delay_days: float = 0.0,
) -> list[Cut]:
    """Train with ``fit`` as of every cut and judge the days after it; see :func:`as_of` for ``label_delay_days``."""
    judgments = []
    for origin in cuts:
        then = as_of(data, origin, label_delay_days=label_delay_days)
        judgments.append(Cut(origin, judge(fit(then), then)))
    return judgments


def as_markdown(cuts: Sequence[Cut]) -> str:
    """Markdown table with one line per cut and side."""
    head = ["trained to", "judged to", "side", "rows", "predicted", "observed", "AUC", "log loss", "squared error"]
    head += ["curve slope", "offset", "offset, known partners", "offset, new partners", "share of new partners"]
    head += ["slope of the log", "reversed pairs"]
    lines = [head, ["---"] * len(head)]
    for cut in cuts:
        for side, judged in cut.sides.items():
            slope = judged.data_slope
            slope_text = "–" if slope is None else f"{slope.value:.3g} [{slope.low:.3g}, {slope.high:.3g}]"
            if slope is not None and not slope.identified:
                slope_text += " not identified"
            figures = (judged.predicted, judged.observed, judged.auc, judged.logloss, judged.mse, judged.curve_slope)
            lines.append(
                [f"{cut.origin.at:%Y-%m-%d}", f"{cut.origin.until:%Y-%m-%d}", side, str(judged.rows)]
                + [f"{figure:.4g}" for figure in figures]
                + [str(offset) for offset in (judged.offset, judged.known_offset, judged.new_offset)]
                + [f"{judged.new_share:.3g}", slope_text, f"{judged.reversed_pairs:.3g}"]
            )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def judge(model: SidedModel, data: TrainingSet) -> dict[Side, Judged]:
    """Judge the predictions of the test rows of every side that the model predicts."""
    test = data.part("test")
    curves = model.curves(data.inputs, test)
    return {side: _judged(side, curves[side], frame, data) for side, frame in test.items()}


def slope_before(data: TrainingSet, side: Side) -> Slope | None:
    """Slope within cells of the rows that may be learned from; None without confounders or two amounts in a cell."""
    confounders = data.confounders.get(side, ())
    rows = data.rows[side]
    return slope_within_cells(rows[rows["split"] != "test"], data.levels[side], confounders) if confounders else None


def _judged(side: Side, curves: Curves, frame: pd.DataFrame, data: TrainingSet) -> Judged:
    level, y = labels(frame)
    p = at_level(curves, level)
    ranked = side == "customer" and 0 < y.mean() < 1
    reversed_pairs, curve_slope = shape_of(curves)
    rows = data.rows[side]
    partners_before = set(rows.loc[rows["split"] != "test", "partner_id"].dropna())
    before = frame["partner_id"].isna() | frame["partner_id"].isin(partners_before)
    known = before.to_numpy(dtype=np.bool_)
    return Judged(
        rows=y.size,
        predicted=float(p.mean()),
        observed=float(y.mean()),
        offset=_offset(p - y, frame),
        known_offset=_offset((p - y)[known], frame[known]),
        new_offset=_offset((p - y)[~known], frame[~known]),
        new_share=1 - float(known.mean()),
        auc=metrics.auc(y, p) if ranked else np.nan,
        logloss=metrics.logloss(y, np.clip(p, 1e-6, 1 - 1e-6)) if ranked else np.nan,
        mse=metrics.mse(y, p),
        data_slope=slope_before(data, side),
        curve_slope=curve_slope,
        reversed_pairs=reversed_pairs,
    )


def _offset(error: NDArray[np.float64], rows: pd.DataFrame) -> Estimate:
    if not error.size:
        return Estimate(np.nan, np.nan, np.nan)
    partners = rows["partner_id"]
    return mean(
        error,
        cluster=row_clusters(rows),
        partner=partners.to_numpy(dtype=str) if partners.notna().all() else None,
    )
