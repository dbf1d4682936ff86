"""How a campaign's books are laid out in Redis, and bringing those of the layout before up to it."""

from __future__ import annotations

from typing import Any

import redis

from serving.ledger.redis.scripts import KEYS, text
from shadowprice.errors import Conflict, Unavailable

LAYOUT = 2
"""1 had no sum of what is reserved: a promise had its face value reserved."""


def keys(campaign: str, layout: int = LAYOUT) -> list[str]:
    """The keys of a campaign's books, in the order of :data:`~serving.ledger.redis.scripts.KEYS`; of one hash tag."""
    return [f"ledger:{layout}:{{{campaign}}}:{key}" for key in KEYS]


def check_layout(client: redis.Redis, campaign: str) -> None:
    """Note with which layout a campaign's books are kept, bring layout 1 up to this, and refuse any other.

    The others would be taken for none at all, and money that is promised would be promised again. For the same reason
    a ledger of layout 1 that still runs is refused by its next call: under its keys it finds no books but a mark.

    Raises:
        Conflict: the books have another layout; nothing is changed.
        Unavailable: Redis does not answer.
    """
    names = [f"ledger:{{{campaign}}}:layout", *keys(campaign), *keys(campaign, 1)]
    try:
        held: Any = client.eval(text("layout"), len(names), *names, LAYOUT)
    except redis.RedisError as error:
        raise Unavailable(f"the ledger's Redis does not answer: {error}") from error
    if held != str(LAYOUT).encode():
        raise Conflict(
            f"books of campaign {campaign!r} in Redis: their layout is {held.decode()!r}, not '{LAYOUT}'; "
            "run the ledger of that layout, or begin new books in another database"
        )
