"""Table ``campaign`` of a generated or converted data set."""

from datetime import datetime
from typing import Any

import pandas as pd


def campaign_table(
    name: str, starts_at: datetime, limit: float, *, form: str = "total", basis: str = "on_response", **more: Any
) -> pd.DataFrame:
    """Return one row: a campaign of a day whose budget has ``limit`` minor units; ``more`` are further columns."""
    row = {
        "campaign_id": name,
        "starts_at": starts_at,
        "hours": 24,
        "budget_name": "day",
        "budget_form": form,
        "budget_limit": float(limit),
        "cost_basis_customer": basis,
    }
    return pd.DataFrame([row | more])
