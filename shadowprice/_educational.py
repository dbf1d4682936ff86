"""The method in sixty lines of numpy: curves, the price of money, decisions, and a day of pacing.

Read this first. The library does the same exactly, at the speed of memory and for any number of limits; a test shows
that both find the same price. Shapes: J levels by N requests; money in minor units.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
TIE = 1e-9
"""Scores that differ by less, as a share of their terms, are equal."""


def fit_curves(level: NDArray[np.int64], response: Array, group: NDArray[np.int64], levels: int) -> Array:
    """Mean response (J, groups) of a trial's rows (n,) by level and group, made to rise with the level."""
    mean = np.array([[response[(level == j) & (group == g)].mean() for g in np.unique(group)] for j in range(levels)])
    return np.asarray(np.maximum.accumulate(mean, axis=0))


def best(value: Array, cost: Array, price: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Cheapest and dearest (N,) of the levels with the largest ``value − price·cost``."""
    score = value - price * cost
    tied = score >= score.max(axis=0) - TIE * (np.abs(value) + price * np.abs(cost))
    return np.where(tied, cost, np.inf).argmin(axis=0), np.where(tied, cost, -np.inf).argmax(axis=0)


def spent(cost: Array, level: NDArray[np.intp]) -> float:
    """Expected cost of one level for each request."""
    return float(np.take_along_axis(cost, level[None], axis=0).sum())


def find_price(value: Array, cost: Array, budget: float) -> tuple[float, float]:
    """The lowest price at which the budget suffices, and the share of tied requests that get the dearer level.

    Spend falls as the price rises, in steps, and only where a request changes its level: at a slope
    (v_j − v_k) / (c_j − c_k). The price that solves the linear program is therefore one of the slopes, or 0.
    """
    worth, paid = value[:, None] - value[None], cost[:, None] - cost[None]
    prices = np.unique(np.append(worth[(paid > 0) & (worth > 0)] / paid[(paid > 0) & (worth > 0)], 0.0))
    low, high = -1, prices.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = spent(cost, best(value, cost, prices[middle])[0]) <= budget
        low, high = (low, middle) if fits else (middle, high)
    cheap, dear = (spent(cost, level) for level in best(value, cost, prices[high]))
    share = (budget - cheap) / (dear - cheap) if prices[high] > 0 and dear > cheap else 0.0
    return float(prices[high]), float(np.clip(share, 0.0, 1.0))


def decide(value: Array, cost: Array, price: float, tie_share: float, draw: Array) -> NDArray[np.intp]:
    """One level (N,) for each request; ``draw`` (N,) in [0, 1) resolves ties."""
    cheap, dear = best(value, cost, price)
    return np.where(draw < tie_share, dear, cheap)


def pace(curve: Array, levels: Array, budget: float, arrivals: list[int], random: np.random.Generator) -> Array:
    """Spend (hours,) of a day: every hour the price of the money left is solved again for the requests to come."""
    left, paid = budget, np.zeros(len(arrivals))
    for hour, count in enumerate(arrivals):
        share = curve.shape[1] / sum(arrivals[hour:])
        price, tie_share = find_price(curve, levels[:, None] * curve, left * share)
        asked = curve[:, random.integers(0, curve.shape[1], count)]
        level = decide(asked, levels[:, None] * asked, price, tie_share, random.random(count))
        responds = random.random(count) < asked[level, np.arange(count)]
        paid[hour] = levels[level][responds].sum()
        left = max(left - paid[hour], 0.0)
    return paid
