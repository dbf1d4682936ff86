"""Limits on what a campaign may give: further budgets, caps, and rules over accounts, partners, context and offers."""

from shadowprice.limits.cap import Cap
from shadowprice.limits.group_budget import OUTCOME, BudgetForm, GroupBudget
from shadowprice.limits.limits import Limits, check_alike
from shadowprice.limits.periods import Calendar, Period
from shadowprice.limits.rules import Rule
from shadowprice.limits.sums import MOST_AMOUNT, Asked, Bound, name_of

__all__ = [
    "MOST_AMOUNT",
    "OUTCOME",
    "Asked",
    "Bound",
    "BudgetForm",
    "Calendar",
    "Cap",
    "GroupBudget",
    "Limits",
    "Period",
    "Rule",
    "check_alike",
    "name_of",
]
