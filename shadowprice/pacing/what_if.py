"""Solve a campaign under other terms: another budget, fewer levels, limits on groups, caps on accounts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.allocation import Allocation, Problem, Resource, solve
from shadowprice.allocation.problem.solution import pick
from shadowprice.allocation.sources.campaign import CampaignProblem, Money
from shadowprice.campaign import AnswerShares, Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.intervals import Estimate

SAMPLE_ROWS = 20_000
"""Accounts that a question is solved on, at most."""
SHARES = tuple(float(share) for share in np.round(np.linspace(0.5, 2.0, 16), 2))
"""Budgets of a curve, as shares of the campaign's own."""

Real = NDArray[np.float64]
Matrices = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class GroupLimit:
    """Limit on the money of some accounts over the window.

    name     of the group; it differs from the budget's
    limit    minor units
    members  side → bool (N,), in the order of the side's curves; a side that is not named has no member
    """

    name: str
    limit: float
    members: Mapping[Side, NDArray[np.bool_]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Change:
    """Terms to change; what is empty stays as it is.

    budget  minor units, the limit in the budget's own form
    levels  side → levels offered, some of the campaign's: no curve is known at others
    groups  limits besides the budget
    caps    side → most minor units that one account may be expected to cost over the window, at the same level each
            time; dearer levels are not offered to it, and nothing where even its lowest costs more
    """

    budget: float | None = None
    levels: Mapping[Side, Sequence[int]] = field(default_factory=dict)
    groups: tuple[GroupLimit, ...] = ()
    caps: Mapping[Side, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Solution under changed terms, with the error of the sample; the interval is the value where all were solved.

    status     of the solve; where it is not ``optimal`` the figures are NaN
    budget     minor units
    value      weighted responses of the window
    added      the same above the lowest level for every request
    spend      minor units
    price      λ of the budget, weighted responses per minor unit
    prices     name → λ of the budget and of each group
    gap, violation  of the certificate
    rows       accounts solved on
    accounts   accounts there are
    seconds    time of the answer
    """

    status: str
    budget: float
    value: Estimate
    added: Estimate
    spend: Estimate
    price: Estimate
    prices: Mapping[str, float]
    gap: float
    violation: float
    rows: int
    accounts: int
    seconds: float


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Accounts of one side that are solved on.

    index     positions among all accounts of the side
    requests  requests that each stands for
    own       requests of the account itself
    exact     whether these are all accounts
    """

    curves: Curves
    index: NDArray[np.intp]
    requests: Real
    own: Real
    exact: bool


class WhatIf:
    """Answers questions on one sample of the accounts of a campaign.

    Args:
        campaign: its terms today.
        curves: side → curves of all accounts, weighted by their requests.
        ahead: side → requests expected in the window, positive.
        spent: minor units of a total that are spent or held already; of a mean, those above what was earned so far.
        rows: accounts to solve on; 0 for all. They are drawn in proportion to their requests.
        seed: of the draw.
        level: of the intervals.

    The value of the dual at its minimum changes with the sample by the mean of each account's best score
    v − λ·c (envelope theorem), so its standard error is that of a mean of independent draws. The interval of λ holds
    the prices of the budgets that the sample's error in the spend amounts to.
    """

    def __init__(
        self,
        campaign: Campaign,
        curves: Mapping[Side, Curves],
        ahead: Mapping[Side, float],
        *,
        spent: float = 0.0,
        rows: int = SAMPLE_ROWS,
        seed: int = 0,
        level: float = 0.95,
    ) -> None:
        self.campaign = campaign
        self.accounts = sum(mine.accounts for mine in curves.values())
        self._spent, self._level = spent, level
        random, total = np.random.default_rng(seed), sum(ahead[side] for side in curves)
        self._drawn: dict[Side, _Drawn] = {}
        for side, mine in curves.items():
            own, share = ahead[side] * mine.shares(), max(int(rows * ahead[side] / total), 1)
            if not rows or mine.accounts <= share:
                self._drawn[side] = _Drawn(mine, np.arange(mine.accounts), own, own, True)
                continue
            places = np.searchsorted(np.cumsum(own), random.random(share) * own.sum(), side="right")
            index = np.sort(np.minimum(places, mine.accounts - 1))
            each = np.full(share, ahead[side] / share)
            self._drawn[side] = _Drawn(mine.take(index), index, each, own[index], False)

    def ask(self, change: Change | None = None) -> Answer:
        """Solve under the changed terms. O(levels · rows), and two more solves of the same where rows are a sample.

        Raises:
            InvalidInput: a level that the campaign does not have, a side it does not have, or a negative amount.
        """
        started = time.perf_counter()
        asked = change or Change()
        campaign, arrays, columns = self._problem(asked)
        found = self._solve(campaign, arrays, asked, 0.0, columns)
        if found.status != "optimal":
            none = Estimate(np.nan, np.nan, np.nan, self._level)
            return self._answer(found, campaign, started, none, none, none, none, {})
        shares, price = campaign.answer_shares, found.prices
        taken = self._charges(campaign, arrays, asked, columns)
        best = arrays["value"] - sum(
            (rate * cost for rate, cost in zip(price, taken, strict=True)), np.zeros_like(arrays["value"])
        )
        allowed, chosen = arrays["allowed"], shares.chosen
        score = chosen * np.where(allowed, best, -np.inf).max(axis=0) + _unchosen(best, allowed, shares)
        lowest = arrays["lowest"][0]
        unchosen = _unchosen(arrays["cost"], allowed, shares)
        cost = chosen * pick(arrays["cost"], found.level.astype(np.intp)) + unchosen
        value = chosen * found.primal + float(_unchosen(arrays["value"], allowed, shares).sum())
        spend = chosen * self._paid(found, arrays, campaign) + float(unchosen.sum())
        net = cost - (campaign.budget.limit * self._measured(found, arrays, shares) if "measure" in arrays else 0.0)
        error = self._error(net, columns)
        ends = [found.prices[0]]
        if error:
            shifted = [self._solve(campaign, arrays, asked, sign * error, columns) for sign in (1.0, -1.0)]
            ends += [float(each.prices[0]) if each.status == "optimal" else np.inf for each in shifted]
        binding = bool(found.prices[0] > 0) and "measure" not in arrays
        return self._answer(
            found,
            campaign,
            started,
            self._around(value, self._error(score, columns)),
            self._around(value - float(lowest.sum()), self._error(score - lowest, columns)),
            self._around(spend, 0.0 if binding else self._error(cost, columns)),
            Estimate(float(found.prices[0]), float(min(ends)), float(max(ends)), self._level),
            dict(zip([campaign.budget.name, *(group.name for group in asked.groups)], price.tolist(), strict=True)),
        )

    def budgets(self, shares: Sequence[float] = SHARES) -> list[Answer]:
        """Answers at shares of the campaign's budget, in their order."""
        limit = self.campaign.budget.limit
        whole = self.campaign.budget.form == "total"
        return [self.ask(Change(budget=round(limit * share) if whole else limit * share)) for share in shares]

    def _answer(
        self,
        found: Allocation,
        campaign: Campaign,
        started: float,
        value: Estimate,
        added: Estimate,
        spend: Estimate,
        price: Estimate,
        prices: Mapping[str, float],
    ) -> Answer:
        return Answer(
            status=found.status,
            budget=float(campaign.budget.limit),
            value=value,
            added=added,
            spend=spend,
            price=price,
            prices=prices,
            gap=found.gap,
            violation=found.violation,
            rows=sum(drawn.index.size for drawn in self._drawn.values()),
            accounts=self.accounts,
            seconds=time.perf_counter() - started,
        )

    def _problem(self, change: Change) -> tuple[Campaign, Matrices, dict[Side, slice]]:
        """The campaign asked for, its matrices (J, n) and the columns of each side."""
        campaign = self.campaign
        if change.budget is not None:
            late = min(campaign.late_reserve, int(max(change.budget, 0)))
            campaign = replace(campaign, budget=replace(campaign.budget, limit=change.budget), late_reserve=late)
        for name, given in (("levels", change.levels), ("caps", change.caps)):
            if unknown := set(given) - set(self._drawn):
                raise InvalidInput(f"has no side {sorted(unknown)}; choose of {sorted(self._drawn)}", field=name)
        curves = {side: drawn.curves for side, drawn in self._drawn.items()}
        window = CampaignProblem(campaign, curves, {side: drawn.requests for side, drawn in self._drawn.items()})
        parts = []
        for side, source in window.sides.items():
            part = source.arrays(np.s_[:], source.names | {"allowed"})
            part["lowest"] = part["value"][:1].copy()
            self._restrict(campaign, side, part, change)
            parts.append(part)
        arrays = {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}
        return campaign, arrays, window.columns

    def _restrict(self, campaign: Campaign, side: Side, part: Matrices, change: Change) -> None:
        """Take levels that are not offered, or that the cap forbids, out of the matrices of a side, in place."""
        drawn, terms = self._drawn[side], campaign.terms(side)
        allowed, levels = part["allowed"], np.asarray(terms.levels)
        if side in change.levels:
            offered = np.asarray(sorted(set(change.levels[side])))
            if not offered.size or not np.isin(offered, levels).all():
                raise InvalidInput(f"must be some of {levels.tolist()}, got {offered.tolist()}", field="levels")
            allowed[: levels.size] &= np.isin(levels, offered)[:, None]
        cap = change.caps.get(side)
        if cap is None:
            return
        if not cap >= 0:
            raise InvalidInput(f"must not be negative, got {cap}", field="caps")
        of_account = part["cost"] * np.divide(drawn.own, drawn.requests, where=drawn.requests > 0, out=drawn.own * 0)
        within = allowed & (of_account <= cap)
        nothing = ~within.any(axis=0)
        first = np.zeros_like(allowed)
        first[np.argmax(allowed, axis=0), np.arange(allowed.shape[1])] = True
        for name in part.keys() - {"allowed", "lowest"}:
            part[name][:, nothing] = 0.0
        part["allowed"] = np.where(nothing, first, within)

    def _solve(
        self, campaign: Campaign, arrays: Matrices, change: Change, more: float, columns: Mapping[Side, slice]
    ) -> Allocation:
        """The optimum with ``more`` minor units besides the budget, of the requests that price and model answer."""
        shares, budget = campaign.answer_shares, campaign.budget
        total = budget.form == "total"
        net = arrays["cost"] - (0.0 if total else budget.limit * arrays["measure"])
        left = (budget.limit if total else 0.0) - self._spent - campaign.late_reserve + more
        in_hand = (left - float(_unchosen(net, arrays["allowed"], shares).sum())) / shares.chosen
        resources = [_total(budget.name, arrays["cost"], in_hand)] if total else Money(campaign, in_hand)(arrays)
        for group in change.groups:
            members = self._members(group, columns)
            drawn = float(_unchosen(arrays["cost"], arrays["allowed"], shares)[members].sum())
            if not group.limit >= 0:
                raise InvalidInput(f"must not be negative, got {group.limit}", field=f"groups.{group.name}")
            resources.append(_total(group.name, arrays["cost"], (group.limit - drawn) / shares.chosen, members))
        return solve(Problem(arrays["value"], resources, np.asarray(arrays["allowed"], dtype=bool)))

    def _members(self, group: GroupLimit, columns: Mapping[Side, slice]) -> NDArray[np.bool_]:
        inside = np.zeros(max(part.stop for part in columns.values()), dtype=bool)
        for side, part in columns.items():
            if side in group.members:
                inside[part] = group.members[side][self._drawn[side].index]
        return inside

    def _charges(
        self, campaign: Campaign, arrays: Matrices, change: Change, columns: Mapping[Side, slice]
    ) -> list[Real]:
        """(J, n) that each limit counts, in the order of the prices."""
        cost = arrays["cost"]
        net = cost - campaign.budget.limit * arrays["measure"] if "measure" in arrays else cost
        return [net, *(cost * self._members(group, columns) for group in change.groups)]

    @staticmethod
    def _paid(found: Allocation, arrays: Matrices, campaign: Campaign) -> float:
        if campaign.budget.form == "total":
            return float(found.spend[0])
        return float(pick(arrays["cost"], found.level.astype(np.intp)).sum())

    @staticmethod
    def _measured(found: Allocation, arrays: Matrices, shares: AnswerShares) -> Real:
        chosen = pick(arrays["measure"], found.level.astype(np.intp))
        return np.asarray(shares.chosen * chosen + _unchosen(arrays["measure"], arrays["allowed"], shares))

    def _error(self, values: Real, columns: Mapping[Side, slice]) -> float:
        """Half width of the interval of the sum of (n,) values; 0 where all accounts are there."""
        variance = 0.0
        for side, part in columns.items():
            own = values[part]
            if not self._drawn[side].exact and own.size > 1:
                variance += own.size * float(own.var(ddof=1))
        return float(NormalDist().inv_cdf((1 + self._level) / 2) * np.sqrt(variance))

    def _around(self, value: float, error: float) -> Estimate:
        return Estimate(float(value), float(value - error), float(value + error), self._level)


def _total(name: str, cost: Real, limit: float, members: NDArray[np.bool_] | None = None) -> Resource:
    """Limit on a sum; one below 0 cannot be met."""
    return Resource.total(name, cost, max(limit, 0.0), members, carry=min(limit, 0.0))


def _unchosen(matrix: Real, allowed: ArrayLike, shares: AnswerShares) -> Real:
    """(n,): what requests bring whose level is drawn uniformly, or is the lowest allowed one of a holdout."""
    kept = np.asarray(allowed, dtype=bool)
    drawn = np.where(kept, matrix, 0.0).sum(axis=0) / kept.sum(axis=0)
    return np.asarray(shares.drawn * drawn + shares.held * pick(matrix, kept.argmax(axis=0)))
