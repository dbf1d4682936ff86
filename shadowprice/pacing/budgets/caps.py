"""Share of the requests to come that caps grant a level, so that prices leave out what caps forbid."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import NotCertified
from shadowprice.limits import Cap
from shadowprice.pacing.spend import CapUse, SpendReport
from shadowprice.policy import Choices

Real = NDArray[np.float64]

COLUMNS = 2048
"""Columns of a side on which a few figures are computed, at most."""
ROUNDS = 3
"""Solves of a sample that amounts of caps take."""
OWNERS = 4096
"""Accounts or partners on which the rate of other campaigns is fitted, at most."""
LARGE = 50.0
"""Mean from which a Poisson number is taken to be normal."""
_erf = np.frompyfunc(math.erf, 1, 1)


class CapsAhead:
    """Effect of a campaign's caps on the requests of one side to come.

    Args:
        campaign: its caps.
        side: of the curves.
        curves: (J, N), of all accounts that ask, with their owners (:meth:`Coverage.mark`).
        spend: requests so far, and the use of each cap by its owners.
        ahead: (slots,), requests expected in the rest of this slot and in each later one.
        slot: of the first entry.
        at: hours since the window opened; the start of the slot when None.
        shares: float64 (2, N), share of the side's requests that account and partner of each column make; by default
            their share of the columns' weight.

    An owner is an account, or a partner. One that makes the share s of the requests, of which the part p is chosen to
    be paid, uses a cap a Poisson number of times in a period, with the mean a = s·p·n. Other campaigns that share the
    cap use it at a rate of their own, with the mean b (:func:`others_rate`). Both have what the cap leaves the owner
    now, and the whole cap in later periods:

    - A count that leaves r grants a/(a + b) · E[min(K, r)] requests, K Poisson with the mean a + b.
    - An amount that leaves A grants ⌊A/c⌋ payments of c. The number of own payments has the mean a·f, where f is the
      chance that a grant is paid. What is chosen is that at the prices (:func:`counting_prices`).
    - An owner of an ``exclusive`` cap that another campaign holds is granted nothing, one that this campaign holds
      everything. One that is free belongs to the campaign that is first (:func:`exclusive_share`).

    Each level that costs something counts for the same share g of the requests, so it is chosen at the same prices as
    by the decision rule, which knows no caps. One column is the linear program with the limit Σ x_paid ≤ g of its
    account, so the solve stays exact.

    Raises:
        NotCertified: the spend does not tell the use of a cap.
    """

    def __init__(
        self,
        campaign: Campaign,
        side: Side,
        curves: Curves,
        spend: SpendReport,
        ahead: Real,
        slot: int,
        at: float | None = None,
        shares: Real | None = None,
    ) -> None:
        self._campaign, self._side, self._curves, self._ahead = campaign, side, curves, ahead
        self._caps: list[_Cap] = []
        if curves.owners is None or not curves.accounts:
            return
        for cap in campaign.limits.caps:
            if cap.side not in (None, side):
                continue
            use = spend.caps.get(cap.name)
            if use is None:
                raise NotCertified(f"the spend does not tell the use of cap {cap.name!r}; upgrade the ledger")
            labels = _labels(campaign, cap, slot, ahead.size)
            before = _before(spend.requests.get(side, 0), ahead, slot, at, labels, use.hours)
            of = int(cap.per == "partner")
            names, first, place = np.unique(curves.owners[of], return_index=True, return_inverse=True)
            weight = curves.shares()
            asks = np.bincount(place, weight).astype(np.float64) if shares is None else shares[of][first]
            share = np.where(names == 0, 0.0, asks)
            self._caps.append(_Cap.of(cap, use, names, share, before, labels[max(slot, 0) :], place))

    @property
    def reads_prices(self) -> bool:
        """Return whether the grants depend on the levels that are chosen, of this account or of a partner's others."""
        return any(cap.cap.amount is not None or cap.cap.per == "partner" for cap in self._caps)

    def sample(self, rows: int) -> CapsAhead:
        """Return at most ``rows`` of the columns, evenly spaced, of owners with the requests of all columns."""
        some = np.arange(self._curves.accounts)[:: max(-(-self._curves.accounts // rows), 1)]
        sampled = copy(self)
        sampled._curves = self._curves.take(some)
        sampled._caps = [cap.take(some) for cap in self._caps]
        return sampled

    def curves(self, prices: Mapping[str, float]) -> Curves:
        """Return the curves with ``granted`` (J, N), as they are without caps. O(caps · J · N)."""
        if not self._caps:
            return self._curves
        free = np.array(self._campaign.terms(self._side).reserved)[:, None] == 0
        granted = np.where(free, 1.0, self._granted(self._ahead, self._chosen(prices)))
        return replace(self._curves, granted=granted.astype(np.float32), owners=None)

    def share(self, chosen: NDArray[np.integer[Any]]) -> Real:
        """(N,): the share g of the requests that caps grant where a policy gives each column a level; 1 of a free one.

        O(caps · N).
        """
        free = np.array(self._campaign.terms(self._side).reserved)[chosen] == 0
        return np.where(free, 1.0, self._granted(self._ahead, chosen.astype(np.intp)))

    def profile(self, prices: Mapping[str, float]) -> Real:
        """(slots,): share of the money to come that is spent in each slot, which sums to 1.

        Requests that come early find more of their caps unused, so they cost more. O(caps · N · slots).
        """
        total = float(self._ahead.sum())
        even = self._ahead / total if total > 0 else self._ahead
        if not self._caps:
            return even
        chosen = self._chosen(prices)
        curves = self._curves
        cost = self._campaign.terms(self._side).cost(curves.response, curves.amounts)
        money = cost[chosen, np.arange(chosen.size)] * curves.shares()
        until = [
            float(money @ self._granted(self._ahead[:slots], chosen)) * float(self._ahead[:slots].sum())
            for slots in range(1, self._ahead.size + 1)
        ]
        return np.maximum(np.diff(until, prepend=0.0), 0.0) / until[-1] if until[-1] > 0 else even

    def _chosen(self, prices: Mapping[str, float]) -> NDArray[np.intp]:
        """(N,): the level that the decision rule chooses."""
        campaign, curves = self._campaign, self._curves
        allowed = None if curves.allowed is None else curves.allowed | ~curves.allowed.any(axis=0)
        choices = Choices.marked(campaign, self._side, replace(curves, allowed=allowed))
        at = [prices.get(name, 0.0) for name in campaign.priced]
        return choices.decide(at, 0.0, range(curves.accounts)).level.astype(np.intp)

    def _granted(self, ahead: Real, chosen: NDArray[np.intp]) -> Real:
        """(N,): the share g of the requests in the first slots; of a column with a free level that of the lowest paid.

        A request is granted by the caps of its account and by those of its partner, which it uses only then.
        """
        terms, response = self._campaign.terms(self._side), self._curves.response
        reserved, weight = np.array(terms.reserved, dtype=np.float64), self._curves.shares()
        is_paid = reserved[chosen] > 0
        level = np.where(is_paid, chosen, int(np.argmax(reserved > 0)))
        columns = np.arange(level.size)
        one = np.broadcast_to(terms.expected_unit_costs(self._curves.amounts), response.shape)[level, columns]
        cost = np.maximum(terms.most_units * one, 1.0)
        own = response[level, columns].astype(np.float64)
        chance = np.maximum(terms.paid_units(own) / terms.most_units, 1e-9)
        granted = np.ones(level.size)
        for per in ("account", "partner"):
            uses = weight * granted
            tightest = np.ones(level.size)
            for cap in self._caps:
                if cap.cap.per == per:
                    tightest = np.minimum(tightest, cap.granted(ahead, weight, uses, is_paid, chance, cost))
            granted = granted * tightest
        return granted


def counting_prices(
    caps: Mapping[Side, CapsAhead],
    prices: Mapping[str, float],
    solve: Callable[[Mapping[Side, Curves]], Mapping[str, float]],
) -> dict[str, float]:
    """Return the prices at which amounts are counted: a solve with the levels that they choose returns them again.

    Args:
        caps: side → its caps.
        prices: to begin with, such as those of the newest record; empty: 0.
        solve: gives the prices of curves that are marked with what caps grant.

    Caps without an amount need no prices. Otherwise a sample of :data:`COLUMNS` columns of each side is solved
    :data:`ROUNDS` times.
    """
    newest = dict(prices)
    if any(cap.reads_prices for cap in caps.values()):
        small = {side: cap.sample(COLUMNS) for side, cap in caps.items()}
        for _ in range(ROUNDS):
            next_prices = dict(solve({side: ahead.curves(newest) for side, ahead in small.items()}))
            if not all(map(math.isfinite, next_prices.values())):
                # Infeasible, as the solve of all columns will tell.
                break
            newest = next_prices
    return newest


@dataclass(frozen=True)
class _Cap:
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
    ) -> _Cap:
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

    def take(self, columns: NDArray[np.intp]) -> _Cap:
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


def _labels(campaign: Campaign, cap: Cap, slot: int, slots: int) -> list[str]:
    """Period of a cap in each slot of the window until the last of ``slots`` slots to come."""
    hours = range(max(slot, 0) + slots)
    return [campaign.limits.period_of(cap, campaign.starts_at + timedelta(hours=hour)) for hour in hours]


def _before(requests: float, ahead: Real, slot: int, at: float | None, labels: Sequence[str], hours: float) -> float:
    """Requests of this campaign in the part of the cap's present period in which others decided, ``hours`` at least.

    A time before the window has as many requests as the window has on average.
    """
    first = max(slot, 0)
    now = max(at if at is not None else float(first), 0.0)
    mine = sum(min(max(now - hour, 0.0), 1.0) for hour in range(first + 1) if labels[hour] == labels[first])
    of_window = requests * mine / now if now > 0 else 0.0
    average = (requests + float(ahead.sum())) / max(first + ahead.size, 1)
    return of_window + average * max(hours - mine, 0.0)


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
