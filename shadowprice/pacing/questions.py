"""Question of other terms for a campaign, and its answer (:mod:`shadowprice.pacing.what_if`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.sources.rows import Part, Row
from shadowprice.campaign import Side
from shadowprice.evaluation.statistics.intervals import Estimate

Real = NDArray[np.float64]


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
    least_return  of the last unit of money, of a campaign for money; without a budget, that which is then just spent is
            the answer's: what the budget must be for this return
    levels  side → levels offered, some of the campaign's: no curve is known at others
    limits  further budget of the campaign → its limit, minor units of one period
    groups  limits besides those of the campaign
    caps    side → most minor units that one account may be expected to cost over the window, at the same level each
            time; dearer levels are not offered to it, and nothing where even its lowest costs more
    """

    budget: float | None = None
    least_return: float | None = None
    levels: Mapping[Side, Sequence[int]] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
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
    prices     name → λ of the budget, of each further budget of the campaign in its present period, and of each group
    gap, violation  of the certificate
    rows       accounts solved on
    accounts   accounts there are
    seconds    time of the answer
    reason     limit that cannot be met and the least that it can be, where the status is not ``optimal``; else empty
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
    reason: str = ""

    def times(self, factor: float) -> Answer:
        """Return the answer with values, and prices by them, in a unit of which one old unit is ``factor``."""
        scaled = {name: getattr(self, name).times(factor) for name in ("value", "added", "price")}
        return replace(self, **scaled, prices={name: factor * price for name, price in self.prices.items()})


@dataclass(frozen=True, kw_only=True)
class Belief:
    """Errors of an answer: of the model's curves, by the posterior that its held-out rows give, and of the sample.

    Intervals lie around the answer, which the price is solved for. Their width is its root mean square error under the
    posterior, so an answer that held-out rows do not bear out has a wider one.

    added  value above the lowest level for every request
    price  λ of the budget
    pays   probability that one more unit of money returns more than it costs; None where value is not in money
    """

    added: Estimate
    price: Estimate
    pays: float | None

    def times(self, factor: float) -> Belief:
        """Return the same in a unit of which one old unit is ``factor``."""
        return replace(self, added=self.added.times(factor), price=self.price.times(factor))


@dataclass(frozen=True, eq=False)
class Paid:
    """Expected cost of the accounts of a side that were solved on.

    index     (n,), positions among all curves of the side; one that was drawn more than once comes as often
    requests  (n,), requests that each stands for
    cost      (n,), minor units of these
    """

    index: NDArray[np.intp]
    requests: Real
    cost: Real


@dataclass(frozen=True, kw_only=True, eq=False)
class InHand:
    """Money of a campaign for the window.

    parts    of the window, as in :func:`~shadowprice.pacing.window.solve_window`
    budgets  rows of the further budgets, likewise; None: those of a window without parts
    shares   name → part of what is left of a budget that campaigns share which is this campaign's
    spent    minor units of a total that are spent or held already; of a mean, those above what was earned so far
    """

    parts: Sequence[Part] = ()
    budgets: Sequence[Row] | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    spent: float = 0.0
