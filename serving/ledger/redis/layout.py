"""How a campaign's books are laid out in Redis, and bringing those of the layout before up to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from serving.ledger.redis.scripts import KEYS, text
from shadowprice.errors import Conflict, Unavailable

LAYOUT = 3
"""1 had no sum of what is reserved: a promise had its face value reserved. Before 3 it expired by the wall clock."""
RETIRED = ("asked:customer", "asked:merchant")
"""Keys before 3, in place of which it has ``traffic``: the requests of each side by their times."""


def keys(campaign: str, layout: int = LAYOUT, names: Sequence[str] = KEYS) -> list[str]:
    """The keys of a campaign's books, in the order of :data:`~serving.ledger.redis.scripts.KEYS`; of one hash tag."""
    return [f"ledger:{layout}:{{{campaign}}}:{key}" for key in names]


def check_layout(client: redis.Redis, campaign: str) -> None:
    """Note with which layout a campaign's books are kept, bring earlier ones up to this, and refuse any other.

    The others would be taken for none at all, and money that is promised would be promised again. For the same reason
    a ledger of an earlier layout that still runs is refused by its next call: its keys hold a mark in place of books.

    Raises:
        Conflict: the books have another layout; nothing is changed.
        Unavailable: Redis does not answer.
    """
    layouts = (LAYOUT, *range(1, LAYOUT))
    names = [
        f"ledger:{{{campaign}}}:layout",
        *(key for layout in layouts for key in keys(campaign, layout, (*KEYS, *RETIRED))),
    ]
    try:
        held: Any = client.eval(text("layout"), len(names), *names, LAYOUT)
    except redis.RedisError as error:
        raise Unavailable(f"the ledger's Redis does not answer: {error}") from error
    if held != str(LAYOUT).encode():
        raise Conflict(
            f"books of campaign {campaign!r} in Redis: their layout is {held.decode()!r}, not '{LAYOUT}'; "
            "run the ledger of that layout, or begin new books in another database"
        )
