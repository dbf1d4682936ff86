"""Share of the requests to come that caps grant a level, so that prices leave out what caps forbid."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import NotCertified
from shadowprice.limits import Cap
from shadowprice.pacing.budgets.owners import CapOwners, Real
from shadowprice.pacing.spend import SpendReport
from shadowprice.policy import Choices

COLUMNS = 2048
"""Columns of a side on which a few figures are computed, at most."""
ROUNDS = 3
"""Solves of a sample that amounts of caps take."""


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
        self._caps: list[CapOwners] = []
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
            self._caps.append(CapOwners.of(cap, use, names, share, before, labels[max(slot, 0) :], place))

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
