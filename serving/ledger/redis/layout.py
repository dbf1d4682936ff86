"""Layout of a campaign's ledger in Redis."""

from collections.abc import Sequence
from typing import Any

import redis

from serving.ledger.redis.scripts import KEYS, text
from shadowprice.errors import Conflict, Unavailable

LAYOUT = 5
"""Number in the names of the keys. Another layout needs a script that moves the keys of this one."""


def keys(campaign: str, names: Sequence[str] = KEYS) -> list[str]:
    """Return the keys of a campaign's ledger, in the order of ``names``, with one hash tag."""
    return [f"ledger:{LAYOUT}:{{{campaign}}}:{key}" for key in names]


def check_layout(client: redis.Redis, campaign: str) -> None:
    """Note the layout of a campaign's ledger, and refuse any other.

    Another layout would look like an empty ledger, and its money would be authorized again.

    Raises:
        Conflict: the ledger has another layout; nothing is changed.
        Unavailable: Redis does not answer.
    """
    (sums,) = keys(campaign, ["sums"])
    try:
        held: Any = client.eval(text("layout"), 2, f"ledger:{{{campaign}}}:layout", sums, LAYOUT)
    except redis.RedisError as error:
        raise Unavailable(f"the ledger's Redis does not answer: {error}") from error
    if held != str(LAYOUT).encode():
        raise Conflict(
            f"ledger of campaign {campaign!r} in Redis: its layout is {held.decode()!r}, not '{LAYOUT}'; "
            "run the release of that layout, or begin a new ledger in another database"
        )
