"""Response by incentive level: what was seen, what was predicted, what is true."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.curves import check_levels
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.prediction.calibration import calibration_table
from shadowprice.evaluation.statistics.intervals import Interval
from shadowprice.evaluation.statistics.metric import as_rows


@dataclass(frozen=True)
class ResponseByLevel:
    """Mean response of the rows that were given each of J levels.

    levels     int64 (J,), minor units
    rows       int64 (J,)
    predicted  float64 (J,), mean prediction at the level given; NaN where no row had the level
    observed   float64 (J,), mean response, with its interval ``low``, ``high``
    truth      float64 (J,), mean of the known truth, or None
    ece        expected calibration error over the levels
    """

    levels: NDArray[np.int64]
    rows: NDArray[np.int64]
    predicted: NDArray[np.float64]
    observed: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    truth: NDArray[np.float64] | None
    ece: float


def response_by_level(
    y: ArrayLike,
    p: ArrayLike,
    level: ArrayLike,
    levels: ArrayLike,
    *,
    truth: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    interval: Interval | None = None,
) -> ResponseByLevel:
    """Group rows by the level they were given.

    Args:
        y: (N,) responses; p: (N,) predictions at the level given.
        level: (N,) index into ``levels``; levels: (J,) minor units, ascending; equal ones are different offers.
        truth: (N,) true expected response at the level given, where it is known.
        weight: (N,), for instance 1 / propensity.
        interval: around the observed means, by account and partner of each row.

    Raises:
        InvalidInput: a level index outside ``levels``, or what the metrics refuse.
    """
    amounts = check_levels(levels, ordered=False)
    index = check_index(level, amounts.size)
    table = calibration_table(y, p, index, size=amounts.size, weight=weight, interval=interval)
    true_mean = None
    if truth is not None:
        weights = np.ones(index.size) if weight is None else np.asarray(weight, dtype=np.float64)
        known = as_rows({"y": y, "truth": truth})["truth"]
        total = np.bincount(index, weights, minlength=amounts.size)
        true_mean = np.full(amounts.size, np.nan)
        np.divide(np.bincount(index, weights * known, minlength=amounts.size), total, out=true_mean, where=total > 0)
    return ResponseByLevel(
        amounts, table.rows, table.predicted, table.observed, table.low, table.high, true_mean, table.ece
    )


def check_index(level: ArrayLike, size: int) -> NDArray[np.intp]:
    """Level indices (N,) as integers, refused unless each lies in 0 … size − 1."""
    index = np.asarray(level)
    if index.ndim != 1 or index.dtype.kind not in "iu":
        raise InvalidInput(f"must be whole numbers (N,), got {index.dtype} {index.shape}", field="level")
    outside = (index < 0) | (index >= size)
    InvalidInput.refuse_rows(outside, f"must be an index into the {size} levels", field="level")
    return index.astype(np.intp)
