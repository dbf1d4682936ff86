"""Outcomes of requests, drawn from known or fitted response curves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side, Terms
from shadowprice.curves import AMOUNT, Curves
from shadowprice.decision import NOTHING, uniform
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.pacing.budgets.owners import poisson_capped_mean
from shadowprice.pacing.replay.day import Day

NORMAL, TINY = NormalDist(), 1e-12
"""Distribution of a log amount, and the least share of it."""


@dataclass(frozen=True)
class NamedCurves:
    """Response curves of named accounts of one side.

    account_id  str (N,), unique
    curves      (J, N), in the same order
    """

    account_id: NDArray[np.str_]
    curves: Curves

    def __post_init__(self) -> None:
        names = np.asarray(self.account_id, dtype=np.str_)
        object.__setattr__(self, "account_id", names)
        if names.shape != (self.curves.accounts,) or np.unique(names).size != names.size:
            raise InvalidInput(f"must be {self.curves.accounts} unique names", field="account_id")

    @cached_property
    def _row(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.account_id.tolist())}

    def of(self, account_id: NDArray[np.str_]) -> Curves:
        """Curves of the given accounts (repeats allowed), or :class:`NotFound` naming the first unknown one."""
        try:
            return self.curves.take(np.array([self._row[name] for name in account_id.tolist()], dtype=np.intp))
        except KeyError as unknown:
            raise NotFound(f"no response curve for account {unknown}") from None


class Columns:
    """Dataclass whose fields are arrays (n,) of the same requests."""

    def take(self, index: NDArray[Any]) -> Self:
        """The requests at ``index`` (indices or mask)."""
        return type(self)(*(column[index] for column in vars(self).values()))

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Concatenate several batches."""
        return cls(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))


@dataclass(frozen=True)
class Outcomes(Columns):
    """Outcomes of n answered requests; arrays (n,) in order of arrival.

    request_id, account_id, side, at   as in :class:`Day`
    level              int32, index of the level given, or :data:`~shadowprice.decision.NOTHING`: no incentive, no
                       cost, and no response counted
    incentive          int64, unit cost of the level
    response           float64, redeemed 0/1 of a customer, share ratio of a merchant
    cost               int64, minor units paid
    expected_response, expected_cost   float64, their true means at that level
    worth              float64, value of a unit of response
    amount             int64, minor units of the order of a response, or of all payments of a merchant whose worth they
                       are; 0 where there is none or no law of them is known
    """

    request_id: NDArray[np.str_]
    account_id: NDArray[np.str_]
    side: NDArray[np.str_]
    at: NDArray[np.float64]
    level: NDArray[np.int32]
    incentive: NDArray[np.int64]
    response: NDArray[np.float64]
    cost: NDArray[np.int64]
    expected_response: NDArray[np.float64]
    expected_cost: NDArray[np.float64]
    worth: NDArray[np.float64]
    amount: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.at.size)


@dataclass(frozen=True)
class OutcomeModel:
    """Draws outcomes from true mean responses.

    A customer redeems with the true probability. A merchant's share count is Poisson with mean
    ``shares_before`` times the true ratio. Both are quantiles of one number that depends on the request and the seed
    alone (common random numbers). A request thus has the same luck under every policy, and a higher response never
    turns a success into a failure.

    truth          side → curves of every account that may ask, with their worth where the terms have a column of it,
                   and with the amounts of their orders where levels are in percent or their worth is the amount
    shares_before  shares of a merchant in the period before, the denominator of its ratio
    drift          (hours,), factor on every true response in each hour of the window; 1 throughout when None
    """

    campaign: Campaign
    truth: Mapping[Side, NamedCurves]
    seed: int = 0
    shares_before: int = 4
    drift: NDArray[np.float64] | None = None

    def curves(self, side: Side, account_id: NDArray[np.str_], at: NDArray[np.float64]) -> Curves:
        """True curves of requests of one side, by account and hours since the window opened; a customer's stay ≤ 1."""
        curves = self.truth[side].of(account_id)
        if self.drift is None:
            return curves
        response = curves.response * self.drift[at.astype(np.intp)].astype(np.float32)
        return replace(curves, response=np.minimum(response, np.float32(1)) if side == "customer" else response)

    @cached_property
    def _luck(self) -> dict[str, float]:
        return {}

    def _luck_of(self, request_ids: list[str]) -> NDArray[np.float64]:
        """Return the luck of requests; it is kept, as a comparison asks for it once per policy."""
        known, luck = self._luck, np.empty(len(request_ids))
        for row, name in enumerate(request_ids):
            if name not in known:
                known[name] = uniform(f"{self.seed}/{name}")
            luck[row] = known[name]
        return luck

    def expected_units(self, side: Side, mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean incentives that are paid for one answer with the given mean responses, of their shape."""
        if side == "customer":
            return mean
        most = self.shares_before * self.campaign.terms(side).most_units
        return poisson_capped_mean(self.shares_before * mean, most) / self.shares_before

    def draw(self, batch: Day, level: NDArray[np.integer]) -> Outcomes:
        """Outcomes of a batch given ``level`` (n,), indices into each side's levels or ``NOTHING``.

        Raises:
            InvalidInput: a level that the side does not have.
            NotFound: a side or an account without a true curve.
        """
        size = len(batch)
        chosen = np.asarray(level, dtype=np.int32)
        incentive = np.zeros(size, dtype=np.int64)
        mean, response, paid = np.zeros(size), np.zeros(size), np.zeros(size)
        expected_cost, worth, amount = np.zeros(size), np.zeros(size), np.zeros(size)
        strangers = set(batch.side.tolist()) - set(self.truth)
        if strangers:
            raise NotFound(f"no true response of side {sorted(strangers)}; there is one of {sorted(self.truth)}")
        for side in self.truth:
            terms = self.campaign.terms(side)
            rows = np.flatnonzero((batch.side == side) & (chosen != NOTHING))
            picked = chosen[rows]
            if np.any((picked < 0) | (picked >= len(terms.levels))):
                raise InvalidInput(f"side {side!r} has levels 0 to {len(terms.levels) - 1}", field="level")
            curves = self.curves(side, batch.account_id[rows], batch.at[rows])
            at = (picked, np.arange(rows.size))
            mean[rows] = curves.response[at]
            worth[rows] = terms.value(np.ones_like(curves.response), curves.worth)[at]
            incentive[rows] = np.asarray(terms.unit_costs, dtype=np.int64)[picked]
            luck = self._luck_of(batch.request_id[rows].tolist())
            if side == "customer":
                response[rows] = luck < mean[rows]
            else:
                response[rows] = poisson_quantile(luck, self.shares_before * mean[rows]) / self.shares_before
            expected_units = self.expected_units(side, mean[rows])
            one = np.broadcast_to(terms.expected_unit_costs(curves.amounts), curves.response.shape)[at]
            amount[rows] = self._amounts(side, curves, picked, batch.request_id[rows], response[rows])
            paid[rows] = _paid(terms, picked, amount[rows]) * terms.paid_units(response[rows])
            expected_cost[rows] = one * (expected_units if terms.cost_basis == "on_response" else 1.0)
        return Outcomes(
            request_id=batch.request_id,
            account_id=batch.account_id,
            side=batch.side,
            at=batch.at,
            level=chosen,
            incentive=incentive,
            response=response,
            cost=np.rint(paid).astype(np.int64),
            expected_response=mean,
            expected_cost=expected_cost,
            worth=worth,
            amount=amount.astype(np.int64),
        )

    def _amounts(
        self,
        side: Side,
        curves: Curves,
        level: NDArray[np.int32],
        request_id: NDArray[np.str_],
        response: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """(n,): lognormal amounts of orders, in whole minor units; 0 without a response or a law."""
        amount, mine = np.zeros(level.size), np.flatnonzero(response > 0)
        # A predicted long-term value is no order.
        predicted = side == "customer" and self.campaign.long_term is not None
        if curves.amounts is not None and not predicted and mine.size:
            law = curves.amounts[:, mine] if curves.amounts.ndim == 2 else curves.amounts[:, level[mine], mine]
            luck = [uniform(f"{self.seed}/amount/{name}") for name in request_id[mine].tolist()]
            normal = np.array([NORMAL.inv_cdf(min(max(one, TINY), 1 - TINY)) for one in luck])
            # Where the amount is the worth of a response, the law is that of one unit.
            units = response[mine] if self.campaign.terms(side).worth == AMOUNT else 1.0
            # An order has whole minor units, and so has what is paid for it.
            amount[mine] = np.rint(np.exp(law[0] + law[1] * normal) * units)
        return amount


def _paid(terms: Terms, level: NDArray[np.int32], amount: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,): cost of one paid incentive, of a percentage that of the order."""
    paid = np.asarray(terms.unit_costs, dtype=np.float64)[level]
    for number, share in enumerate(terms.percent):
        if share is not None:
            mine = level == number
            paid[mine] = share.paid(amount[mine], terms.amounts[number])
    return paid


def poisson_quantile(share: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.int64]:
    """Smallest k with P(Poisson(mean) ≤ k) > share, elementwise; by summing the mass upwards."""
    count = np.zeros(np.shape(share), dtype=np.int64)
    mass = np.exp(-np.asarray(mean, dtype=np.float64))
    below = mass.copy()
    rising = below <= share
    # Beyond this the remaining mass is below the resolution of a double.
    for k in range(1, int(np.max(mean, initial=0.0) + 40 * np.sqrt(np.max(mean, initial=0.0)) + 40)):
        if not rising.any():
            break
        mass = mass * mean / k
        count[rising] = k
        below += mass
        rising &= below <= share
    return count
