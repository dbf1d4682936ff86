"""The budget of a campaign."""

import sys
from dataclasses import dataclass
from typing import get_args

from shadowprice.errors import InvalidInput
from shadowprice.limits import BudgetForm


@dataclass(frozen=True, kw_only=True)
class Budget:
    """One limit on the money of a campaign.

    form   ``total``: the sum of cost over the window; ``per_account``: mean cost per request;
           ``per_response``: cost per unit of response (the paper's B)
    limit  minor units; an integer for a total
    """

    name: str = "budget"
    form: BudgetForm = "total"
    limit: float

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidInput("must not be empty", field="budget.name")
        if isinstance(self.limit, bool) or not isinstance(self.limit, int | float):
            raise InvalidInput(f"must be a number, got {self.limit!r}", field="budget.limit")
        if self.form not in get_args(BudgetForm):
            raise InvalidInput(f"must be one of {get_args(BudgetForm)}, got {self.form!r}", field="budget.form")
        if not 0 <= self.limit <= sys.float_info.max:
            raise InvalidInput("must be a finite amount of minor units, not negative", field="budget.limit")
        if self.form == "total" and self.limit != int(self.limit):
            raise InvalidInput("a total is a whole number of minor units", field="budget.limit")
