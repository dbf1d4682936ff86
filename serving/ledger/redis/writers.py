"""The numbers of records that each process wrote to Redis, by which it notices that Redis lost some of them.

The total of all processes is not enough: another process may write as many new records as were lost before the one that
wrote the lost records looks again.
"""

from typing import Any, NamedTuple

import redis

FIELD = "writer|"
"""Start of the fields of the sums that hold a process's number of records, a line break, and the ledger time of its
newest call."""
KEPT = 7 * 24 * 3_600_000_000
"""Ledger time in microseconds after which the field of a process without a call is removed.

A process that removes its field at its end needs none. One that was stopped for longer and goes on is refused, as after
a loss."""


class Own(NamedTuple):
    """Records of one process: its random id, and the number that it knows to be in the store."""

    writer: str
    records: int

    @property
    def field(self) -> str:
        """Field of the sums with the number that the store has."""
        return f"{FIELD}{self.writer}"


def records_of(kept: bytes | None) -> int:
    """Return the number of records that a field holds; 0 where there is none."""
    return 0 if kept is None else int(kept.split(b"\n")[0])


def forget_writers(client: redis.Redis, sums: str) -> None:
    """Remove the fields of processes that ended without removing them, :data:`KEPT` after their newest call.

    Raises as redis.
    """
    now: Any = client.hget(sums, "ledger_time")
    fields: Any = client.hscan_iter(sums, match=f"{FIELD}*")
    gone = [name for name, kept in fields if int(kept.split(b"\n")[1]) < int(now) - KEPT]
    if gone:
        client.hdel(sums, *gone)
