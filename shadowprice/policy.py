"""The policy around the rule: levels that requests of a side may be given, their charges, the decision and its reasons.

Predictor, replay, off-policy estimates, the gate's comparison, caps, lists and console call this module, and nothing
else calls :func:`shadowprice.decision.decide`. Pure, vectorized, numpy only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.arms import HOLDOUT, Treatment, treatment, units_of
from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.decision import Decision, charge_at, decide
from shadowprice.groups import Groups
from shadowprice.limits.coverage import Coverage, SideRequests

Ids = Sequence[str] | Sequence[bytes] | Sequence[int] | NDArray[np.generic]


class Eligible(NamedTuple):
    """Requests that may be given some level.

    rows      intp (n,), positions among the requests that were asked about
    requests  n of them
    allowed   bool (J, n), levels that model and rules allow; None: all
    by_rule   int16 (J, n), number of the rule that forbids a level, as :meth:`Coverage.forbidden`; None without rules
    """

    rows: NDArray[np.intp]
    requests: SideRequests
    allowed: NDArray[np.bool_] | None
    by_rule: NDArray[np.int16] | None = None


@dataclass(frozen=True, eq=False)
class Choices:
    """Levels of n requests of one side, as the rule reads them.

    value    (J, n), worth of each level
    charges  (K, J, n), amount that each level takes of each priced budget; or (J, n) of one budget
    allowed  bool (J, n), levels that may be chosen; None: all
    bits     uint32 (n,), further budgets that count each request; None: those of its side alone
    weights  (J,), weight of each level where one is drawn; None: 1 for all

    Example:
        >>> levels = Choices(np.array([[0.1], [0.3]]), np.array([[0.0], [15.0]]))
        >>> levels.decide([0.01], 0.5, ["r1"]).level.tolist(), levels.decide([0.02], 0.5, ["r1"]).level.tolist()
        ([1], [0])
    """

    value: NDArray[Any]
    charges: NDArray[Any]
    allowed: NDArray[np.bool_] | None = None
    bits: NDArray[np.uint32] | None = None
    weights: NDArray[np.float64] | None = None

    @classmethod
    def of(
        cls,
        campaign: Campaign,
        side: Side,
        response: NDArray[np.floating[Any]],
        bits: NDArray[np.uint32] | None = None,
        allowed: NDArray[np.bool_] | None = None,
        worth: NDArray[np.float64] | None = None,
        amounts: NDArray[np.floating[Any]] | None = None,
        guards: Mapping[str, NDArray[np.float64]] = MappingProxyType({}),
    ) -> Choices:
        """Return the levels of requests with the curves ``response`` (J, n), by the terms of a campaign. O(K·J·n).

        ``worth`` is that of a unit of each account's response, which terms with a column of it need; ``amounts`` are
        those of orders, which levels in percent need, and ``guards`` the second outcomes, which budgets of one need.
        """
        charges = campaign.charges(side, response, bits, amounts, guards)
        return cls(campaign.terms(side).value(response, worth), charges, allowed, bits, campaign.draw_weights(side))

    @classmethod
    def marked(cls, campaign: Campaign, side: Side, curves: Curves) -> Choices:
        """Return the levels of requests whose curves :meth:`Coverage.mark` returned."""
        more = (curves.worth, curves.amounts, curves.guards)
        own = cls.of(campaign, side, curves.response, curves.bits, curves.allowed, *more)
        return own.counting(campaign, side, curves.influence)

    def counting(self, campaign: Campaign, side: Side, influence: NDArray[np.float64] | None) -> Choices:
        """Return the levels with the value for partners, of a minor unit (n,); None: as they are."""
        if influence is None:
            return self
        return replace(self, value=self.value + campaign.terms(side).for_partners(influence))

    def decide(self, prices: ArrayLike, tie_share: float, request_ids: Ids, exploration: ArrayLike = 0.0) -> Decision:
        """Choose a level of each request; arguments and errors of :func:`shadowprice.decision.decide`."""
        given = (self.value, self.charges, prices, tie_share, request_ids, self.allowed)
        return decide(*given, exploration=exploration, weights=self.weights)

    def scores(self, prices: Sequence[float]) -> NDArray[np.float64]:
        """(J, n): value less charges at the prices, which the rule maximizes."""
        charges = self.charges if self.charges.ndim == 3 else self.charges[None]
        return np.asarray(self.value - charge_at(np.asarray(prices, dtype=np.float64), charges))

    def further(self, prices: Sequence[float], level: NDArray[np.integer[Any]]) -> list[list[int]]:
        """Return the other levels that each request may be given, the best at the prices first; ``level`` is (n,)."""
        scores = self.scores(prices)
        if self.allowed is not None:
            scores[~self.allowed] = -np.inf
        scores[level, np.arange(level.size)] = -np.inf
        order = np.argsort(-scores, axis=0, kind="stable")
        open_ = np.isfinite(scores).sum(axis=0)
        return [order[:count, column].tolist() for column, count in enumerate(open_.tolist())]

    def net_of(self, further: NDArray[np.float64]) -> Choices:
        """Return the levels as the price of the main budget reads them, at the prices (K − 1,) of the others."""
        net = self.value - np.tensordot(further, self.charges[1:], axes=1)
        return Choices(net, self.charges[0], self.allowed, weights=self.weights)


@dataclass(frozen=True, eq=False)
class Decided:
    """Decisions on n requests of one side.

    choices   the levels as they were decided, with those that arms allow
    decision  level, propensities, and how each was found
    treated   arms of the requests
    reasons   (n,), holdout, else stale_price, cold_start, explored, tie or optimal
    groups    names of the budgets with a condition that count each request, joined by commas
    asked     the requests, with the levels that model and rules allow, whatever the arm
    """

    choices: Choices
    decision: Decision
    treated: Treatment
    reasons: NDArray[np.str_]
    groups: list[str]
    asked: Eligible

    @property
    def unpaid(self) -> NDArray[np.bool_]:
        """Bool (n,): whether model and rules allow the lowest level, whatever the arm."""
        allowed = self.asked.allowed
        return np.ones(self.decision.level.size, dtype=np.bool_) if allowed is None else allowed[0]


@dataclass(frozen=True, eq=False)
class Policy:
    """Answers of a campaign at some prices.

    campaign   terms and budgets
    coverage   tells which budgets count a request, and which levels rules allow
    prices     of the names in :attr:`Campaign.priced`
    tie_share  probability of the dearer of two tied levels
    """

    campaign: Campaign
    coverage: Coverage
    prices: Sequence[float]
    tie_share: float

    def eligible(self, requests: SideRequests, by_model: NDArray[np.bool_] | None = None) -> Eligible:
        """Return the requests that rules and ``by_model``, bool (J, N), allow some level. O(N · rules · J)."""
        by_rule = self.coverage.forbidden(requests)
        masks = [mask for mask in (None if by_rule is None else by_rule == 0, by_model) if mask is not None]
        allowed = np.logical_and.reduce(masks) if masks else None
        if allowed is None or (able := allowed.any(axis=0)).all():
            return Eligible(np.arange(len(requests.account_id)), requests, allowed, by_rule)
        # No score overrules a condition: what may be given nothing is not decided.
        rows = np.flatnonzero(able)
        return Eligible(rows, requests.take(rows), allowed[:, rows], None if by_rule is None else by_rule[:, rows])

    def choices(self, asked: Eligible, curves: Curves, treated: Treatment | None = None) -> Choices:
        """Return the levels of requests with these curves (J, n), by their arms. O(n · (budgets + K·J))."""
        bits = self.coverage.bits(asked.requests) if self.coverage.budgets else None
        allowed = asked.allowed if treated is None else treated.allowed(len(curves.response), asked.allowed)
        more = (self.coverage.worth(asked.requests, curves.amounts), curves.amounts, curves.guards)
        side = asked.requests.side
        own = Choices.of(self.campaign, side, curves.response, bits, allowed, *more)
        return own.counting(self.campaign, side, self.coverage.influence(asked.requests))

    def answer(
        self,
        asked: Eligible,
        curves: Curves,
        request_ids: Ids,
        treated: Treatment,
        known: ArrayLike = True,
        *,
        stale: bool = False,
    ) -> Decided:
        """Decide requests with these curves (J, n), by the arms of their units.

        ``known`` accounts have an embedding, and the prices are ``stale`` past their expiry: both are reasons, but of a
        holdout, whose answer depends neither on curve nor on price. Errors are those of the rule.
        """
        choices, n = self.choices(asked, curves, treated), len(request_ids)
        groups = [""] * n if choices.bits is None else self.coverage.named(choices.bits)
        decision = choices.decide(self.prices, self.tie_share, request_ids, treated.exploration)
        plain = np.where(decision.explored, "explored", np.where(decision.tied, "tie", "optimal"))
        reason = "stale_price" if stale else np.where(known, plain, "cold_start")
        return Decided(choices, decision, treated, np.where(treated.held, HOLDOUT, reason), groups, asked)


def treated_in(
    campaign: Campaign,
    account_id: Sequence[str],
    partner_id: Sequence[str],
    at: Sequence[datetime],
    groups: Groups | None = None,
) -> tuple[Treatment, Sequence[str]]:
    """Return the arms of N requests, by the holdout of the company and the campaign's experiment; and their units.

    Arguments and errors are those of :func:`~shadowprice.arms.units_of`.
    """
    units = units_of(campaign.experiment, account_id, partner_id, at, groups)
    held = None if campaign.holdout is None else campaign.holdout.holds(account_id)
    return treatment(campaign.experiment, units, campaign.exploration, held), units


def flat_shares(
    campaign: Campaign, curves: Mapping[Side, Curves], prices: ArrayLike, tie_share: float
) -> dict[Side, NDArray[np.float64]]:
    """Shares (J,) of the levels of each side at prices, where all accounts of a side have the curve of one account."""
    return {
        side: Choices.marked(campaign, side, one).decide(prices, tie_share, [side]).policy.propensities()[:, 0]
        for side, one in curves.items()
    }
