"""Budget over a group of requests and a period, beside the campaign's main budget."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.limits.conditions import Condition
from shadowprice.limits.fields import check_campaigns, check_choice, check_name, check_text, check_whole
from shadowprice.limits.periods import Period
from shadowprice.limits.sums import MOST_AMOUNT, Asked, Bound

BudgetForm = Literal["total", "per_account", "per_response"]
Sense = Literal["at_most", "at_least"]

MOST_PARTNERS = 10_000
"""Partners in the group of one budget."""

OUTCOME = "outcome_"
"""Begin of the name of a second outcome beside features: in labeled rows and in the file of a model's heads."""


@dataclass(frozen=True, kw_only=True)
class GroupBudget:
    """A budget over a group of requests and a period, beside the campaign's main budget.

    name      of the budget: a label of metrics, and ``limited_by`` of the answers that it limits
    limit     minor units that the group's open authorizations and net spend may reach in one period; of a mean, minor
              units per request or per unit of response; of a second outcome, its units
    form      ``total``, or ``per_account`` or ``per_response``: a mean has a price, and no hard stop
    sense     ``at_most``, or ``at_least``: a floor has a price, and no hard stop; it is a total
    period    ``campaign``, or each ``month``, ``week``, ``day`` or ``hour`` by the time of the decision, in the time
              zone of the limits
    rolls_over  whether what a period leaves is there in the next one; only of a total with a hard stop
    side      only requests of this side; None: of both
    partners  only requests with one of these partner ids; empty: with any, or none
    arm       only requests of this arm of the experiment; None: of every arm
    where     only requests that this expression holds for, such as ``account.c_region == "north"``
              (:class:`~shadowprice.limits.conditions.Condition`); empty: all
    campaigns campaigns that have the limit together, this one among them; empty: this one alone
    outcome   column of the outcomes, such as ``x_complaints``, that is limited in place of money: its expected sum over
              the requests of a period (``total``), or its expected mean per request (``per_account``). Both have a
              price, and no hard stop; empty: money
    """

    name: str
    limit: float
    form: BudgetForm = "total"
    sense: Sense = "at_most"
    period: Period = "campaign"
    side: str | None = None
    partners: tuple[str, ...] = ()
    arm: str | None = None
    where: str = ""
    campaigns: tuple[str, ...] = ()
    rolls_over: bool = False
    outcome: str = ""

    def __post_init__(self) -> None:
        check_name(self.name, "limits.budgets.name")
        object.__setattr__(self, "campaigns", check_campaigns(self.campaigns, "limits.budgets.campaigns"))
        check_choice(self.form, get_args(BudgetForm), "limits.budgets.form")
        check_choice(self.sense, get_args(Sense), "limits.budgets.sense")
        if self.outcome != "":
            self._check_outcome()
        if self.form == "total" and not self.outcome:
            check_whole(self.limit, 0, "limits.budgets.limit", "minor units")
        elif self.form == "total":
            self._check_amount("the outcome")
        else:
            self._check_mean()
        check_choice(self.period, get_args(Period), "limits.budgets.period")
        rolls: Any = self.rolls_over
        may = self.period != "campaign" and self.enforced and not self.campaigns
        once = "must be true or false, and true only of a total at_most, by month, week, day or hour, of one campaign"
        require(isinstance(rolls, bool) and (may or not rolls), "limits.budgets.rolls_over", once)
        check_text(self.side, "limits.budgets.side")
        check_text(self.arm, "limits.budgets.arm")
        partners: Any = self.partners
        named = not isinstance(partners, str) and all(isinstance(name, str) and name for name in partners)
        listed = f"must be a list of at most {MOST_PARTNERS} partner ids, none of them empty"
        require(named and len(partners) <= MOST_PARTNERS, "limits.budgets.partners", listed)
        object.__setattr__(self, "partners", tuple(self.partners))
        _ = self.condition

    def _check_amount(self, what: str) -> None:
        limit: Any = self.limit
        amount = isinstance(limit, int | float) and not isinstance(limit, bool) and 0 <= limit <= MOST_AMOUNT
        require(amount, "limits.budgets.limit", f"must be an amount of {what}, got {limit!r}")

    def _check_mean(self) -> None:
        self._check_amount("minor units")
        whole = self.sense == "at_most" and self.period == "campaign" and self.arm is None
        upper = "a mean is an upper limit of the whole campaign and of every arm; leave sense, period and arm out"
        upper += ", or set form to total to limit the sum of a period" if self.outcome else ""
        require(whole, "limits.budgets.form", upper)

    def _check_outcome(self) -> None:
        column, field = re.fullmatch(r"x_\w+", str(self.outcome)), "limits.budgets.outcome"
        require(column, field, f"must be a column of numbers of the outcomes, x_…, got {self.outcome!r}")
        alone = (
            "is an upper limit of one campaign and of every arm, since each campaign and arm has its own expectation: "
            "set form to total (a sum) or per_account (a mean), and leave sense, arm and campaigns out"
        )
        own = self.sense == "at_most" and self.arm is None and not self.campaigns
        require(self.form in ("total", "per_account") and own, field, alone)

    @cached_property
    def condition(self) -> Condition | None:
        """The expression of ``where``, checked; None without one."""
        return Condition(self.where, f"limits.budgets.{self.name}.where") if self.where != "" else None

    @cached_property
    def group(self) -> frozenset[str]:
        """The partners."""
        return frozenset(self.partners)

    @property
    def whole_side(self) -> bool:
        """True for the total of all requests of one side for the whole campaign."""
        return self.side is not None and self.period == "campaign" and not (self.partners or self.where or self.arm)

    @property
    def enforced(self) -> bool:
        """True where the ledger stops at the limit."""
        return self.form == "total" and self.sense == "at_most" and not self.outcome

    @property
    def by_level(self) -> bool:
        """True where the ledger counts requests by side and level: the expected sum of a second outcome follows."""
        return self.form == "total" and bool(self.outcome)

    def covers(self, asked: Asked) -> bool:
        """Return whether the limit counts a request."""
        return (
            self.side in (None, asked.side)
            and self.arm in (None, asked.arm)
            and (not self.partners or asked.partner_id in self.group)
            and (not self.where or self.name in asked.groups)
        )

    def key(self, asked: Asked) -> str | None:
        """Return the sum of money that a request adds to: the only one, or None where it adds to none."""
        return "" if not self.outcome and self.covers(asked) else None

    def expected_outcome(
        self, side: str, shape: tuple[int, ...], guards: Mapping[str, NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """(J, N), of the given shape: expected second outcome of requests of a side; 0 of one that is not counted.

        ``guards`` are those of the side's curves.

        Raises:
            InvalidInput: the side is counted, and its outcome is not known.
        """
        if self.side not in (None, side):
            return np.zeros(shape)
        if self.outcome not in guards:
            raise InvalidInput(
                f"of side {side!r} is not known, and limit {self.name!r} needs it: train on outcomes with this column, "
                "or give the limit the side that has it",
                field=self.outcome,
            )
        return np.broadcast_to(guards[self.outcome][:, None], shape)

    @property
    def bound(self) -> Bound:
        """Amount that one sum of this limit may reach; of one that rolls over in its first period."""
        return Bound(self.name, "budget", int(self.limit) if self.enforced else None, None, self.campaigns)
