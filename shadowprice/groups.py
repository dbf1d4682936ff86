"""Groups of accounts that are in one arm together, such as neighbors in the graph."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.errors import InvalidInput
from shadowprice.files import write_whole


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of each of N accounts.

    table  uint64 (2, N): a hash of each account's name, ascending, and the number of its group; 16 bytes an account

    Two names have one hash with probability N²/2⁶⁵, and then one group.

    Example:
        >>> Groups.of(["a", "b", "c"], [0, 0, 7]).units(["b", "c", "stranger"])
        ['group 0', 'group 7', 'stranger']
    """

    table: NDArray[np.uint64]

    @classmethod
    def of(cls, account_id: Sequence[str], group: ArrayLike) -> Groups:
        """Build the table of N accounts and their groups ≥ 0. O(N log N)."""
        table = np.stack([hashes(account_id), np.asarray(group, dtype=np.uint64)])
        return cls(np.ascontiguousarray(table[:, np.argsort(table[0], kind="stable")]))

    def units(self, account_id: Sequence[str]) -> list[str]:
        """Name the unit of each of n accounts: its group, or itself where it has none. O(n log N)."""
        known, group = self.table
        if not known.size:
            return list(account_id)
        wanted = hashes(account_id)
        place = np.minimum(np.searchsorted(known, wanted), known.size - 1)
        present = known[place] == wanted
        return [
            f"group {number}" if has else name
            for name, has, number in zip(account_id, present.tolist(), group[place].tolist(), strict=True)
        ]

    def renamed(self, names: Mapping[str, str]) -> Groups:
        """Return the table with other names for some accounts, each in the group that it had. O(N log N)."""
        table = np.array(self.table)
        for old, new in zip(hashes(list(names)), hashes(list(names.values())), strict=True):
            table[0, table[0] == old] = new
        return Groups(np.ascontiguousarray(table[:, np.argsort(table[0], kind="stable")]))

    def save(self, path: Path) -> None:
        """Write to an ``.npy`` file, whole or not at all; :meth:`load` is the inverse."""
        content = io.BytesIO()
        np.save(content, self.table, allow_pickle=False)
        write_whole(path, content.getvalue())

    @classmethod
    def load(cls, path: Path) -> Groups:
        """Map what :meth:`save` wrote.

        Raises:
            InvalidInput: it cannot be read, or is another table.
        """
        try:
            table = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InvalidInput(f"cannot be read: {error}", field=str(path)) from error
        if table.ndim != 2 or len(table) != 2 or table.dtype != np.uint64:
            raise InvalidInput(f"is no table of groups: {table.dtype} {table.shape}", field=str(path))
        return cls(table)


def hashes(account_id: Sequence[str]) -> NDArray[np.uint64]:
    """uint64 (N,): a hash of each name."""
    digests = b"".join(hashlib.blake2b(str(name).encode(), digest_size=8).digest() for name in account_id)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)
