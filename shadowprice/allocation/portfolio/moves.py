"""Decide which unspent budget moves between campaigns whose last unit of money returns differently."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from shadowprice.allocation.portfolio.curve import Real
from shadowprice.errors import InvalidInput

FALSE_MOVES = 0.05
"""Probability that anything moves in a run although the last unit of money returns the same in every campaign."""


class Band(NamedTuple):
    """Value of the last minor unit of a campaign, and its interval."""

    value: float
    low: float
    high: float


def bands(
    value: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    level: float,
    curve_error: ArrayLike,
    rate: float = FALSE_MOVES,
) -> tuple[Real, Real]:
    """Return simultaneous intervals, arrays (…, C), of the prices of C campaigns.

    Each covers its price with probability 1 − rate/C, so all do with 1 − rate, whatever their dependence (Bonferroni):
    where all prices are equal, two intervals are disjoint with probability ``rate`` at most. The error of the sample
    (an interval at ``level``) and that of the curves are independent. The latter is relative to the true price p, so
    the interval holds every p with |value − p| ≤ z·√(s² + (curve_error·p)²); it has no upper end where that holds for
    all large p.

    Raises:
        InvalidInput: a level or rate that is not between 0 and 1.

    Example:
        >>> low, high = bands([0.2, 0.3], [0.19, 0.29], [0.21, 0.31], 0.95, 0.0, rate=0.05)
        >>> [round(float(end), 4) for end in (high[0], low[1])]
        [0.2114, 0.2886]

    Source: Fieller (1954), whose interval of a ratio solves the same quadratic equation.
    """
    if not (0 < level < 1 and 0 < rate < 1):
        raise InvalidInput("must lie between 0 and 1", field="rate")
    mid, down, up, error = (np.asarray(given, dtype=np.float64) for given in (value, low, high, curve_error))
    wide, own = (NormalDist().inv_cdf(1 - tail / 2) for tail in (rate / mid.shape[-1], 1 - level))
    lead = 1 - (wide * error) ** 2
    ends = []
    for sample in (mid - down, up - mid):
        rest = mid**2 - (wide / own * sample) ** 2
        ends.append((rest, mid + np.sqrt(np.maximum(mid**2 - lead * rest, 0))))
    (rest, root), (_, upper) = ends
    least = np.divide(rest, root, where=root > 0, out=np.zeros_like(root))
    return least, np.divide(upper, lead, where=lead > 0, out=np.where(upper > 0, np.inf, 0.0))


@dataclass(frozen=True, kw_only=True)
class Standing:
    """State of one campaign in a run.

    price    with its simultaneous interval
    surplus  minor units that the division takes from it; ``need``: that it gives to it. One of them is 0
    """

    name: str
    price: Band
    surplus: int = 0
    need: int = 0


class Planned(NamedTuple):
    """Move of ``amount`` minor units."""

    source: Standing
    target: Standing
    amount: int


def plan_moves(standings: Sequence[Standing]) -> list[Planned]:
    """Match campaigns with a surplus to those in need, where the intervals of their prices are disjoint.

    Each campaign gives at most once, those whose last unit returns least first, to where amount times difference of the
    returns is largest: a small need at the highest return would keep a large surplus waiting. O(C²).

    Example:
        >>> spring = Standing(name="spring", price=Band(0.19, 0.17, 0.21), surplus=500)
        >>> merchants = Standing(name="merchants", price=Band(0.31, 0.28, 0.34), need=800)
        >>> [(move.source.name, move.target.name, move.amount) for move in plan_moves([merchants, spring])]
        [('spring', 'merchants', 500)]
    """
    givers = sorted((each for each in standings if each.surplus > 0), key=lambda each: (each.price.value, each.name))
    takers = sorted((each for each in standings if each.need > 0), key=lambda each: (-each.price.value, each.name))
    open_need = {taker.name: taker.need for taker in takers}
    found = []
    for giver in givers:
        offers = [
            Planned(giver, taker, min(giver.surplus, open_need[taker.name]))
            for taker in takers
            if taker.price.low > giver.price.high and open_need[taker.name] > 0
        ]
        if offers:
            best = max(offers, key=lambda offer: offer.amount * (offer.target.price.value - giver.price.value))
            found.append(best)
            open_need[best.target.name] -= best.amount
    return found
