"""Amounts of a side's orders by its log, where no model has learned them by account."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.learning.guards import fitted_guards, means_of
from shadowprice.learning.training_set import TrainingSet

STEPS, CLOSE = 1000, 1e-9
LOG_SQRT_2PI = np.log(np.sqrt(2 * np.pi))
LEAST_DEVIATION = 1e-6


def amounts_of_side(rows: pd.DataFrame) -> NDArray[np.float32] | None:
    """Return mean and deviation (2,) of the log amount of the responses of a side with levels in percent.

    By maximum likelihood of a lognormal distribution. An amount that is not logged is known by what was paid: as large
    as that of its part; at least that of the cap; or below the least spend where nothing was paid (EM for a censored
    normal, Dempster, Laird and Rubin 1977).

    Args:
        rows: with ``amount``, and ``amount_least`` or ``amount_most`` where it is censored, minor units
            (:func:`shadowprice.tables.views.labels_query`).

    Returns:
        None where the side has no such columns, or no response with an amount.
    """
    if "amount_least" not in rows:
        return None
    known, least, most = (rows[name].to_numpy(dtype=np.float64) for name in ("amount", "amount_least", "amount_most"))
    log, above, below = (np.log(each[each > 0]) for each in (known, least, most))
    if not log.size:
        return None
    mean, deviation = float(log.mean()), max(float(log.std()), LEAST_DEVIATION)
    n = log.size + above.size + below.size
    for _ in range(STEPS if n > log.size else 0):
        first, second = float(log.sum()), float((log**2).sum())
        for bound, side in ((above, 1.0), (below, -1.0)):
            z = (bound - mean) / deviation
            # Mills' ratio, by logarithms: a bound may be far from the mean.
            ratio = side * np.exp(-(z**2) / 2 - LOG_SQRT_2PI - special.log_ndtr(-side * z))
            first += float((mean + deviation * ratio).sum())
            second += float((mean**2 + 2 * mean * deviation * ratio + deviation**2 * (1 + z * ratio)).sum())
        before = mean, deviation
        mean = first / n
        deviation = max(float(np.sqrt(max(second / n - mean**2, 0.0))), LEAST_DEVIATION)
        if abs(mean - before[0]) + abs(deviation - before[1]) < CLOSE:
            break
    return np.array([mean, deviation if n > 1 else 0.0], dtype=np.float32)


def fitted_amounts(data: TrainingSet, *splits: str) -> dict[Side, NDArray[np.float32]]:
    """Side → :func:`amounts_of_side` of its rows in the splits; sides without are left out."""
    found = {side: amounts_of_side(rows) for side, rows in data.part(*splits).items()}
    return {side: amounts for side, amounts in found.items() if amounts is not None}


def with_amounts(
    data: TrainingSet, curves: Mapping[Side, Curves], splits: tuple[str, ...] = ("train", "validation")
) -> dict[Side, Curves]:
    """Return the curves with amounts and second outcomes of their side by the splits, where they have none."""
    fitted, guards = fitted_amounts(data, *splits), fitted_guards(data, *splits)
    curves = {
        side: replace(own, guards=means_of(guards[side])) if not own.guards and guards[side] else own
        for side, own in curves.items()
    }
    return {
        side: replace(own, amounts=np.broadcast_to(fitted[side][:, None], (2, own.accounts)))
        if own.amounts is None and side in fitted
        else own
        for side, own in curves.items()
    }
