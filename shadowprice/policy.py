"""The policy around the rule: levels that requests of a side may be given, their charges, the decision and its reasons.

Predictor, replay, off-policy estimates, the gate's comparison, caps and console call this module, and nothing else
calls :func:`shadowprice.decision.decide`. Pure, vectorized, numpy only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.arms import HOLDOUT, Treatment
from shadowprice.campaign import Campaign, Side
from shadowprice.decision import Decision, charge_at, decide
from shadowprice.limits.coverage import Coverage

Ids = Sequence[str] | Sequence[bytes] | Sequence[int] | NDArray[np.generic]


class SideRequests(NamedTuple):
    """Requests of one side, as rules and budgets read them; partners may be empty, context values None."""

    side: Side
    account_id: Sequence[str]
    partner_id: Sequence[str]
    context: Mapping[str, Sequence[Any]]

    def take(self, rows: NDArray[np.intp]) -> SideRequests:
        """Return the requests at ``rows``."""
        accounts, partners, *context = (
            [column[row] for row in rows.tolist()]
            for column in (self.account_id, self.partner_id, *self.context.values())
        )
        return SideRequests(self.side, accounts, partners, dict(zip(self.context, context, strict=True)))


class Eligible(NamedTuple):
    """Requests that may be given some level.

    rows      intp (n,), positions among the requests that were asked about
    requests  n of them
    allowed   bool (J, n), levels that model and rules allow; None: all
    """

    rows: NDArray[np.intp]
    requests: SideRequests
    allowed: NDArray[np.bool_] | None


@dataclass(frozen=True, eq=False)
class Choices:
    """Levels of n requests of one side, as the rule reads them.

    value    (J, n), worth of each level
    charges  (K, J, n), amount that each level takes of each priced budget; or (J, n) of one budget
    allowed  bool (J, n), levels that may be chosen; None: all
    bits     uint32 (n,), further budgets that count each request; None: those of its side alone

    Example:
        >>> levels = Choices(np.array([[0.1], [0.3]]), np.array([[0.0], [15.0]]))
        >>> levels.decide([0.01], 0.5, ["r1"]).level.tolist(), levels.decide([0.02], 0.5, ["r1"]).level.tolist()
        ([1], [0])
    """

    value: NDArray[np.floating[Any]]
    charges: NDArray[np.floating[Any]]
    allowed: NDArray[np.bool_] | None = None
    bits: NDArray[np.uint32] | None = None

    @classmethod
    def of(
        cls,
        campaign: Campaign,
        side: Side,
        response: NDArray[np.floating[Any]],
        bits: NDArray[np.uint32] | None = None,
        allowed: NDArray[np.bool_] | None = None,
    ) -> Choices:
        """Return the levels of requests with the curves ``response`` (J, n), by the terms of a campaign. O(K·J·n)."""
        return cls(campaign.terms(side).value(response), campaign.charges(side, response, bits), allowed, bits)

    def decide(self, prices: ArrayLike, tie_share: float, request_ids: Ids, exploration: ArrayLike = 0.0) -> Decision:
        """Choose a level of each request; arguments and errors of :func:`shadowprice.decision.decide`."""
        return decide(self.value, self.charges, prices, tie_share, request_ids, self.allowed, exploration=exploration)

    def scores(self, prices: Sequence[float]) -> NDArray[np.float64]:
        """(J, n): value less charges at the prices, which the rule maximizes."""
        return np.asarray(self.value - charge_at(np.asarray(prices, dtype=np.float64), self.charges))

    def net_of(self, further: NDArray[np.float64]) -> Choices:
        """Return the levels as the price of the main budget reads them, at the prices (K − 1,) of the others."""
        net = self.value - np.tensordot(further, self.charges[1:], axes=1)
        return Choices(net, self.charges[0], self.allowed)


@dataclass(frozen=True, eq=False)
class Decided:
    """Decisions on n requests of one side.

    choices   the levels as they were decided, with those that arms allow
    decision  level, propensities, and how each was found
    treated   arms of the requests
    groups    names of the budgets with a condition that count each request, joined by commas
    unpaid    bool (n,), whether model and rules allow the lowest level, whatever the arm
    """

    choices: Choices
    decision: Decision
    treated: Treatment
    groups: list[str]
    unpaid: NDArray[np.bool_]

    def reasons(self, known: NDArray[np.bool_] | None = None, *, stale: bool = False) -> NDArray[np.str_]:
        """(n,): holdout, else stale_price, cold_start, explored, tie or optimal; ``known`` accounts have an embedding.

        The answer of a holdout depends neither on the curve nor on the price.
        """
        found = np.where(self.decision.explored, "explored", np.where(self.decision.tied, "tie", "optimal"))
        if known is not None:
            found = np.where(known, found, "cold_start")
        return np.where(self.treated.held, HOLDOUT, "stale_price" if stale else found)


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
        allowed = self.coverage.allowed(*requests)
        if allowed is None or by_model is None:
            allowed = by_model if allowed is None else allowed
        else:
            allowed = allowed & by_model
        if allowed is None or (able := allowed.any(axis=0)).all():
            return Eligible(np.arange(len(requests.account_id)), requests, allowed)
        # No score overrules a condition: what may be given nothing is not decided.
        rows = np.flatnonzero(able)
        return Eligible(rows, requests.take(rows), allowed[:, rows])

    def choices(self, asked: Eligible, response: NDArray[np.floating[Any]]) -> Choices:
        """Return the levels of requests with the curves ``response`` (J, n). O(n · (budgets + K·J))."""
        bits = self.coverage.bits(*asked.requests) if self.coverage.budgets else None
        return Choices.of(self.campaign, asked.requests.side, response, bits, asked.allowed)

    def decide(self, choices: Choices, request_ids: Ids) -> Decision:
        """Choose levels at the prices, without arms and exploration."""
        return choices.decide(self.prices, self.tie_share, request_ids)

    def answer(
        self, asked: Eligible, response: NDArray[np.floating[Any]], request_ids: Ids, treated: Treatment
    ) -> Decided:
        """Decide requests with the curves ``response`` (J, n), by the arms of their units.

        Raises:
            InvalidInput: see :func:`shadowprice.decision.decide`.
        """
        choices = self.choices(asked, response)
        possible = replace(choices, allowed=treated.allowed(len(response), asked.allowed))
        decision = possible.decide(self.prices, self.tie_share, request_ids, treated.exploration)
        bits, n = choices.bits, len(request_ids)
        groups = [""] * n if bits is None else self.coverage.named(bits)
        return Decided(
            possible, decision, treated, groups, np.ones(n, bool) if asked.allowed is None else asked.allowed[0]
        )
