"""Decisions that the load of a ledger consists of."""

from collections.abc import Sequence
from typing import Any


def decisions(
    request_ids: list[str], accounts: list[str], level: int = 1, levels: Sequence[int] = (0, 50, 100)
) -> dict[str, list[Any]]:
    """Columns of n new decisions of customers, who all get the same level of a side for certain."""
    n = len(request_ids)
    columns = {
        "side": "customer",
        "level": level,
        "incentive": levels[level],
        "response": 0.25,
        "expected_cost": 0.25 * levels[level],
        "propensity": 1.0,
        "propensities": [float(place == level) for place in range(len(levels))],
        "reason": "optimal",
    }
    return {"request_id": request_ids, "account_id": accounts, **{name: [value] * n for name, value in columns.items()}}
