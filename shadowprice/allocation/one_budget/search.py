"""The price of one limit by intervals: sample, score everyone at both ends, finish on the few who are unsettled.

A sample gives an interval for the price. One pass scores every account at both ends; an account with the same best
level at both cannot change in between and is added to sums. The unsettled few are a smaller problem of the same kind.
An interval that does not hold the price costs one more pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation import kernel
from shadowprice.allocation.kernel import NetCost, Scored, Tile
from shadowprice.allocation.kernel.arguments import Levels, level_type
from shadowprice.allocation.population.mapped import assign
from shadowprice.allocation.population.population import InMemory, Population
from shadowprice.allocation.population.sampling import WIDTH, block_width, error_of_mean, strata
from shadowprice.allocation.population.spend_curve import SpendCurve

EXACT = 768
"""Number of accounts that are climbed one by one; larger problems are narrowed down first."""

NARROW = 6
"""Factor by which that number rises where the price is known to lie in an interval."""

CONFIDENCE = 3.5
"""Standard errors between the sample's price and the ends of its interval: a miss costs a pass over everyone."""

CONFIDENCE_INSIDE = 2.5
"""Standard errors used in the same way among unsettled accounts, where a miss costs little."""

WARM = 300_000
"""Accounts in memory up to which a price that is expected to be close takes the place of a sample."""

SHARE = 2.0
"""Accounts of a sample over N^(2/3), at which its cost and that of the unsettled are about the same."""

FEW = 64
"""Number of accounts up to which a further pass to find ties does not pay."""

WIDENINGS = 4
"""Number of times that a sample is searched, in an interval that widens each time."""

WIDE = 4.0
"""Standard errors within which a part of a sample brackets the price of the rest."""

THINNING = 8
"""Each nested sample keeps one block in so many."""

ROUNDING = 1e-12
"""Relative slack that sums of money are allowed for floating point."""


@dataclass(frozen=True, eq=False)
class Goal:
    """One limit on a population.

    cost      net cost of a level
    member    (patterns,), 1 for patterns that the limit counts
    capacity  what the net costs may come to
    limit     what the measure in ``cost`` was multiplied by; 0 when there is none
    slack     rounding that sums of money are allowed
    """

    cost: NetCost
    member: NDArray[np.float64]
    capacity: float
    limit: float = 0.0
    slack: float = 0.0

    def less(self, sums: NDArray[np.float64]) -> Goal:
        """Remaining goal after settled accounts with these ``sums``."""
        spent = float(self.member @ sums[:, 1])
        terms = abs(spent) + 2.0 * self.limit * abs(float(self.member @ sums[:, 2]))
        slack = max(self.slack, ROUNDING * (abs(self.capacity) + terms))
        return Goal(self.cost, self.member, self.capacity - spent, self.limit, slack)

    def prices(self, price: float) -> NDArray[np.float64]:
        """(patterns,): the price each pattern sees."""
        return price * self.member


@dataclass(frozen=True, eq=False)
class Located:
    """The price of a limit.

    price    λ, or None when the interval does not hold it
    above    where price is None: whether it lies above the interval
    sums     (patterns, 4): value, net cost, measure and number of the settled accounts
    last     the accounts that remain, any of which may be tied at the price
    account  int64 (n_last,), their positions
    level    (N,): best levels at the price of all others
    passes   reads of the whole population
    """

    price: float | None
    above: bool
    sums: NDArray[np.float64]
    last: Tile
    account: NDArray[np.int64]
    level: Levels
    passes: int


def locate(
    population: Population,
    goal: Goal,
    low: float = 0.0,
    high: float = np.inf,
    *,
    near: float | None = None,
    inside: bool = False,
) -> Located:
    """Find the price of ``goal`` in [low, high].

    Args:
        population: the accounts.
        goal: the limit.
        low, high: bounds of the search.
        near: a price that is expected to be close, in place of a sample where that saves time (warm start).
        inside: the population is what a pass left unsettled.

    One pass over the population when the sample's interval holds the price, which it misses about once in
    10³ times; each miss costs a pass.
    """
    n = population.accounts
    # Inside an interval an account has an edge or two: many more are climbed in the time that narrowing takes.
    if n <= EXACT or (n <= NARROW * EXACT and high < np.inf):
        everyone = population.sample(np.zeros(1, dtype=np.int64), n)
        return _exact(everyone, goal, low, high)
    # Beyond that a sample costs less than what the wider interval of a guess leaves open, unless it has to be fetched.
    if near is not None and low < near < high and (n <= WARM or population.grain > WIDTH):
        left, right = max(low, near * 0.98), min(high, near * 1.02)
    else:
        size = sample_size(n)
        width = block_width(size, population.grain)
        tile, beside = population.survey(strata(n, size, width=width), min(width, n))
        confidence = CONFIDENCE_INSIDE if inside else CONFIDENCE
        others = n - (beside.accounts if beside else 0)
        known = KnownAccounts(beside, others) if beside else None
        left, right, _ = interval(tile, goal, goal.capacity / others, low, high, confidence, width, known)
    passes = 0
    while True:
        scored = population.settle((goal.cost,), goal.prices(left)[None], goal.prices(right)[None])
        assert scored.level is not None
        passes += 1
        rest = goal.less(scored.sums)
        poor = scored.open.accounts > 0.7 * n
        inner = (
            _exact(scored.open, rest, left, right)
            if poor
            else locate(InMemory(scored.open), rest, left, right, inside=True)
        )
        outside = inner.price is None and (right < high if inner.above else left > low)
        if not outside:
            break
        # An interval that misses twice may have no price above it: another read tells whether the limit can be met.
        if inner.above and not np.isfinite(high) and passes > 1:
            cheapest = population.cheapest(goal.cost, goal.member)
            if cheapest.spend > goal.capacity + rest.slack:
                return Located(None, True, scored.sums, inner.last, inner.account, scored.level, passes + 1)
        left, right = _shifted(left, right, low, high, inner.above, 8.0**passes)
    assign(scored.level, scored.account, inner.level)
    sums, account = scored.sums + inner.sums, scored.account[inner.account]
    return Located(inner.price, inner.above, sums, inner.last, account, scored.level, passes)


def sample_size(accounts: int) -> int:
    """Return the size of the first sample, which balances its cost against the N/√sample accounts left unsettled."""
    return max(EXACT, int(SHARE * accounts ** (2 / 3)))


@dataclass(frozen=True, eq=False)
class KnownAccounts:
    """Accounts beside a sample of ``others``: all accounts of their kind."""

    accounts: Tile
    others: int

    def beside(self, curve: SpendCurve, goal: Goal, sampled: int) -> SpendCurve:
        """Return the curve of a sample of so many with a share of what the known accounts spend."""
        return curve.beside(_all(self.accounts, goal, curve.low, curve.high), sampled / self.others)


def interval(
    tile: Tile,
    goal: Goal,
    mean: float,
    low: float,
    high: float,
    confidence: float,
    width: int = WIDTH,
    known: KnownAccounts | None = None,
) -> tuple[float, float, float]:
    """An interval within [low, high] that very likely holds the price at which the mean spend is ``mean``.

    Args:
        tile: a sample of blocks of ``width`` neighbors.
        goal: the limit.
        mean: the spend looked for, divided by the number of accounts that are not known; the known ones spend a part.
        low, high: bounds of the search.
        confidence: standard errors between the sample's price and the ends.
        width: of the blocks.
        known: accounts beside the sample.

    Returns its ends and the standard error of the sample's mean spend.
    """
    n = tile.accounts
    if n <= 2 * EXACT:
        own = _around(tile, goal, mean, low, high, width) if known is None else _all(tile, goal, low, high)
        curve = own if known is None else known.beside(own, goal, n)
        center = min(curve.price(mean * n), curve.steepest)
        spread = error_of_mean(own.each(center), width)
    else:
        # A part of every block where blocks are wide, and some of the blocks where they are not.
        wide = width > WIDTH
        narrow = max(WIDTH, width // THINNING)
        kept = np.arange(0, n // width, 1 if wide else THINNING, dtype=np.int64) * width
        part = InMemory(tile).sample(kept, narrow)
        left, right, thin = interval(part, goal, mean, low, high, confidence, narrow, known)
        for _ in range(WIDENINGS):
            scored = kernel.score(tile, goal.cost, goal.prices(left), goal.prices(right), levels=wide)
            # Of the unsettled a part is enough: what it leaves out is a small share of the sample's own error.
            every = max(1, scored.open.accounts // (2 * EXACT))
            few = scored.open.copied(np.arange(0, scored.open.accounts, every)) if every > 1 else scored.open
            settled = float(goal.member @ scored.sums[:, 1])
            own = SpendCurve.of(few, goal.cost, goal.member, left, right, settled, float(every))
            curve = own if known is None else known.beside(own, goal, n)
            # Larger blocks add less information than more blocks; the difference must be measured.
            spread = error_of_mean(_spends(tile, goal, scored), width) if wide else thin / THINNING**0.5
            reach = confidence * spread * n
            # Where an end is not inside, the part's interval was off: better seen here than after a pass over everyone.
            short = left > low and mean * n + reach >= curve.end
            if not short and (right >= high or mean * n - reach >= curve.start):
                break
            left, right = max(low, 2.0 * left - right), min(high, 2.0 * right - left)
    reach = confidence * spread * n
    left, right = curve.price(mean * n + reach), curve.price(mean * n - reach)
    # A sample that cannot meet the limit at any price shows only that the price is high.
    left = min(left, curve.steepest)
    right = right if np.isfinite(right) else 4.0 * curve.steepest
    # A small margin on both sides: the price itself is a slope, and must lie inside.
    return max(left * (1 - 1e-6), low), min(max(right * (1 + 1e-6), np.finfo(float).tiny), high), spread


def _all(tile: Tile, goal: Goal, low: float, high: float) -> SpendCurve:
    return SpendCurve.of(tile, goal.cost, goal.member, low, high)


def _around(tile: Tile, goal: Goal, mean: float, low: float, high: float, width: int) -> SpendCurve:
    """The curve of a small sample for prices that a part of its blocks makes likely, or for all."""
    n = tile.accounts
    blocks = np.arange(0, n // width, THINNING, dtype=np.int64) * width
    if blocks.size > 1 and not np.isfinite(high):
        part = SpendCurve.of(InMemory(tile).sample(blocks, width), goal.cost, goal.member, low, high)
        few = part.edges.base.size
        reach = WIDE * error_of_mean(part.each(min(part.price(mean * few), part.steepest)), width) * few
        left, right = part.price(mean * few + reach), part.price(mean * few - reach)
        if np.isfinite(right) and left < right:
            curve = SpendCurve.of(tile, goal.cost, goal.member, left, right)
            inside = reach / THINNING**0.5 * (n / few)
            if curve.start < mean * n - inside and (left == low or mean * n + inside < curve.end):
                return curve
    return _all(tile, goal, low, high)


def _spends(tile: Tile, goal: Goal, scored: Scored) -> NDArray[np.float64]:
    """(n,): about what each account takes within the price interval of a pass."""
    assert scored.level is not None
    columns = np.arange(tile.accounts)
    net: NDArray[np.float64] = goal.cost.offset[scored.level]
    for weight, plane in zip(goal.cost.weights, tile.planes, strict=True):
        net = net + weight[scored.level] * plane[scored.level, columns].astype(np.float64)
    return net if tile.pattern is None else net * goal.member[tile.pattern]


def _exact(tile: Tile, goal: Goal, low: float, high: float) -> Located:
    """Climb every account's hull and walk down to the budget."""
    curve = SpendCurve.of(tile, goal.cost, goal.member, low, high)
    slack = max(goal.slack, ROUNDING * max(abs(goal.capacity), curve.terms))
    above = curve.start > goal.capacity + slack
    price: float | None
    if above:
        price = None
    elif curve.end > goal.capacity + slack:
        price = curve.price(goal.capacity + slack)
    else:
        price = 0.0 if low == 0.0 else None
    n = tile.accounts
    if price is not None and n > FEW:
        # At the price itself only those that tie, or nearly, are unsettled.
        at = goal.prices(price)
        scored = kernel.score(tile, goal.cost, at, at)
        assert scored.level is not None
        return Located(price, False, scored.sums, scored.open, scored.account, scored.level, 1)
    level = np.zeros(n, dtype=level_type(tile.value.shape[0]))
    return Located(price, above, np.zeros((goal.member.size, 4)), tile, np.arange(n, dtype=np.int64), level, 1)


def _shifted(left: float, right: float, low: float, high: float, above: bool, times: float) -> tuple[float, float]:
    """The next interval on the side where the price is, so many times as wide."""
    width = times * (right - left)
    return (right, min(high, right + width)) if above else (max(low, left - width), left)
