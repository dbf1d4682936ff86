"""Positions of accounts in a list, found by a hash table."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

AccountIds = Sequence[str] | NDArray[Any] | pd.Series
"""Texts; numbers are read as they print."""

PART = 1 << 20
"""Accounts that are found at a time."""


class AccountIndex:
    """A hash table of N distinct accounts: building it is O(N), finding n accounts O(n), whatever their order."""

    def __init__(self, account_id: NDArray[np.str_]) -> None:
        self._table = pd.Index(account_id.astype(object), dtype=object)

    def __len__(self) -> int:
        return len(self._table)

    def find(self, account_id: AccountIds) -> NDArray[np.int64]:
        """Position (n,) of each account, −1 where it is not in the list; a part of them is text objects at a time."""
        nodes = np.empty(len(account_id), dtype=np.int64)
        for start in range(0, nodes.size, PART):
            part = np.asarray(account_id[start : start + PART], dtype=object)
            wanted = pd.Index(part, dtype=object).astype(str)
            nodes[start : start + PART] = self._table.get_indexer(wanted)
        return nodes
