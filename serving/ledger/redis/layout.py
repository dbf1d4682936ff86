"""Layout of a campaign's ledger in Redis, and its upgrade from earlier layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from serving.ledger.redis.scripts import KEYS, text
from shadowprice.errors import Conflict, Unavailable

LAYOUT = 4
"""Layout 1 has no sum of held amounts: an authorization held its face value. Before 3 it expired by the wall clock.

Before 4 no further limits were counted: authorizations of before belong to none."""
RETIRED = ("asked:customer", "asked:merchant")
"""Keys before 3, in place of which it has ``traffic``: the requests of each side by their times."""


def keys(campaign: str, layout: int = LAYOUT, names: Sequence[str] = KEYS) -> list[str]:
    """Return the keys of a campaign's ledger, in the order of ``KEYS``, with one hash tag."""
    return [f"ledger:{layout}:{{{campaign}}}:{key}" for key in names]


def check_layout(client: redis.Redis, campaign: str) -> None:
    """Note the layout of a campaign's ledger, upgrade an earlier one to this, and refuse any other.

    Another layout would look like an empty ledger, and its money would be authorized again. For the same reason a
    ledger process of an earlier layout is refused at its next call: its keys hold a mark.

    Raises:
        Conflict: the ledger has another layout; nothing is changed.
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
            f"ledger of campaign {campaign!r} in Redis: its layout is {held.decode()!r}, not '{LAYOUT}'; "
            "run the release of that layout, or begin a new ledger in another database"
        )
