"""Share of the requests of accounts and partners that one cap grants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shadowprice.limits import Cap
from shadowprice.pacing.spend import CapUse

Real = NDArray[np.float64]

OWNERS = 4096
"""Accounts or partners on which the rate of other campaigns is fitted, at most."""

LARGE = 50.0
"""Mean from which a Poisson number is taken to be normal."""

_erf = np.frompyfunc(math.erf, 1, 1)


@dataclass(frozen=True)
class CapOwners:
    """A cap and its owners.

    share        (M,), of the requests, of each owner
    amount, uses (M,), of it in the present period by all campaigns together
    held         (M,), of an exclusive cap: positive where this campaign holds the owner, negative where another does
    rate         of other campaigns, in uses, or of an exclusive cap in owners
    amount_rate  the same in minor units
    labels       period of each slot to come
    place        (n,), owner of each column
    """

    cap: Cap
    share: Real
    amount: NDArray[np.int64]
    uses: NDArray[np.int64]
    held: NDArray[np.int64]
    rate: float
    amount_rate: float
    labels: Sequence[str]
    place: NDArray[np.intp]

    @classmethod
    def of(
        cls,
        cap: Cap,
        use: CapUse,
        names: NDArray[np.uint64],
        share: Real,
        before: float,
        labels: Sequence[str],
        place: NDArray[np.intp],
    ) -> CapOwners:
        """Join the use by owners with their requests, ``before`` of which came while the use came about."""
        amount, uses, amount_elsewhere, uses_elsewhere = use.at(names)
        mine, theirs, most = uses, uses_elsewhere, cap.count
        if cap.exclusive:
            mine, theirs, most = np.sign(uses), np.sign(uses_elsewhere), 1
        return cls(
            cap,
            share,
            amount + amount_elsewhere,
            uses + uses_elsewhere,
            np.sign(uses) - 2 * np.sign(uses_elsewhere),
            others_rate(share, mine, theirs, most, before),
            others_rate(share, amount, amount_elsewhere, cap.amount, before),
            labels,
            place,
        )

    def take(self, columns: NDArray[np.intp]) -> CapOwners:
        """Return the cap of some columns."""
        owners, place = np.unique(self.place[columns], return_inverse=True)
        kept = {name: getattr(self, name)[owners] for name in ("share", "amount", "uses", "held")}
        return replace(self, place=place, **kept)

    def granted(
        self, ahead: Real, weight: Real, uses: Real, is_paid: NDArray[np.bool_], chance: Real, cost: Real
    ) -> Real:
        """(n,): the share of each column's paid requests that the cap grants, in the first slots.

        Args:
            ahead: requests expected in each of these slots.
            weight: (n,), of the requests, of each column.
            uses: (n,), the part of it that would use the cap.
            is_paid: (n,), whether the column is chosen to be paid; it counts itself in any case.
            chance: (n,), that a grant is paid.
            cost: (n,), minor units that it then costs.
        """
        place, whole = self.place, np.bincount(self.place, weight)
        scale = np.divide(self.share, whole, out=np.zeros(whole.size), where=whole > 0)[place]

        def of_owner(each: Real) -> Real:
            return scale * (np.bincount(place, np.where(is_paid, each, 0.0))[place] + np.where(is_paid, 0.0, each))

        own, money = of_owner(uses), of_owner(uses * chance * cost)
        labels = np.array(self.labels[: ahead.size])
        total_share = np.zeros(chance.size)
        for number, label in enumerate(dict.fromkeys(labels.tolist())):
            later = float(ahead[labels == label].sum())
            total_share += later * self._in_period(later, own, money / cost, cost, fresh=number > 0)
        total = float(ahead.sum())
        return total_share / total if total > 0 else np.ones(chance.size)

    def _in_period(self, later: float, asks: Real, pays: Real, cost: Real, *, fresh: bool) -> Real:
        """(n,): the same of ``later`` requests in one period; ``fresh`` ones are not used yet."""
        cap, place, own = self.cap, self.place, asks * later
        held = np.zeros(place.size) if fresh else self.held[place]
        # While this campaign holds an owner of an exclusive cap, no other uses the cap.
        beside = self.share[place] * later * (np.where(held > 0, 0.0, 1.0) if cap.exclusive else 1.0)
        others = self.rate * beside
        granted = np.ones(own.size)
        if cap.exclusive:
            granted = np.where(held < 0, 0.0, exclusive_share(own, others))
        if cap.count is not None:
            left = np.maximum(cap.count - (np.zeros(own.size) if fresh else self.uses[place]), 0.0)
            granted = np.minimum(granted, _share_of_first(own + others, left))
        if cap.amount is not None:
            rest = np.maximum(cap.amount - (np.zeros(own.size) if fresh else self.amount[place]), 0.0)
            payments = pays * later + self.amount_rate * beside / cost
            granted = np.minimum(granted, _share_of_first(payments, np.floor(rest / cost)))
        return np.where(self.share[place] > 0, granted, 1.0)


def others_rate(
    share: Real, own: NDArray[np.int64], elsewhere: NDArray[np.int64], limit: int | None, before: float
) -> float:
    """Return the use of a cap by other campaigns, per request of this one: that of an owner is rate · s · requests.

    Args:
        share: (M,), share s of the requests of each owner.
        own, elsewhere: (M,), use of each owner so far by this campaign, and by the others.
        limit: the most that one owner can use; None without.
        before: requests of this campaign in the time in which this use came about.

    The use of all campaigns together is taken to be Poisson with the mean γ·s of each owner, cut at the limit; γ is
    fitted to the sum, so that owners that have reached the limit do not make it smaller. The others have their share
    of it. O(OWNERS).
    """
    total, foreign = float(own.sum() + elsewhere.sum()), float(elsewhere.sum())
    if foreign <= 0 or before <= 0:
        return 0.0
    ordered = np.sort(share)[:: -(-share.size // OWNERS)]
    times = share.size / ordered.size

    def used(mean: float) -> float:
        means = mean * ordered
        return times * float(np.sum(means if limit is None else _cut(means, limit)))

    low, high = total, 2.0 * total
    while used(high) < total and high < 1e6 * total:
        low, high = high, 2.0 * high
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if used(middle) < total else (low, middle)
    return foreign / total * high / before


def exclusive_share(own: Real, others: Real) -> Real:
    """Share of its own requests that a campaign answers of owners that belong to the first campaign that answers them.

    With Poisson streams of the means a and b, and c = a + b: 1 − b/c · (1 − (1 − exp(−c))/c).

    Example:
        >>> exclusive_share(np.array([1.0, 50.0]), np.array([0.0, 50.0])).round(3)
        array([1.   , 0.505])
    """
    combined = np.maximum(own + others, 1e-9)
    return np.asarray(1.0 - others / combined * (1.0 + np.expm1(-combined) / combined))


def _cut(mean: Real, limit: int) -> Real:
    # The number of minor units is no Poisson number; above LARGE its spread is small beside the mean.
    return poisson_capped_mean(mean, limit) if limit <= LARGE else np.minimum(mean, float(limit))


def _share_of_first(mean: Real, most: Real) -> Real:
    """E[min(K, most)]/E[K] of a Poisson number K: the share of all uses that are among the first ``most``."""
    some = np.maximum(mean, 1e-9)
    return np.asarray(np.minimum(poisson_capped_mean(some, most) / some, 1.0))


def poisson_capped_mean(mean: Real, most: Real | float) -> Real:
    """E[min(K, most)] of a Poisson number K, elementwise: the sum of P(K > k) over k < most; normal above LARGE."""
    mean, limit = np.broadcast_arrays(np.asarray(mean, dtype=np.float64), np.asarray(most, dtype=np.float64))
    small = np.minimum(mean, LARGE)
    mass = np.exp(-small)
    above = 1.0 - mass
    capped = np.where(limit > 0, above, 0.0)
    for k in range(1, int(min(limit.max(initial=0.0), LARGE + 12 * math.sqrt(LARGE)))):
        if not np.any(above > np.finfo(np.float64).eps):
            break
        mass = mass * small / k
        above = np.maximum(above - mass, 0.0)
        capped += np.where(limit > k, above, 0.0)
    large = mean > LARGE
    if large.any():
        above, deviation = limit[large] - mean[large], np.sqrt(mean[large])
        z = above / deviation
        below = 0.5 * (1.0 + np.asarray(_erf(z / math.sqrt(2.0)), dtype=np.float64))
        density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        capped[large] = np.maximum(limit[large] - above * below - deviation * density, 0.0)
    return np.asarray(np.minimum(capped, np.minimum(mean, limit)))
