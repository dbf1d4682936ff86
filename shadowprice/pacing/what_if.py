"""Solve a campaign under other terms: another budget, fewer levels, limits on groups, caps on accounts."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.pacing.asked_window import QUANTILE, AskedWindow, Drawn
from shadowprice.pacing.questions import Answer, Belief, Change, InHand, Paid, Real
from shadowprice.pacing.window import able_accounts, undivided
from shadowprice.responses.posterior import CurvePosterior

SAMPLE_ROWS = 20_000
"""Accounts that a question is solved on, at most."""
BELIEVED_ROWS = 4_000
"""Accounts of a side that the error of the curves is estimated on, at most: two solves for each axis."""
SHARES = tuple(float(share) for share in np.round(np.linspace(0.5, 2.0, 16), 2))
"""Budgets of a curve, as shares of the campaign's own."""


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
        self._drawn: dict[Side, Drawn] = {}
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
            self._drawn[side] = Drawn(kept, index, requests, own[index], exact)

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
        window = self._window(asked)
        campaign, arrays, solution = window.campaign, window.arrays, window.solve()
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
            reason="" if solution.status == "optimal" else window.why_infeasible(),
        )
        if solution.status != "optimal":
            return answer, {}
        chosen, price, cost, lowest = (
            campaign.answer_shares.chosen,
            solution.prices,
            arrays["cost"],
            arrays["lowest"][0],
        )
        score, paid = window.score(price), window.given(cost, solution)
        value = chosen * solution.primal + float(window.unpriced(arrays["value"]).sum())
        binding = bool(price[0] > campaign.least_return)
        if not binding:
            score += campaign.least_return * paid
        ends = [float(price[0])]
        if error := window.error(window.given(window.net, solution)):
            shifted = [window.solve(sign * error) for sign in (1.0, -1.0)]
            ends += [float(end.prices[0]) if end.status == "optimal" else np.inf for end in shifted]
        spend, certain = float(paid.sum()), False
        if campaign.budget.form == "total":
            # The solution's own spend counts the tied accounts by their shares.
            spend = chosen * float(solution.spend[0]) + float(window.unpriced(cost).sum())
            certain = binding
        names = [campaign.budget.name, *(row.name for row in window.rows), *(group.name for group in asked.groups)]
        later = {row.name for row in window.rows if row.name != row.budget.name}
        answer = replace(
            answer,
            value=_around(value, window.error(score)),
            added=_around(value - float(lowest.sum()), window.error(score - lowest)),
            spend=_around(spend, 0.0 if certain else window.error(paid)),
            price=Estimate(float(price[0]), float(min(ends)), float(max(ends))),
            prices={name: rate for name, rate in zip(names, price.tolist(), strict=True) if name not in later},
            seconds=time.perf_counter() - started,
        )
        return answer, {
            side: Paid(drawn.index, drawn.requests, window.of_side(side, paid)) for side, drawn in self._drawn.items()
        }

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
            thin._drawn[side] = Drawn(curves, drawn.index[kept], requests, drawn.own[kept], exact=True)
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
        window = self._window(change)
        whole = window.campaign.budget.form == "total"
        times = 1.0 if whole else float(window.arrays["measure"][0].sum())
        beside = self._money.spent + self.campaign.late_reserve
        # No choice costs more, so that the return alone limits the spend.
        dearest = float(window.arrays["cost"].max(axis=0).sum())
        chosen = window.campaign.answer_shares.chosen
        window = self._window(replace(change, budget=math.ceil((dearest / chosen + beside) / times + 1)))
        cost = window.arrays["cost"]
        spend = chosen * float(window.solve().spend[0]) + float(window.unpriced(cost).sum()) + beside
        return float(math.ceil(spend)) if whole else spend / times

    def _window(self, change: Change) -> AskedWindow:
        return AskedWindow(self.campaign, self._drawn, change, self._money, self._parts, self._budgets)


def _around(value: float, error: float) -> Estimate:
    return Estimate(float(value), float(value - error), float(value + error))
