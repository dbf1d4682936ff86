"""Open the ledger database: Redis or sqlite."""

from __future__ import annotations

from pathlib import Path

from serving.ledger.clock import Clock, monotonic, wall
from serving.ledger.durability import Durability
from serving.ledger.sqlite.peers import Peers
from serving.ledger.store import Store
from shadowprice.campaign import Campaign


def open_store(
    campaign: Campaign,
    db: Path,
    redis: str = "",
    password: str | None = None,
    clock: Clock = monotonic,
    *,
    wall: Clock = wall,
    durability: Durability | None = None,
    peers: Peers | None = None,
) -> Store:
    """Open Redis at the address ``redis`` if it is given, otherwise the sqlite file ``db``.

    Ledger time and dates advance by ``clock``; dates start at ``wall``. ``peers`` are the campaigns of this process and
    their files. With them, a store in Redis compares shared limits with the running ledgers of other processes.

    Raises:
        Conflict: the ledger belongs to another campaign or has other levels, or it holds fewer records than the
            witness; of a file, another process has it; of Redis, a running ledger describes a shared limit otherwise.
        InvalidInput: not an address, or a Redis that may lose records.
        Unavailable: the store cannot be used.
    """
    if redis:
        from serving.ledger.redis.store import RedisStore

        kept = None if peers is None else peers.files
        return RedisStore(redis, password, campaign, clock, durability, kept, wall)
    from serving.ledger.sqlite.store import SqliteStore

    return SqliteStore(db, campaign, clock, peers, None if durability is None else durability.witness, wall)
