"""Solve a campaign under other terms: another budget, fewer levels, limits on groups, caps on accounts."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation import Allocation, Problem, Resource, solve
from shadowprice.allocation.problem.solution import pick
from shadowprice.allocation.sources.campaign import CampaignProblem, Money, Row, SideSource
from shadowprice.campaign import AnswerShares, Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.pacing.questions import Answer, Belief, Change, GroupLimit, InHand, Paid, Real
from shadowprice.pacing.window import able_accounts, possible_rows, undivided, without_a_price
from shadowprice.responses.posterior import CurvePosterior

SAMPLE_ROWS = 20_000
"""Accounts that a question is solved on, at most."""
QUANTILE = NormalDist().inv_cdf(0.975)
"""Half width of an interval in standard errors."""
BELIEVED_ROWS = 4_000
"""Accounts of a side that the error of the curves is estimated on, at most: two solves for each axis."""
SHARES = tuple(float(share) for share in np.round(np.linspace(0.5, 2.0, 16), 2))
"""Budgets of a curve, as shares of the campaign's own."""

Matrices = dict[str, NDArray[Any]]
Places = Sequence[tuple[Side, slice]]
"""Columns of each side; of a window with several parts, a side has columns in each."""


@dataclass(frozen=True, eq=False)
class _Drawn:
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


class WhatIf:
    """Answers questions on one sample of the accounts of a campaign.

    Args:
        campaign: its terms today.
        curves: side → curves of all accounts, weighted by their requests, marked with the campaign's further budgets,
            rules and caps.
        ahead: side → requests expected in the window, positive.
        money: in hand; None: all of it, in a window without parts.
        account_of: side → (N,), the account of each curve, where an account has several; such as one for each partner.
        rows: accounts to solve on; 0 for all. They are drawn in proportion to their requests.
        seed: of the draw.
        posterior: side → law of the errors of its curves, for :meth:`believe`.

    The value of the dual at its minimum changes with the sample by the mean of each account's best score
    v − λ·c (envelope theorem), so its standard error is that of a mean of independent draws. The interval of λ holds
    the prices of the budgets that the sample's error in the spend amounts to.
    """

    def __init__(
        self,
        campaign: Campaign,
        curves: Mapping[Side, Curves],
        ahead: Mapping[Side, float],
        money: InHand | None = None,
        *,
        account_of: Mapping[Side, NDArray[np.intp]] | None = None,
        rows: int = SAMPLE_ROWS,
        seed: int = 0,
        posterior: Mapping[Side, CurvePosterior] | None = None,
    ) -> None:
        self.campaign = campaign
        self._posterior = {side: law for side, law in (posterior or {}).items() if side in curves}
        self.accounts = sum(mine.accounts for mine in curves.values())
        self._money = money or InHand()
        random, total = np.random.default_rng(seed), sum(ahead[side] for side in curves)
        budgets = self._money.budgets
        self._parts, self._budgets = undivided(campaign, curves) if budgets is None else (self._money.parts, budgets)
        self._drawn: dict[Side, _Drawn] = {}
        for side, mine in curves.items():
            able, share = able_accounts(mine), max(int(rows * ahead[side] / total), 1)
            expected = ahead[side] * mine.shares()
            account = (account_of or {}).get(side, np.arange(mine.accounts))
            own = np.asarray(np.bincount(account, expected)[account], dtype=np.float64)
            index, requests = np.flatnonzero(able), expected[able]
            if exact := not rows or index.size <= share:
                kept = mine if able.all() else mine.take(index)
            else:
                drawn = np.searchsorted(np.cumsum(requests), random.random(share) * requests.sum(), side="right")
                index = index[np.sort(np.minimum(drawn, index.size - 1))]
                kept, requests = mine.take(index), np.full(share, requests.sum() / share)
            self._drawn[side] = _Drawn(kept, index, requests, own[index], exact)

    def ask(self, change: Change | None = None) -> Answer:
        """Solve under the changed terms; :meth:`ask_accounts` without the accounts."""
        return self.ask_accounts(change)[0]

    def ask_accounts(self, change: Change | None = None) -> tuple[Answer, dict[Side, Paid]]:
        """Solve under the changed terms, and tell each account's part of the spend; nothing where it is not optimal.

        O(levels · rows), and two more solves of the same where rows are a sample.

        Raises:
            InvalidInput: a level that the campaign does not have, a side it does not have, a negative amount, or a
                return of a campaign that is for responses.
        """
        started = time.perf_counter()
        asked = change or Change()
        if asked.least_return is not None and asked.budget is None:
            asked = replace(asked, budget=self._budget_for(asked))
        campaign, arrays, places = self._problem(asked)
        rows = self._rows(asked)
        solution = self._solve(campaign, arrays, asked, rows, 0.0, places)
        none = Estimate(np.nan, np.nan, np.nan)
        answer = Answer(
            status=solution.status,
            budget=float(campaign.budget.limit),
            **dict.fromkeys(("value", "added", "spend", "price"), none),
            prices={},
            gap=solution.gap,
            violation=solution.violation,
            rows=sum(drawn.index.size for drawn in self._drawn.values()),
            accounts=self.accounts,
            seconds=time.perf_counter() - started,
        )
        if solution.status != "optimal":
            return answer, {}
        shares, price = campaign.answer_shares, solution.prices
        cost, allowed, weights, chosen = arrays["cost"], arrays["allowed"], arrays["weights"], shares.chosen
        net = cost - campaign.budget.limit * arrays["measure"] if "measure" in arrays else cost
        of_groups = (cost * self._members(group, places) for group in asked.groups)
        best = arrays["value"].copy()
        for rate, taken in zip(price, (net, *(row.charge(arrays) for row in rows), *of_groups), strict=True):
            best -= rate * taken
        score = chosen * np.where(allowed, best, -np.inf).max(axis=0) + without_a_price(shares, best, allowed, weights)
        lowest = arrays["lowest"][0]
        value = chosen * solution.primal + float(without_a_price(shares, arrays["value"], allowed, weights).sum())
        paid, binding = self._given(cost, solution, arrays, shares), bool(price[0] > campaign.least_return)
        if not binding:
            score += campaign.least_return * paid
        error = self._error(self._given(net, solution, arrays, shares), places)
        ends = [float(price[0])]
        if error:
            shifted = [self._solve(campaign, arrays, asked, rows, sign * error, places) for sign in (1.0, -1.0)]
            ends += [
                float(shifted_answer.prices[0]) if shifted_answer.status == "optimal" else np.inf
                for shifted_answer in shifted
            ]
        spend, certain = float(paid.sum()), False
        if campaign.budget.form == "total":
            # The solution's own spend counts the tied accounts by their shares.
            spend = chosen * float(solution.spend[0]) + float(without_a_price(shares, cost, allowed, weights).sum())
            certain = binding
        names = [campaign.budget.name, *(row.name for row in rows), *(group.name for group in asked.groups)]
        later = {row.name for row in rows if row.name != row.budget.name}
        answer = replace(
            answer,
            value=self._around(value, self._error(score, places)),
            added=self._around(value - float(lowest.sum()), self._error(score - lowest, places)),
            spend=self._around(spend, 0.0 if certain else self._error(paid, places)),
            price=Estimate(float(price[0]), float(min(ends)), float(max(ends))),
            prices={name: rate for name, rate in zip(names, price.tolist(), strict=True) if name not in later},
            seconds=time.perf_counter() - started,
        )
        of_sides: dict[Side, Paid] = {}
        for side, drawn in self._drawn.items():
            # One draw has a column in each part.
            own = np.sum([paid[place] for owner, place in places if owner == side], axis=0)
            of_sides[side] = Paid(drawn.index, drawn.requests, own)
        return answer, of_sides

    def budgets(self, shares: Sequence[float] = SHARES) -> list[Answer]:
        """Answers at shares of the campaign's budget, in their order."""
        limit = self.campaign.budget.limit
        whole = self.campaign.budget.form == "total"
        return [self.ask(Change(budget=round(limit * share) if whole else limit * share)) for share in shares]

    def believe(self, answer: Answer, change: Change | None = None) -> Belief | None:
        """Add the errors of the curves to an answer of :meth:`ask`; None without a posterior or an optimum.

        Two more solves for each of the four axes of a side's posterior, on few accounts: first-order error propagation
        with central differences.
        """
        if not self._posterior or answer.status != "optimal":
            return None
        asked = replace(change or Change(), budget=answer.budget)
        thin = self._thinned()
        center = {side: law.mean for side, law in self._posterior.items()}
        axes = [(side, axis) for side, law in self._posterior.items() for axis in law.axes()]
        places = [center, *({**center, side: center[side] + s * axis} for side, axis in axes for s in (1.0, -1.0))]
        found = [thin._moved(place).ask(asked) for place in places]
        now = thin.ask(asked)
        if any(each.status != "optimal" for each in (now, *found)):
            return None

        def around(name: str) -> tuple[float, float]:
            """Value of the curves, and its root mean square error under the law."""
            base, at = getattr(now, name).value, np.array([getattr(each, name).value for each in found])
            own: Estimate = getattr(answer, name)
            sample = (own.high - own.low) / (2 * QUANTILE) if np.isfinite(own.high) else 0.0
            return own.value, math.hypot(sample, at[0] - base, *((at[1::2] - at[2::2]) / 2))

        (added, wide), (price, error) = around("added"), around("price")
        pays = None
        if self.campaign.in_money:
            pays = 1.0 - NormalDist(price, error).cdf(1.0) if error > 0 else float(price > 1)
        return Belief(
            added=Estimate(added, added - QUANTILE * wide, added + QUANTILE * wide),
            price=Estimate(price, max(price - QUANTILE * error, 0.0), price + QUANTILE * error),
            pays=pays,
        )

    def _thinned(self) -> WhatIf:
        """Return the same questions on every so many accounts, which then stand for the others too."""
        thin = copy.copy(self)
        thin._drawn = {}
        for side, drawn in self._drawn.items():
            step = -(-drawn.index.size // BELIEVED_ROWS)
            kept = slice(None, None, step)
            requests = drawn.requests[kept] * (drawn.requests.sum() / drawn.requests[kept].sum())
            # Marked exact: the error of the sample is that of all its accounts, and is known.
            curves = replace(drawn.curves.between(kept), weight=requests)
            thin._drawn[side] = _Drawn(curves, drawn.index[kept], requests, drawn.own[kept], exact=True)
        return thin

    def _moved(self, place: Mapping[Side, Real]) -> WhatIf:
        """Return the same questions with the curves at one place of the posterior."""
        moved = copy.copy(self)
        moved._drawn = {
            side: replace(drawn, curves=self._posterior[side].move(drawn.curves, place[side]))
            if side in place
            else drawn
            for side, drawn in self._drawn.items()
        }
        return moved

    def _budget_for(self, change: Change) -> float:
        """Minor units, in the budget's own form, that are just spent where the last unit returns what is asked."""
        campaign, arrays, places = self._problem(change)
        shares, cost, allowed, weights = campaign.answer_shares, arrays["cost"], arrays["allowed"], arrays["weights"]
        whole = campaign.budget.form == "total"
        times = 1.0 if whole else float(arrays["measure"][0].sum())
        beside = self._money.spent + self.campaign.late_reserve
        # No choice costs more, so that the return alone limits the spend.
        ample = replace(change, budget=math.ceil((float(cost.max(axis=0).sum()) / shares.chosen + beside) / times + 1))
        campaign, arrays, places = self._problem(ample)
        solution = self._solve(campaign, arrays, ample, self._rows(ample), 0.0, places)
        spend = (
            shares.chosen * float(solution.spend[0])
            + float(without_a_price(shares, cost, allowed, weights).sum())
            + beside
        )
        return float(math.ceil(spend)) if whole else spend / times

    def _problem(self, change: Change) -> tuple[Campaign, Matrices, Places]:
        """The campaign asked for, its matrices (J, n) and the columns of each side in each part."""
        campaign = self.campaign
        if change.budget is not None:
            late = min(campaign.late_reserve, int(max(change.budget, 0)))
            budget = replace(campaign.budget, limit=change.budget)
            # The bounds of moves would refuse a budget beyond them, which may be asked about.
            campaign = replace(campaign, budget=budget, late_reserve=late, portfolio=None)
        if change.least_return is not None:
            campaign = replace(campaign, least_return=change.least_return)
        for name, changed in (("levels", change.levels), ("caps", change.caps)):
            if unknown := set(changed) - set(self._drawn):
                raise InvalidInput(f"has no side {sorted(unknown)}; choose of {sorted(self._drawn)}", field=name)
        curves = {side: drawn.curves for side, drawn in self._drawn.items()}
        requests = {side: drawn.requests for side, drawn in self._drawn.items()}
        window = CampaignProblem(campaign, curves, requests, self._parts)
        made = []
        for source in window.sources:
            matrices = source.arrays(np.s_[:], source.names | {"allowed"})
            matrices["lowest"] = matrices["value"][:1].copy()
            matrices["weights"] = np.ones_like(matrices["value"])
            of_side = campaign.draw_weights(source.side)
            matrices["weights"][: of_side.size] = of_side[:, None]
            self._restrict(campaign, source, matrices, change)
            made.append(matrices)
        arrays = {name: np.concatenate([matrices[name] for matrices in made], axis=-1) for name in made[0]}
        return (
            campaign,
            arrays,
            [(origin.side, place) for origin, place in zip(window.sources, window.places, strict=True)],
        )

    def _restrict(self, campaign: Campaign, source: SideSource, made: Matrices, change: Change) -> None:
        """Take levels that are not offered, or that the cap forbids, out of the matrices of a source, in place."""
        side, levels = source.side, np.asarray(campaign.terms(source.side).levels)
        allowed, cap = made["allowed"], change.caps.get(side)
        if side in change.levels:
            offered = np.asarray(sorted(set(change.levels[side])))
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

    def _rows(self, change: Change) -> list[Row]:
        """The further budgets with the limits asked for: what is used of a present period stays used."""
        known = {row.budget.name: row.budget.limit for row in self._budgets}
        rows = []
        for name in change.limits.keys() - known:
            raise InvalidInput(f"has no further budget of this name; it has {sorted(known)}", field=f"limits.{name}")
        for row in self._budgets:
            budget, in_hand = row.budget, row.in_hand
            if budget.name in change.limits:
                limit = change.limits[budget.name]
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

    def _solve(
        self, campaign: Campaign, arrays: Matrices, change: Change, rows: Sequence[Row], more: float, places: Places
    ) -> Allocation:
        """The optimum with ``more`` minor units besides the budget, of the requests that price and model answer."""
        shares, budget, allowed = campaign.answer_shares, campaign.budget, arrays["allowed"]
        total = budget.form == "total"

        def in_hand(amount: float, charge: Real) -> float:
            return (amount - float(without_a_price(shares, charge, allowed, arrays["weights"]).sum())) / shares.chosen

        net = arrays["cost"] if total else arrays["cost"] - budget.limit * arrays["measure"]
        left = (budget.limit if total else 0.0) - self._money.spent - campaign.late_reserve + more
        own = [replace(row, in_hand=in_hand(row.in_hand, row.charge(arrays))) for row in rows]
        main, of_rows = in_hand(left, net), possible_rows(own, [arrays])
        if total:
            resources = [_total(budget.name, net, main), *(row.resource(arrays) for row in of_rows)]
        else:
            resources = Money(campaign, main, of_rows)(arrays)
        for group in change.groups:
            members = self._members(group, places)
            if not group.limit >= 0:
                raise InvalidInput(f"must not be negative, got {group.limit}", field=f"groups.{group.name}")
            resources.append(
                _total(group.name, arrays["cost"], in_hand(group.limit, arrays["cost"] * members), members)
            )
        if least := campaign.least_return:
            net_value = arrays["value"] - least * arrays["cost"]
            return solve(Problem(net_value, resources, allowed)).with_floor(least)
        return solve(Problem(arrays["value"], resources, allowed))

    def _members(self, group: GroupLimit, places: Places) -> NDArray[np.bool_]:
        inside = np.zeros(places[-1][1].stop, dtype=bool)
        for side, place in places:
            if side in group.members:
                inside[place] = group.members[side][self._drawn[side].index]
        return inside

    @staticmethod
    def _given(matrix: Real, found: Allocation, arrays: Matrices, shares: AnswerShares) -> Real:
        """(n,): a matrix at the levels that the requests are expected to get."""
        chosen = shares.chosen * pick(matrix, found.level.astype(np.intp))
        return np.asarray(chosen + without_a_price(shares, matrix, arrays["allowed"], arrays["weights"]))

    def _error(self, values: Real, places: Places) -> float:
        """Half width of the interval of the sum of (n,) values; 0 where all accounts are there."""
        variance = 0.0
        for side, drawn in self._drawn.items():
            # One draw has a column in each part.
            own = sum((values[place] for owner, place in places if owner == side), np.zeros(drawn.index.size))
            if not drawn.exact and own.size > 1:
                variance += own.size * float(own.var(ddof=1))
        return float(QUANTILE * np.sqrt(variance))

    def _around(self, value: float, error: float) -> Estimate:
        return Estimate(float(value), float(value - error), float(value + error))


def _total(name: str, cost: Real, limit: float, members: NDArray[np.bool_] | None = None) -> Resource:
    """Limit on a sum; one below 0 cannot be met."""
    return Resource.total(name, cost, max(limit, 0.0), members, carry=min(limit, 0.0))
