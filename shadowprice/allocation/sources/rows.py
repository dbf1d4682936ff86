"""Rows of a campaign's problem: its money, its further budgets, and the parts of its window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.population.source import Arrays
from shadowprice.allocation.problem.problem import Resource
from shadowprice.campaign import Campaign, Side
from shadowprice.limits import GroupBudget

MEMBERS = "members of "
"""Begin of the name of the vector that tells which requests a row counts."""


@dataclass(frozen=True, eq=False)
class Row:
    """A further budget in one of its periods: one limit of the problem.

    name     of the row; unique
    budget   whose row it is
    in_hand  minor units, or units of a second outcome, that its requests may take, on top of what a mean earns
    bends    whether the sum of a second outcome that cannot be met counts as if it just could, as one of money does;
             else it is refused
    bounds   side → (2, J), limits of the 95 % interval of the second outcome's mean at each level; empty: not known
    """

    name: str
    budget: GroupBudget
    in_hand: float
    bends: bool = False
    bounds: Mapping[Side, NDArray[np.float64]] = field(default_factory=dict)

    def taken(self, arrays: Arrays) -> NDArray[np.float64]:
        """(J, n): what each level takes of the limit: money, or its second outcome."""
        return np.asarray(arrays[self.budget.outcome or "cost"])

    def charge(self, arrays: Arrays) -> NDArray[np.float64]:
        """(J, n): what each level takes of the money in hand; 0 for requests that the row does not count."""
        form, limit, taken = self.budget.form, self.budget.limit, self.taken(arrays)
        net = taken if form == "total" else taken - limit * arrays[earned_by(form)]
        return np.asarray(net * arrays[members_of(self.name)])

    def resource(self, arrays: Arrays) -> Resource:
        """The limit on the cost of its requests."""
        cost, inside = self.taken(arrays), arrays[members_of(self.name)]
        if self.budget.form == "total":
            limit, carry = max(self.in_hand, 0.0), min(self.in_hand, 0.0)
            return Resource.total(self.name, cost, limit, inside, carry=carry, sense=self.budget.sense)
        earned = arrays[earned_by(self.budget.form)]
        return Resource.per_response(self.name, cost, self.budget.limit, earned, inside, carry=self.in_hand)


@dataclass(frozen=True, eq=False)
class Money:
    """The limits on some requests; the money is that of all requests together.

    in_hand  minor units that may be spent, on top of what a mean earns
    rows     of further budgets
    """

    campaign: Campaign
    in_hand: float
    rows: Sequence[Row] = ()

    def __call__(self, arrays: Arrays) -> list[Resource]:
        """The resources of a campaign over the arrays of :meth:`CampaignProblem.arrays`, the main budget first."""
        budget = self.campaign.budget
        own = [row.resource(arrays) for row in self.rows]
        if budget.form == "total":
            return [Resource.total(budget.name, arrays["cost"], self.in_hand), *own]
        # A mean per account is a mean per response where every request counts one.
        earned = arrays["measure"]
        return [Resource.per_response(budget.name, arrays["cost"], budget.limit, earned, carry=self.in_hand), *own]


def members_of(row: str) -> str:
    """Return the name of the vector that tells which requests a row counts."""
    return f"{MEMBERS}{row}"


def earned_by(form: str) -> str:
    """Return the name of the matrix over which a mean of a further budget is taken."""
    return f"earned {form}"


@dataclass(frozen=True)
class Part:
    """A share of the requests to come, such as those of one hour.

    shares  side → share of its requests; they sum to 1 over the parts
    rows    name of a row → place of its budget among those that have a price; of the rows whose period the part is in
    """

    shares: Mapping[Side, float]
    rows: Mapping[str, int] = field(default_factory=dict)
