"""Open the ledger database: Redis or sqlite."""

from pathlib import Path
from uuid import uuid4

from serving.ledger.clock import Clock, monotonic, wall
from serving.ledger.durability import Durability
from serving.ledger.moves import HELD, Allowance, Move
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
    A file that a backup has written holds back what it may have given away since (:func:`hold_back`).

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

    store = SqliteStore(db, campaign, clock, peers, None if durability is None else durability.witness, wall)
    try:
        if store.copied:
            hold_back(store, campaign)
            store.adopt()
    except BaseException:
        store.close()
        raise
    return store


def hold_back(store: Store, campaign: Campaign) -> bool:
    """Hold back what a restored ledger may have given away, at least one minor unit; return whether it may have.

    While something is held, the ledger takes no step of another move. Each call holds something of its own, so that no
    comparison that began before a second loss ends it. A campaign without terms that was never in a move is left alone.

    Raises:
        Unavailable: the store cannot be used; call again.
    """
    rows, terms = store.moves(), campaign.portfolio
    if not (rows or terms):
        return False
    at = store.date()
    above = int(campaign.budget.limit) + store.totals().moved - (0 if terms is None else terms.floor)
    ends, none = (campaign.name, campaign.name), (0.0, 0.0, 0.0)
    reason = "held back since the ledger was restored: its moves were not compared with those of the other ledgers"
    move = Move(f"{HELD}{at}|{uuid4().hex}", *ends, max(above, 1), at // 1_000_000, none, none, reason)
    store.move("hold", move, Allowance.of(campaign), None, at).result()
    return True
