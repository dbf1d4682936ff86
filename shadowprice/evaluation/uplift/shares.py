"""Shares of the levels in a log against those that its propensities plan."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from shadowprice.evaluation.statistics.groups import codes
from shadowprice.evaluation.statistics.metric import Array, as_rows

LEAST_ROWS = 30
"""Rows of a level from which its sum of inverse propensities is tested where propensities differ between rows."""
ALIKE = 1e-6
"""Relative difference of propensities that counts as none."""
CHANCE = 1e-4
"""p-value below which shares count as wrong and not as chance: it refuses one sound trial in ten thousand."""
ROUNDED = 0.02
"""Difference from 1 of the sum of propensities that counts as rounding, such as that of three times 0.33."""


@dataclass(frozen=True, eq=False)
class Shares:
    """Shares of J levels, planned and found.

    planned   (J,), by the propensities; NaN at a level without rows
    found     (J,), of the rows
    uniform   whether each level has one propensity in all rows
    drawn     whether any row had a chance of another level
    p_value   of the test that the log was drawn with these propensities; None where nothing was drawn
    partial   levels that a part of the rows had no chance of, by the sum of the inverse propensities
    """

    planned: Array
    found: Array
    uniform: bool
    drawn: bool
    p_value: float | None
    partial: tuple[int, ...] = ()


def shares(level: ArrayLike, propensity: ArrayLike, levels: int, account: ArrayLike | None = None) -> Shares:
    """Compare the shares of levels with their propensities.

    Args:
        level: (N,) index of the level given.
        propensity: (N,) probability with which that level was drawn.
        levels: J.
        account: (N,) account of each row.

    One account that keeps its level counts once. Where each level has one propensity, the test is Pearson's chi-square
    of the counts against the propensities, whose sum must be about 1; counts of accounts that return are divided by
    their design effect (Rao and Scott 1984). Elsewhere the inverse propensities of a level's rows add up to N, with
    variance Σ w·(w − 1), or to less where a part of the rows has no chance of the level. The test is that no sum is
    larger; the smallest p-value of the levels is multiplied by their number. O(N log N).

    Example:
        >>> found = shares([0] * 480 + [1] * 520, [0.5] * 1000, 2)
        >>> round(found.p_value, 3), shares([0] * 700 + [1] * 300, [0.5] * 1000, 2).p_value < 1e-9
        (0.206, True)
    """
    index = np.asarray(level, dtype=np.int64)
    chance = as_rows({"propensity": propensity})["propensity"]
    count = np.bincount(index, minlength=levels).astype(np.float64)
    inverse = np.bincount(index, 1.0 / chance, minlength=levels)
    planned = np.divide(count, inverse, out=np.full(levels, np.nan), where=inverse > 0)
    uniform = bool(np.all(np.abs(chance - planned[index]) <= ALIKE * planned[index]))
    drawn = bool((chance < 1).any())
    observed = count / max(index.size, 1)
    if not drawn or index.size < 2:
        return Shares(planned, observed, uniform, drawn, None)
    owner = np.arange(index.size) if account is None else codes(account, field="account")[0]
    if np.unique(owner * levels + index).size == np.unique(owner).size:
        first = np.unique(owner, return_index=True)[1]
        index, chance, owner = index[first], chance[first], np.arange(first.size)
    if uniform:
        return Shares(planned, observed, uniform, drawn, _pearson(index, owner, planned))
    distance = _sums(index, chance, owner, levels)
    tested = np.isfinite(distance)
    largest = float(special.ndtr(-distance[tested].max(initial=-np.inf)))
    partial = np.flatnonzero(tested & (distance < special.ndtri(CHANCE))).tolist()
    return Shares(planned, observed, uniform, drawn, min(1.0, largest * max(int(tested.sum()), 1)), tuple(partial))


def _pearson(index: NDArray[np.int64], owner: NDArray[np.intp], planned: Array) -> float:
    """p-value of the counts (J,); an unseen level has what the propensities of the others leave."""
    seen = np.isfinite(planned)
    total = float(planned[seen].sum())
    count = np.bincount(index, minlength=planned.size)[seen].astype(np.float64)
    share = planned[seen]
    if total > 1 + ROUNDED or (total < 1 - ROUNDED and seen.all()):
        return 0.0
    if total < 1 - ROUNDED:
        count, share = np.append(count, 0.0), np.append(share, 1 - total)
    if share.size < 2:
        return 1.0
    expected = index.size * share / share.sum()
    square = float(((count - expected) ** 2 / expected).sum()) / _design_effect(index, owner, planned)
    return float(special.chdtrc(share.size - 1, square))


def _design_effect(index: NDArray[np.int64], owner: NDArray[np.intp], planned: Array) -> float:
    """Mean ratio of the variance of a count by accounts to that of independent rows, at least 1."""
    rows = np.bincount(owner)
    if rows.max(initial=1) < 2:
        return 1.0
    ratios = []
    for j in np.flatnonzero(np.isfinite(planned) & (planned < 1)):
        excess = np.bincount(owner, index == j) - rows * planned[j]
        ratios.append(float(excess @ excess) / (index.size * planned[j] * (1 - planned[j])))
    return max(float(np.mean(ratios)), 1.0) if ratios else 1.0


def _sums(index: NDArray[np.int64], chance: Array, owner: NDArray[np.intp], levels: int) -> Array:
    """Distance (J,) of each level's sum of inverse propensities from N, in standard errors; NaN of few rows."""
    scores = np.full(levels, np.nan)
    for j in range(levels):
        weight = np.where(index == j, 1.0 / chance, 0.0)
        if np.count_nonzero(weight) < LEAST_ROWS:
            continue
        excess = np.bincount(owner, weight - 1.0)
        variance = max(float((weight * (weight - 1.0)).clip(0).sum()), float(excess @ excess))
        if variance > 0:
            scores[j] = (weight.sum() - index.size) / np.sqrt(variance)
    return scores
