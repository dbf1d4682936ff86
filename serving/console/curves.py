"""Response curves of the accounts by group, and the responses of explored requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side, Terms
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.means import wilson
from shadowprice.pacing.population import SideAccounts

ROWS = 20_000
"""Accounts that the groups are made of, at most."""
GROUPS = ("moved least", "moved little", "moved more", "moved most")
"""Quarters of the accounts by what an incentive adds to their response: see :func:`moved`."""
BAND = (0.1, 0.9)
"""Quantiles of the accounts of a group that its band lies between."""
LEVEL = 0.95
"""Probability of the intervals of explored requests."""
Real = NDArray[np.float64]
Seen = Mapping[int, tuple[Estimate, int]]
"""level → mean response of explored requests with its interval, and their number."""


@dataclass(frozen=True, eq=False)
class GroupCurve:
    """Curves of one group of accounts, and the responses of its explored requests.

    mean, low, high  (J,), expected response at each level: the mean and the quantiles of :data:`BAND`
    rate             (J,), mean rate per minor unit of the segment that ends at each level; see :func:`rates`
    requests         share of the side's requests
    seen, seen_rate  the same of explored requests, with intervals; levels that nobody explored are left out
    """

    name: str
    mean: Real
    low: Real
    high: Real
    rate: Real
    requests: float
    seen: Seen
    seen_rate: Mapping[int, Estimate]


@dataclass(frozen=True, eq=False)
class SideCurves:
    """Curves of one side by group. ``explored`` counts the requests whose level was drawn at random."""

    side: Side
    levels: tuple[int, ...]
    groups: tuple[GroupCurve, ...]
    explored: int


def side_curves(side: Side, people: SideAccounts, campaign: Campaign, explored: pd.DataFrame | None) -> SideCurves:
    """Group the accounts of a side.

    Args:
        side: of the market.
        people: its accounts.
        campaign: its terms.
        explored: sums of the explored requests (:meth:`~serving.console.log.DecisionLog.explored`), None without a log.

    O(J · 20,000 log 20,000 + accounts).
    """
    few = people.curves.sample(ROWS)
    response, shares = np.asarray(few.response, dtype=np.float64), few.shares()
    terms = campaign.terms(side)
    edges = np.quantile(moved(response, terms), (0.25, 0.5, 0.75))
    group, levels = np.searchsorted(edges, moved(response, terms), side="right"), terms.levels
    own = None if explored is None else explored[(explored["side"] == side) & (explored["level"] >= 0)]
    if own is not None and len(own):
        place = pc.index_in(pa.array(own["account_id"].astype(str)), value_set=people.account_id)
        own = own[place.is_valid().to_numpy(zero_copy_only=False)]
        theirs = people.curves.take(place.drop_null().to_numpy()).response.astype(np.float64)
        own = own.assign(group=np.searchsorted(edges, moved(theirs, terms), side="right"))
    groups = []
    for place_, name in enumerate(GROUPS):
        mine = group == place_
        if not mine.any():
            continue
        weight = shares[mine] / shares[mine].sum() if shares[mine].sum() > 0 else np.full(mine.sum(), 1 / mine.sum())
        seen = {} if own is None or not len(own) else _seen(side, own[own["group"] == place_])
        low, high = np.quantile(response[:, mine], BAND, axis=1)
        groups.append(
            GroupCurve(
                name,
                response[:, mine] @ weight,
                low,
                high,
                rates(side, response[:, mine], levels) @ weight,
                float(shares[mine].sum()),
                seen,
                _seen_rates(side, seen, levels),
            )
        )
    return SideCurves(
        side, levels, tuple(groups), sum(n for group_curve in groups for _, n in group_curve.seen.values())
    )


def moved(response: Real, terms: Terms) -> Real:
    """Return (N,) the response that the largest incentive adds; of levels without an order, the one that adds most."""
    return np.asarray((response[-1] if terms.ordered else response.max(axis=0)) - response[0])


def rates(side: Side, response: Real, levels: tuple[int, ...]) -> Real:
    """Return (J, N) rates per minor unit in the segment that ends at each level; NaN for a first level of 0.

    Of a customer the hazard of a response, −Δ log(1 − F) / Δr. Of a merchant, whose response is a ratio and no
    probability, the response that a minor unit more adds, ΔF / Δr; NaN at the first level.
    """
    width = np.diff(np.asarray(levels, dtype=np.float64), prepend=0.0)[:, None]
    if side == "customer":
        steps = np.diff(_scale(side, response), axis=0, prepend=0.0)
    else:
        steps = np.diff(response, axis=0, prepend=np.nan)
    rate: Real = np.divide(steps, width, out=np.full(response.shape, np.nan), where=width > 0)
    return rate


def _scale(side: Side, response: Real) -> Real:
    """Cumulative hazard of a customer's response; the response itself of a merchant."""
    return -np.log1p(-np.clip(response, 0.0, 1.0 - 1e-7)) if side == "customer" else response


def _seen(side: Side, rows: pd.DataFrame) -> Seen:
    """Mean responses by level: of customers with Wilson's interval, of merchants with that of a mean.

    The level of an explored request does not depend on its account, so the mean is unbiased. A request without an
    outcome counts as no response, so the youngest hours are too low.
    """
    seen: dict[int, tuple[Estimate, int]] = {}
    for level, sums in rows.groupby("level")[["requests", "responses", "squares"]].sum().iterrows():
        count, mean = int(sums["requests"]), float(sums["responses"] / sums["requests"])
        if side == "customer":
            estimate = wilson(mean, count, LEVEL)
        else:
            variance = (sums["squares"] - count * mean**2) / (count - 1) if count > 1 else np.nan
            half = _Z * float(np.sqrt(max(variance, 0.0) / count)) if count > 1 else np.nan
            estimate = Estimate(mean, mean - half, mean + half, LEVEL)
        seen[int(str(level))] = estimate, count
    return seen


def _seen_rates(side: Side, seen: Seen, levels: tuple[int, ...]) -> dict[int, Estimate]:
    """Rates between explored levels that follow each other, with intervals by the delta method.

    A difference of two independent means; the error of log(1 − F̂) is that of F̂ divided by 1 − F̂.
    """
    estimates = {}
    for level, (estimate, _) in seen.items():
        before = seen[level - 1][0] if level - 1 in seen else None
        first = side == "customer" and level == 0 and levels[0] > 0
        if before is None and not first:
            continue
        ends = [part for part in (estimate, before) if part is not None]
        if side == "customer" and any(end.value >= 1 for end in ends):
            continue
        slope = [1 / (1 - end.value) if side == "customer" else 1.0 for end in ends]
        width = float(levels[level] - (levels[level - 1] if before is not None else 0))
        half = float(np.hypot.reduce([s * (e.high - e.low) / 2 for s, e in zip(slope, ends, strict=True)]))
        at = [float(_scale(side, np.array(end.value))) for end in ends]
        value = at[0] - (at[1] if before is not None else 0.0)
        estimates[level] = Estimate(value / width, (value - half) / width, (value + half) / width, LEVEL)
    return estimates


_Z = NormalDist().inv_cdf((1 + LEVEL) / 2)
