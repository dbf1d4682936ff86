"""Response curves of the accounts by group, and what explored requests show of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.means import wilson

ROWS = 20_000
"""Accounts that the groups are made of, at most."""
GROUPS = ("moved least", "moved little", "moved more", "moved most")
"""Quarters of the accounts by what the largest incentive adds to their response."""
BAND = (0.1, 0.9)
"""Quantiles of the accounts of a group that its band lies between."""


@dataclass(frozen=True, eq=False)
class GroupCurve:
    """Curves of one group of accounts.

    mean, low, high  float64 (J,), expected response at each level: the mean and the quantiles of :data:`BAND`
    hazard           float64 (J,), mean hazard of a response per minor unit in the segment that ends at each level
    requests         share of the side's requests
    """

    name: str
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    hazard: NDArray[np.float64]
    requests: float


@dataclass(frozen=True, eq=False)
class SideCurves:
    """Curves of one side by group, and the responses of requests whose level was drawn at random.

    seen  level → mean response of explored requests with its interval, and their number; of a ratio no interval
    """

    side: Side
    levels: tuple[int, ...]
    groups: tuple[GroupCurve, ...]
    seen: dict[int, tuple[Estimate, int]]


def side_curves(side: Side, curves: Curves, campaign: Campaign, cells: pd.DataFrame | None) -> SideCurves:
    """Group the curves of a side.

    Args:
        side: of the market.
        curves: of its accounts.
        campaign: its terms.
        cells: of the decision log, None without one.

    O(J · 20,000 log 20,000).
    """
    few = curves.sample(ROWS)
    response, shares = np.asarray(few.response, dtype=np.float64), few.shares()
    added = response[-1] - response[0]
    edges = np.quantile(added, (0.25, 0.5, 0.75))
    group = np.searchsorted(edges, added, side="right")
    levels = campaign.terms(side).levels
    found = []
    for place, name in enumerate(GROUPS):
        mine = group == place
        if mine.any():
            found.append(_group(name, response[:, mine], shares[mine], levels))
    return SideCurves(side, levels, tuple(found), {} if cells is None else _seen(side, cells))


def _group(
    name: str, response: NDArray[np.float64], shares: NDArray[np.float64], levels: tuple[int, ...]
) -> GroupCurve:
    weight = shares / shares.sum() if shares.sum() > 0 else np.full(shares.size, 1 / shares.size)
    low, high = np.quantile(response, BAND, axis=1)
    survival = -np.log1p(-np.clip(response, 0.0, 1.0 - 1e-7))
    width = np.diff(np.asarray(levels, dtype=np.float64), prepend=0.0)
    steps = np.diff(survival, axis=0, prepend=0.0) @ weight
    hazard = np.divide(steps, width, out=np.full(width.size, np.nan), where=width > 0)
    return GroupCurve(name, response @ weight, low, high, hazard, float(shares.sum()))


def _seen(side: Side, cells: pd.DataFrame) -> dict[int, tuple[Estimate, int]]:
    """Responses of explored requests by level. Their level depends on nothing, so their mean is unbiased.

    A request without an outcome counts as no response, so the youngest hours are too low.
    """
    drawn = cells[(cells["side"] == side) & (cells["reason"] == "explored") & (cells["level"] >= 0)]
    sums = drawn.groupby("level")[["requests", "responses"]].sum()
    found: dict[int, tuple[Estimate, int]] = {}
    for level, row in sums.iterrows():
        count, mean = int(row["requests"]), float(row["responses"] / row["requests"])
        # A customer redeems or does not; a merchant's response is a ratio, whose deviation the sums do not tell.
        binary = side == "customer" and 0 <= mean <= 1
        found[int(str(level))] = (wilson(mean, count) if binary else Estimate(mean, np.nan, np.nan), count)
    return found
