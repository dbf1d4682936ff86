"""Which store keeps the books."""

from __future__ import annotations

from pathlib import Path

from serving.ledger.store import Store
from shadowprice.campaign import Campaign


def open_store(campaign: Campaign, db: Path, redis: str = "", password: str | None = None) -> Store:
    """Redis at the address ``redis`` where there is one, the sqlite file ``db`` otherwise.

    Raises:
        Conflict: the books belong to another campaign or, of a file, another process.
        InvalidInput: not an address, or a Redis that may lose what it was told.
        Unavailable: the store cannot be used.
    """
    if redis:
        from serving.ledger.redis.store import RedisStore

        return RedisStore(redis, password, campaign)
    from serving.ledger.sqlite.store import SqliteStore

    return SqliteStore(db, campaign)
