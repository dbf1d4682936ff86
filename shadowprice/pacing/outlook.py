"""Forecast of the spend of the rest of a window at today's price, with an interval from the hours so far."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import special

from shadowprice.price import PriceRecord

LEAST_STEPS = 3
"""Steps from price to price that an interval needs."""


@dataclass(frozen=True, eq=False)
class Outlook:
    """Money paid by each moment to come.

    at        float64 (K,), hours since the window opened, the first that of the newest price
    expected  float64 (K,), minor units, low and high its interval at ``level``
    steps     from price to price that it was learned from
    """

    at: NDArray[np.float64]
    expected: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    level: float
    steps: int


def outlook(records: Sequence[PriceRecord], limit: float = math.inf, level: float = 0.95) -> Outlook | None:
    """Forecast the spend of the rest of the newest plan; None before :data:`LEAST_STEPS` steps.

    Each step from one price to the next has a ratio of what was paid to what its plan had. The mean ratio r of n steps
    scales the rest of the newest plan, x = Σ x_h. Ratios are taken to be independent with one deviation s, so the
    interval of a sum is that of a prediction: ± t(n − 1) · s · √(Σ x_h² + x²/n). Longer steps count as the hours that
    they have. The hard stop cuts everything at the limit.

    The price is held fixed: a new price moves the spend back to the budget, so the end of the window is nearer to the
    plan than this interval is wide.

    Args:
        records: prices of one window, the oldest first.
        limit: of the budget, minor units.
        level: of the interval.

    O(steps + hours).
    """
    window = [record for record in records if len(record.plan) > 1]
    planned, paid = [], []
    for before, after in pairwise(window):
        due = before.planned(after.at) - before.plan[0]
        if after.at > before.at and due > 0:
            planned.append(due)
            paid.append(after.plan[0] - before.plan[0])
    if len(planned) < LEAST_STEPS:
        return None
    ratio = np.array(paid) / np.array(planned)
    mean, deviation, n = float(ratio.mean()), float(ratio.std(ddof=1)), ratio.size
    newest = window[-1]
    ends = [newest.at, *(max(newest.slot, 0) + 1.0 + hour for hour in range(len(newest.plan) - 1))]
    steps = np.diff(newest.plan)
    total = np.concatenate([[0.0], np.cumsum(steps)])
    squares = np.concatenate([[0.0], np.cumsum(steps**2)])
    half = float(special.stdtrit(n - 1, (1 + level) / 2)) * deviation * np.sqrt(squares + total**2 / n)
    # Corrections that take money back are rare: what is paid by an hour is paid by the next, so a lower limit holds
    # for all later hours.
    expected, low, high = (
        np.clip(newest.plan[0] + more, newest.plan[0], max(limit, newest.plan[0]))
        for more in (mean * total, mean * total - half, mean * total + half)
    )
    return Outlook(np.array(ends), expected, np.maximum.accumulate(low), high, level, n)
