"""Reading the numbers of records that Redis holds, and the sentence where it lost some of them."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import redis

from serving.ledger.redis.writers import Own
from serving.ledger.seen import EPOCH, Seen
from shadowprice.errors import Unavailable


def read_seen(client: redis.Redis, sums: str, *lists: str) -> Seen:
    """Return what the store holds at one moment; a store without an epoch gets one.

    ``lists`` are the keys with the decisions, outcomes and corrections in the order of their recording.

    Raises:
        Unavailable: Redis does not answer.
    """
    try:
        with client.pipeline(transaction=True) as pipeline:
            pipeline.hsetnx(sums, EPOCH, uuid4().hex)
            pipeline.hget(sums, EPOCH)
            for key in lists:
                pipeline.llen(key)
            answers: list[Any] = pipeline.execute()
    except redis.RedisError as error:
        raise Unavailable(f"the ledger's Redis does not answer: {error}") from error
    _, epoch, *counts = answers
    return Seen(epoch.decode(), *counts)


def went_back(seen: Seen, counts: Sequence[int], own: Own, written: int) -> str:
    """Return the sentence for a store that holds fewer records than were seen, or another epoch.

    Args:
        seen: what this process has seen.
        counts: numbers of records that the store holds.
        own: what this process has written.
        written: number of records of this process that the store holds.
    """
    return (
        f"the ledger's Redis went back: it holds {Seen('', *counts).told()} where {seen.told()} were recorded, and "
        f"{written} of the {own.records} records of this process; "
        "restore it or recover (docs/how-to/restore.md), then restart the ledger"
    )
