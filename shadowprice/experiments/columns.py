"""Names of the columns of the tables that an experiment is analyzed from."""

from dataclasses import dataclass

import pandas as pd

from shadowprice.checks import require

PERIOD = "period"
"""Column with the number of the time of constant shares; a table without it has a single one."""
NUMBER = "number"
"""Column with the number of accounts of an arm, where there is no list of them."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Names of the columns of a table of requests, one row each.

    unit        identifier of what was assigned
    arm         name of the arm
    value       worth of the response
    cost        minor units paid
    partner     second identifier of dependent rows, crossed with the first; empty: one way
    covariates  quantities of the time before, and predictions from them; an entry may be missing
    """

    unit: str = "account_id"
    arm: str = "arm"
    value: str = "value"
    cost: str = "cost"
    partner: str = ""
    covariates: tuple[str, ...] = ()

    def check(self, frame: pd.DataFrame, *others: str) -> None:
        """Raise :class:`InvalidInput` for a column that ``frame`` does not have."""
        partner = (self.partner,) if self.partner else ()
        _refuse_missing(
            frame, (self.unit, self.arm, self.value, self.cost, *partner, *self.covariates, *others), "frame"
        )

    def check_assigned(self, table: pd.DataFrame) -> None:
        """Raise :class:`InvalidInput` for a column that a table of assigned accounts, or of numbers, does not have."""
        names = (NUMBER,) if self.unit not in table and NUMBER in table else (self.unit, *self.covariates)
        _refuse_missing(table, (self.arm, *names), "assigned")


def _refuse_missing(frame: pd.DataFrame, names: tuple[str, ...], field: str) -> None:
    missing = [name for name in names if name not in frame]
    require(not missing, field, f"has no column {missing}; it has {list(frame.columns)}")
