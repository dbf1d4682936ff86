"""Estimate the prices of several limits: solve a small sample exactly, then refine on a larger one by Newton steps.

The sample's prices are those of its dual with a soft maximum that cools, found by Newton steps, and by the simplex
method where they fail. The spread of its rows' spends there, V, and the slope of spend in the prices, −H, give the
covariance of the sample's prices, H⁻¹ V H⁻¹. H is the slope of the dual smoothed by a soft maximum
(Nesterov 2005); its temperature is a typical lead of an account's best level. It needs no second sample. Newton steps
with it need only spends, which the kernel adds up at the speed of memory.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel import Tile
from shadowprice.allocation.kernel.arguments import Matrix
from shadowprice.allocation.population.population import InMemory, Population
from shadowprice.allocation.population.sampling import WIDTH, strata
from shadowprice.allocation.several_budgets.active_set import ActiveSet
from shadowprice.allocation.several_budgets.rows import Rows
from shadowprice.allocation.several_budgets.vertex import optimum

SAMPLE = 768
"""Accounts that are solved exactly to begin with."""

STEEPEST = 64.0
"""Prices of a sample are bounded by so many units of value per unit of cost, the largest entries of each."""

SOFT = 0.1
"""Share of accounts whose best level leads by less than the temperature."""

SURELY = 5.0
"""Standard errors by which a row must be slack in the sample to be left out of account."""

WARMEST, COLDEST, COOLING = 0.1, 0.005, 0.25
"""The first and the last temperature of the soft maximum, as shares of the spread of values, and each over the last."""

CLOSE = 0.02
"""Temperatures by which one more step may lower the dual of an account where the next temperature is due."""

COOLINGS = 40
"""Newton steps in all while it cools."""

STEPS = 4
"""Newton steps on a sample."""


@dataclass(frozen=True, eq=False)
class SampleEstimate:
    """A guess at the prices.

    prices    (K,)
    slope     (K, K), how much less the mean account takes of each row as the price of each rises
    variance  (K, K), covariance of the error of the mean spends at ``prices``
    used      bool (K,), rows that are not surely slack
    """

    prices: NDArray[np.float64]
    slope: Matrix
    variance: Matrix
    used: NDArray[np.bool_]

    def deviation(self, rows: Rows) -> Matrix:
        """(M, patterns): standard error of each pattern's price."""
        inverse = np.zeros_like(self.slope)
        inverse[np.ix_(self.used, self.used)] = inverted(self.slope[np.ix_(self.used, self.used)])
        spread = inverse @ self.variance @ inverse
        square = np.einsum("mpk,kl,mpl->mp", rows.loads, spread, rows.loads)
        return np.asarray(np.sqrt(np.maximum(square, 0.0)))


def estimate(population: Population, rows: Rows, near: NDArray[np.float64] | None) -> SampleEstimate:
    """Guess the prices from samples; ``near`` are prices that are expected to be close, in place of the first."""
    if not rows.count:
        return SampleEstimate(np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(0, dtype=bool))
    n = population.accounts
    size = max(int(n**0.75), 4 * SAMPLE)
    large = size <= n // 2
    tile = larger = population.sample(strata(n, size if large else SAMPLE), min(WIDTH, n))
    if large:
        # One sample is one round; what is solved exactly is a part of it.
        blocks = strata(larger.accounts // WIDTH, SAMPLE // WIDTH, width=1)
        tile = InMemory(larger).sample(blocks * WIDTH, WIDTH)
    active = ActiveSet.of(tile, rows)
    prices = _sampled(active, rows, tile.accounts / n) if near is None else np.clip(near, rows.lower, rows.upper)
    first = _statistics(active, rows, prices, rows.capacity / n)
    if not large:
        return first
    few = replace(rows, capacity=rows.capacity * (larger.accounts / n))
    sample = InMemory(larger)
    prices, _ = approach(sample, few, first)
    closer = replace(first, prices=prices, slope=_slope_among(sample, few, prices, first.deviation(rows)))
    prices, left = approach(sample, few, closer)
    variance = first.variance * (tile.accounts / larger.accounts) + np.outer(left, left)
    return replace(closer, prices=prices, variance=variance)


def _sampled(active: ActiveSet, rows: Rows, share: float) -> NDArray[np.float64]:
    """The prices of a sample that has a share of all accounts, bounded where the sample has no answer."""
    most = STEEPEST * active.worth / active.unit
    zero = np.zeros(rows.count)
    lower, upper = np.maximum(rows.lower, -most), np.minimum(rows.upper, most)
    smooth = _smoothed(active, rows.capacity * share, lower, upper)
    return optimum(active, rows.capacity * share, lower, upper, zero, zero).prices if smooth is None else smooth


def _smoothed(
    active: ActiveSet, capacity: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """The prices (K,) at which the dual with a soft maximum is lowest, as its temperature falls; None where Newton
    steps do not get there.

    Their distance from the sample's own prices is small against that of the sample's from the truth.
    """
    prices = np.clip(np.zeros(capacity.size), lower, upper)
    spread, mean = float(np.ptp(active.value)) or 1.0, capacity / active.accounts
    warmth, highest, move = WARMEST * spread, np.inf, np.zeros(capacity.size)
    for _ in range(COOLINGS):
        score = active.score(prices)
        soft, taken, slope = _soft(active, score, warmth)
        dual = active.worth * soft + float(prices @ mean)
        if not dual <= highest:
            # The step went too far: half of it back.
            move = 0.5 * move
            prices = np.clip(prices - move, lower, upper)
            continue
        move = step(slope, taken - mean, lower - prices, upper - prices)
        if not np.isfinite(move).all():
            return None
        close = float(np.abs(move @ (taken - mean))) < CLOSE * warmth * active.worth
        prices = np.clip(prices + move, lower, upper)
        if close and warmth <= COLDEST * spread:
            return prices
        warmth, highest = (COOLING * warmth, np.inf) if close else (warmth, dual)
    return None


def approach(
    population: Population, rows: Rows, guess: SampleEstimate, close: float = 0.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Newton steps towards the prices at which the rows are used up.

    ``close``: the steps end when a step moves each pattern's price by less than this share of it.

    Returns the best prices seen, and the mean excess per account at them of the rows that should be used up.
    """
    prices, best, least = guess.prices, guess.prices, np.inf
    residual = np.zeros(rows.count)
    for _ in range(STEPS):
        over = (spend(population, rows, prices) - rows.capacity) / population.accounts
        move = step(guess.slope, over, rows.lower - prices, rows.upper - prices)
        # A row with money left has nothing to make up where its price is at its bound.
        idle = ((prices <= rows.lower) & (over < 0)) | ((prices >= rows.upper) & (over > 0))
        size = float(np.abs(move @ over))
        if size < least:
            best, least, residual = prices, size, np.where(idle, 0.0, over)
        if np.all(np.abs(rows.loads @ move) <= close * np.abs(rows.loads @ prices)):
            break
        prices = np.clip(prices + move, rows.lower, rows.upper)
    return best, residual


def step(
    slope: Matrix, over: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(K,): the Newton step against an excess ``over`` within [low, high]; what meets a bound stops there."""
    move = np.zeros(over.size)
    free = ~(((low >= 0) & (over < 0)) | ((high <= 0) & (over > 0)))
    while free.any():
        rest = over - slope[:, ~free] @ move[~free]
        move[free] = inverted(slope[np.ix_(free, free)]) @ rest[free]
        beyond = free & ((move < low) | (move > high))
        if not beyond.any():
            break
        move[beyond] = np.clip(move, low, high)[beyond]
        free &= ~beyond
    return move


def spend(population: Population, rows: Rows, prices: NDArray[np.float64]) -> NDArray[np.float64]:
    """(K,): amount that the rows take when every account is on its best level at ``prices``. One pass."""
    at = rows.prices(prices)
    scored = population.settle(rows.costs, at, at, levels=False)
    return rows.taken(scored.sums) + _spend_of(scored.open, rows, prices)


def _spend_of(tile: Tile, rows: Rows, prices: NDArray[np.float64]) -> NDArray[np.float64]:
    if not tile.accounts:
        return np.zeros(rows.count)
    active = ActiveSet.of(tile, rows)
    score = active.score(prices)
    return active.taken(score.argmax(axis=0), active.times) * active.unit


def _statistics(
    active: ActiveSet, rows: Rows, prices: NDArray[np.float64], mean: NDArray[np.float64]
) -> SampleEstimate:
    """Estimate the error of a sample's prices."""
    n, columns = active.accounts, np.arange(active.accounts)
    score = active.score(prices)
    level = score.argmax(axis=0)
    paid = np.einsum("mnk,mn->nk", active.loads[:, active.pattern], active.cost[:, level, columns])
    blocks = max(n // WIDTH, 1)
    means = paid[: blocks * WIDTH].reshape(blocks, -1, active.unit.size).mean(axis=1)
    steps = np.diff(means, axis=0)
    variance = steps.T @ steps / (2.0 * max(blocks - 1, 1) * blocks)
    error = np.sqrt(np.diag(variance))
    slope = _slope(active, score)
    slack = (mean / active.unit - paid.mean(axis=0)) * np.where(rows.upper > 0, 1.0, -1.0)
    bound = (prices <= rows.lower) | (prices >= rows.upper)
    used = ~(bound & (slack > SURELY * error))
    return SampleEstimate(prices, slope, variance * np.outer(active.unit, active.unit), used)


def _slope_among(population: InMemory, rows: Rows, prices: NDArray[np.float64], reach: Matrix) -> Matrix:
    """The slope at ``prices``, from the accounts that change their level within ``reach`` of them."""
    at = rows.prices(prices)
    tile = population.settle(rows.costs, at - reach, at + reach, levels=False).open
    active = ActiveSet.of(tile, rows)
    score = active.score(prices)
    return _slope(active, score) * (tile.accounts / population.accounts)


def _slope(active: ActiveSet, score: Matrix) -> Matrix:
    """(K, K): smoothed fall of the mean account's use of each row as each row's price rises, in the problem's units."""
    top = score.max(axis=0)
    rest = np.where(score < top, score, -np.inf).max(axis=0)
    lead = (top - rest)[np.isfinite(rest)]
    if not lead.size:
        return np.zeros((active.unit.size, active.unit.size))
    return _soft(active, score, max(float(np.quantile(lead, SOFT)), 1e-12))[2]


def _soft(active: ActiveSet, score: Matrix, warmth: float) -> tuple[float, NDArray[np.float64], Matrix]:
    """The mean soft maximum of that temperature, what the mean account then takes of each row (K,), and how much less
    as each row's price rises (K, K); the last two in the problem's units."""
    top = score.max(axis=0)
    weight = np.exp((score - top) / warmth)
    total = weight.sum(axis=0)
    weight /= total
    weighted = weight * active.cost
    mean = weighted.sum(axis=1)
    taken, slope = np.zeros(active.unit.size), np.zeros((active.unit.size, active.unit.size))
    kinds, patterns = active.loads.shape[:2]
    for m in range(kinds):
        taken += np.bincount(active.pattern, mean[m], minlength=patterns) @ active.loads[m]
        for other in range(m + 1):
            covariance = (weighted[m] * active.cost[other]).sum(axis=0) - mean[m] * mean[other]
            density = np.bincount(active.pattern, covariance, minlength=patterns) / (warmth * active.accounts)
            part = active.loads[m].T @ (density[:, None] * active.loads[other])
            slope += part if other == m else part + part.T
    soft = float((top + warmth * np.log(total)).mean())
    return (
        soft,
        taken * active.unit / active.accounts,
        np.asarray(slope * np.outer(active.unit, active.unit) / active.worth),
    )


def inverted(slope: Matrix) -> Matrix:
    """The inverse of a slope; 0 in directions in which nothing moves."""
    most = float(np.diag(slope).max(initial=0.0))
    if most == 0.0:
        return np.zeros_like(slope)
    size = np.sqrt(np.maximum(np.diag(slope), 1e-9 * most))
    units = np.outer(size, size)
    return np.asarray(np.linalg.pinv(slope / units, rcond=1e-6, hermitian=True) / units)
