"""Known truth of a generated data set, read for some accounts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.graphs.accounts import AccountIds, AccountIndex
from shadowprice.tables.database import Source, parquet_parts


def true_curves(truth: Source, side: Side, accounts: AccountIds, levels: int) -> NDArray[np.float64]:
    """Read the true curves (J, n) of the given accounts, NaN where an account has none.

    Args:
        truth: account_id, side, level, response, as in :class:`~shadowprice.datasets.registry.Dataset`.
        side: whose curves.
        accounts: (n,), in any order, perhaps repeated.
        levels: number J of levels of the side.

    Complexity: O(rows of ``truth``), in parts.
    """
    index = AccountIndex(np.unique(np.asarray(accounts, dtype=str)))
    found = np.full((levels, len(index)), np.nan)
    for part in parquet_parts(truth) if isinstance(truth, Path) else [truth]:
        place = index.find(part["account_id"])
        own = (part["side"] == side).to_numpy(dtype=bool) & (place >= 0)
        found[part["level"].to_numpy()[own], place[own]] = part["response"].to_numpy(dtype=np.float64)[own]
    place = index.find(accounts)
    return np.where(place >= 0, found[:, place], np.nan)
