"""Positions of accounts, and ties from payments: one per pair of accounts, with its features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.errors import InvalidInput

MICROSECONDS_PER_DAY = 86_400e6
AccountIds = Sequence[str] | NDArray[Any] | pd.Series
"""Texts; numbers are read as they print."""


class AccountIndex:
    """A hash table of N distinct accounts: building it is O(N), finding n accounts O(n), whatever their order."""

    def __init__(self, account_id: NDArray[np.str_]) -> None:
        self._table = pd.Index(account_id.astype(object), dtype=object)

    def __len__(self) -> int:
        return len(self._table)

    def find(self, account_id: AccountIds) -> NDArray[np.int64]:
        """Position (n,) of each account, −1 where it is not in the list."""
        wanted = pd.Index(np.asarray(account_id, dtype=object), dtype=object).astype(str)
        return np.asarray(self._table.get_indexer(wanted), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Pairs:
    """E pairs in order of their ends.

    ends      int64 (2, E): where source and target stand among the accounts
    names     names of the features
    features  float32 (E, D)
    """

    ends: NDArray[np.int64]
    names: tuple[str, ...]
    features: NDArray[np.float32]


def pairs_until(edges: pd.DataFrame, accounts: AccountIndex, at: datetime) -> Pairs:
    """One tie per pair that has an event until ``at``: how often, how much, mean edge features, how recently.

    log_count and log_weight are log(1 + number) and log(1 + sum of the weights); log_days_ago is log(1 + days) since
    the last event. x_* are means over the events with known values, NaN where there are none.

    Accounts become numbers once and a pair one number, so that nothing but one key is sorted. O(n log n) for n events.

    Raises:
        InvalidInput: an event of an account that is not among ``accounts``.
    """
    seen = (edges["ts"] <= pd.Timestamp(at)).to_numpy(dtype=bool)
    if not seen.all():
        edges = edges[seen]
    source, target = (_known(edges, column, accounts, at) for column in ("src", "dst"))
    key = source * len(accounts) + target
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))

    def numbers(column: str) -> NDArray[np.float64]:
        return edges[column].to_numpy(dtype=np.float64, na_value=np.nan)[order]

    def total(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.add.reduceat(np.where(np.isnan(values), 0.0, values), first)

    def mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):
            return total(values) / np.add.reduceat(~np.isnan(values), first, dtype=np.int64)

    last = np.maximum.reduceat(edges["ts"].dt.as_unit("us").astype(np.int64).to_numpy()[order], first)
    found = {
        "log_count": np.log1p(np.diff(first, append=key.size)),
        "log_weight": np.log1p(total(numbers("weight"))),
        **{column: mean(numbers(column)) for column in edges.columns if column.startswith("x_")},
        "log_days_ago": np.log1p((pd.Timestamp(at).value // 1000 - last) / MICROSECONDS_PER_DAY),
    }
    return Pairs(
        ends=np.stack([source[order[first]], target[order[first]]]),
        names=tuple(found),
        features=np.stack(list(found.values()), axis=1).astype(np.float32),
    )


def _known(edges: pd.DataFrame, column: str, accounts: AccountIndex, at: datetime) -> NDArray[np.int64]:
    """Return the positions of a column's accounts, all of which must be known."""
    place = accounts.find(edges[column])
    if place.min(initial=0) < 0:
        stray = edges.loc[place < 0, ["src", "dst"]].astype(str).drop_duplicates().sort_values(["src", "dst"])
        raise InvalidInput(
            f"{len(stray)} ties name accounts without a profile at {at.isoformat()}, such as "
            f"{stray[column].iloc[0]!r}; add their rows to the account table",
            field=f"edge.{column}",
        )
    return place
