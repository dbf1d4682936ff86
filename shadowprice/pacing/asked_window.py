"""Window of a campaign under changed terms: its matrices, and its solve."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation import Allocation, Problem, Resource, solve
from shadowprice.allocation.problem.solution import pick
from shadowprice.allocation.sources.campaign import CampaignProblem
from shadowprice.allocation.sources.rows import Money, Part, Row
from shadowprice.allocation.sources.side import SideSource
from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.pacing.budgets.given import without_a_price
from shadowprice.pacing.budgets.guards import beyond
from shadowprice.pacing.questions import Change, GroupLimit, InHand, Real
from shadowprice.pacing.window import possible_rows

QUANTILE = NormalDist().inv_cdf(0.975)
"""Half width of an interval in standard errors."""

Matrices = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Drawn:
    """Accounts of one side that are solved on.

    index     positions among all curves of the side
    requests  requests that each stands for
    own       requests of the account itself
    exact     whether these are all accounts
    """

    curves: Curves
    index: NDArray[np.intp]
    requests: Real
    own: Real
    exact: bool


class AskedWindow:
    """Window of the drawn accounts under a change of terms.

    Args:
        campaign: its terms today.
        drawn: side → accounts to solve on.
        change: of the terms.
        money: in hand under today's terms.
        parts, budgets: of the window, as in :class:`InHand`.

    Attributes:
        campaign: under the change.
        arrays: (J, n) matrices of the campaign's choices, with ``lowest`` (1, n), the value of the lowest level, and
            ``weights``, those of a draw.
        rows: further budgets under the change.

    Raises:
        InvalidInput: terms that the campaign cannot have.
    """

    def __init__(
        self,
        campaign: Campaign,
        drawn: Mapping[Side, Drawn],
        change: Change,
        money: InHand,
        parts: Sequence[Part],
        budgets: Sequence[Row],
    ) -> None:
        self._drawn, self._change, self._money, self._budgets = drawn, change, money, budgets
        self.campaign = campaign = self._changed(campaign)
        for name, changed in (("levels", change.levels), ("caps", change.caps)):
            if unknown := set(changed) - set(drawn):
                raise InvalidInput(f"has no side {sorted(unknown)}; choose of {sorted(drawn)}", field=name)
        curves = {side: own.curves for side, own in drawn.items()}
        requests = {side: own.requests for side, own in drawn.items()}
        window = CampaignProblem(campaign, curves, requests, parts)
        made = [self._matrices(source) for source in window.sources]
        self.arrays: Matrices = {
            name: np.concatenate([matrices[name] for matrices in made], axis=-1) for name in made[0]
        }
        self._places = [(source.side, place) for source, place in zip(window.sources, window.places, strict=True)]
        self.rows = self._rows()

    def _changed(self, campaign: Campaign) -> Campaign:
        change = self._change
        if change.budget is not None:
            late = min(campaign.late_reserve, int(max(change.budget, 0)))
            budget = replace(campaign.budget, limit=change.budget)
            # The bounds of moves would refuse a budget beyond them, which may be asked about.
            campaign = replace(campaign, budget=budget, late_reserve=late, portfolio=None)
        if change.least_return is not None:
            campaign = replace(campaign, least_return=change.least_return)
        return campaign

    def _matrices(self, source: SideSource) -> Matrices:
        """Matrices of a source, without the levels that are not offered or that a cap forbids."""
        made = source.arrays(np.s_[:], source.names | {"allowed"})
        made["lowest"] = made["value"][:1].copy()
        made["weights"] = np.ones_like(made["value"])
        of_side = self.campaign.draw_weights(source.side)
        made["weights"][: of_side.size] = of_side[:, None]
        side, levels = source.side, np.asarray(self.campaign.terms(source.side).levels)
        allowed, cap = made["allowed"], self._change.caps.get(side)
        if side in self._change.levels:
            offered = np.asarray(sorted(set(self._change.levels[side])))
            if not offered.size or not np.isin(offered, levels).all():
                raise InvalidInput(f"must be some of {levels.tolist()}, got {offered.tolist()}", field="levels")
            allowed[: levels.size] &= np.isin(levels, offered)[:, None]
        if cap is not None:
            if not cap >= 0:
                raise InvalidInput(f"must not be negative, got {cap}", field="caps")
            own, requests = self._drawn[side].own, source.requests
            allowed &= made["cost"] * np.divide(own, requests, where=requests > 0, out=own * 0) <= cap
        nothing = ~allowed.any(axis=0)
        for name in made.keys() - {"lowest", "weights"}:
            if made[name].ndim > 1:
                made[name][:, nothing] = 0
        allowed[0, nothing] = True
        return made

    def _rows(self) -> list[Row]:
        """Return the further budgets with the limits asked for: the use of a present period stays."""
        limits = self._change.limits
        known = {row.budget.name: row.budget.limit for row in self._budgets}
        rows = []
        for name in limits.keys() - known:
            raise InvalidInput(f"has no further budget of this name; it has {sorted(known)}", field=f"limits.{name}")
        for row in self._budgets:
            budget, in_hand = row.budget, row.in_hand
            if budget.name in limits:
                limit = limits[budget.name]
                whole = budget.form == "total" and not budget.outcome
                budget = replace(budget, limit=round(limit) if whole else limit)
                if budget.form == "total" and row.name == budget.name:
                    in_hand += self._money.shares.get(budget.name, 1.0) * (budget.limit - row.budget.limit)
                    if budget.campaigns:  # what the others use over the limit is not taken from this campaign
                        in_hand = max(in_hand, 0.0)
                elif budget.form == "total":
                    in_hand *= budget.limit / row.budget.limit if row.budget.limit else 0.0
            rows.append(replace(row, budget=budget, in_hand=in_hand))
        return rows

    def solve(self, more: float = 0.0) -> Allocation:
        """Solve for the requests that price and model answer, with ``more`` minor units besides the budget."""
        arrays, budget = self.arrays, self.campaign.budget
        main, of_rows = self._main(more), self._possible()
        if budget.form == "total":
            resources = [_total(budget.name, self.net, main), *(row.resource(arrays) for row in of_rows)]
        else:
            resources = Money(self.campaign, main, of_rows)(arrays)
        for group in self._change.groups:
            if not group.limit >= 0:
                raise InvalidInput(f"must not be negative, got {group.limit}", field=f"groups.{group.name}")
            members = self._members(group)
            limit = self._in_hand(group.limit, arrays["cost"] * members)
            resources.append(_total(group.name, arrays["cost"], limit, members))
        if least := self.campaign.least_return:
            net_value = arrays["value"] - least * arrays["cost"]
            return solve(Problem(net_value, resources, arrays["allowed"])).with_floor(least)
        return solve(Problem(arrays["value"], resources, arrays["allowed"]))

    def why_infeasible(self) -> str:
        """Say which limit no choice of levels can meet and the least that it can be, of several limits the first."""
        campaign, chosen = self.campaign, self.campaign.answer_shares.chosen
        for row, own in zip(self.rows, self._possible(), strict=True):
            if row.budget.outcome and (fault := beyond(row, own, [self.arrays], chosen)):
                return fault
        budget = campaign.budget
        limits = [(f"budget {budget.name!r}", budget.limit, self.net, self._main(), budget.form == "total")]
        for group in self._change.groups:
            cost = self.arrays["cost"] * self._members(group)
            limits.append((f"limit {group.name!r}", group.limit, cost, self._in_hand(group.limit, cost), True))
        for name, limit, taken, in_hand, total in limits:
            excess = chosen * (float(np.where(self.arrays["allowed"], taken, np.inf).min(axis=0).sum()) - in_hand)
            if excess > 0:
                # A cent more, so that rounding leaves it possible.
                least = math.floor(limit + excess) + 1 if total else "more"
                return f"{name} allows {limit:g} minor units, and even the cheapest levels need {least}; raise it"
        return "no choice of levels keeps all limits together, though each can be kept alone; raise one or the budget"

    def _main(self, more: float = 0.0) -> float:
        """Money in hand for a request whose level is chosen, with ``more`` minor units."""
        budget = self.campaign.budget
        limit = budget.limit if budget.form == "total" else 0.0
        return self._in_hand(limit - self._money.spent - self.campaign.late_reserve + more, self.net)

    def _possible(self) -> list[Row]:
        """Return the further budgets for the requests whose level is chosen, within what is possible."""
        own = [replace(row, in_hand=self._in_hand(row.in_hand, row.charge(self.arrays))) for row in self.rows]
        return possible_rows(own, [self.arrays])

    def _in_hand(self, amount: float, charge: Real) -> float:
        """Return what of an amount is left for the requests whose level is chosen."""
        return (amount - float(self.unpriced(charge).sum())) / self.campaign.answer_shares.chosen

    @property
    def net(self) -> Real:
        """(J, n): cost that the price of the budget multiplies."""
        cost: Real = self.arrays["cost"]
        return cost - self.campaign.budget.limit * self.arrays["measure"] if "measure" in self.arrays else cost

    def unpriced(self, matrix: Real) -> Real:
        """(n,): part of a matrix that requests without a price get (:func:`without_a_price`)."""
        return without_a_price(self.campaign.answer_shares, matrix, self.arrays["allowed"], self.arrays["weights"])

    def given(self, matrix: Real, solution: Allocation) -> Real:
        """(n,): a matrix at the levels that the requests are expected to get."""
        chosen = self.campaign.answer_shares.chosen * pick(matrix, solution.level.astype(np.intp))
        return np.asarray(chosen + self.unpriced(matrix))

    def score(self, prices: Real) -> Real:
        """(n,): expected value of a request less what it is charged, under the prices of a solution."""
        best = self.arrays["value"].copy()
        of_groups = (self.arrays["cost"] * self._members(group) for group in self._change.groups)
        charges = (self.net, *(row.charge(self.arrays) for row in self.rows), *of_groups)
        for rate, taken in zip(prices, charges, strict=True):
            best -= rate * taken
        top = np.where(self.arrays["allowed"], best, -np.inf).max(axis=0)
        return np.asarray(self.campaign.answer_shares.chosen * top + self.unpriced(best))

    def of_side(self, side: Side, values: Real) -> Real:
        """(n,): values of the drawn accounts of a side. One draw has a column in each part of the window."""
        places = (values[place] for owner, place in self._places if owner == side)
        return sum(places, np.zeros(self._drawn[side].index.size))

    def error(self, values: Real) -> float:
        """Half width of the interval of the sum of (n,) values; 0 where all accounts are there."""
        variance = 0.0
        for side, drawn in self._drawn.items():
            own = self.of_side(side, values)
            if not drawn.exact and own.size > 1:
                variance += own.size * float(own.var(ddof=1))
        return float(QUANTILE * np.sqrt(variance))

    def _members(self, group: GroupLimit) -> NDArray[np.bool_]:
        inside = np.zeros(self._places[-1][1].stop, dtype=bool)
        for side, place in self._places:
            if side in group.members:
                inside[place] = group.members[side][self._drawn[side].index]
        return inside


def _total(name: str, cost: Real, limit: float, members: NDArray[np.bool_] | None = None) -> Resource:
    """Limit on a sum; one below 0 cannot be met."""
    return Resource.total(name, cost, max(limit, 0.0), members, carry=min(limit, 0.0))
