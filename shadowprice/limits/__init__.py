"""Limits on what a campaign may give: further budgets, caps, and rules over accounts, partners, context and offers."""

from shadowprice.limits.limits import (
    LIMIT_NAME,
    MOST_AMOUNT,
    OUTCOME,
    Asked,
    Bound,
    BudgetForm,
    Cap,
    GroupBudget,
    Limits,
    Sense,
    check_alike,
    name_of,
)
from shadowprice.limits.periods import Calendar, Period
from shadowprice.limits.rules import Rule

__all__ = [
    "LIMIT_NAME",
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
    "Sense",
    "check_alike",
    "name_of",
]
