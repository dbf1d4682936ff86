"""The connection to Redis: its address, its secret, and what it must be configured to keep."""

from __future__ import annotations

from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError
from redis.retry import Retry

from shadowprice.errors import InvalidInput, Unavailable

TIMEOUT_SECONDS = 1.5
"""Less than the predictor waits for the ledger, so that it is told what is wrong."""
NEEDED = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}


def connect(url: str, password: str | None) -> redis.Redis:
    """A client of ``redis://host:port/database`` or ``rediss://…``; it connects when it is used.

    Raises:
        InvalidInput: not such an address.
    """
    options: dict[str, Any] = {} if password is None else {"password": password}
    try:
        return redis.Redis.from_url(
            url,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
            **options,
        )
    except ValueError as error:
        raise InvalidInput(f"is not an address of Redis: {error}", field="redis") from None


def check_durable(client: redis.Redis) -> None:
    """Make sure that Redis answers only after what it was told is on its disk, and forgets nothing.

    A server that does not let itself be asked is trusted: managed ones forbid it.

    Raises:
        InvalidInput: it is configured to lose money.
        Unavailable: it does not answer.
    """
    try:
        for name, needed in NEEDED.items():
            found: Any = client.config_get(name)
            if found.get(name) != needed:
                raise InvalidInput(f"{name} is {found.get(name)!r}, and must be {needed!r} for a ledger", field="redis")
    except ResponseError:
        return
    except redis.RedisError as error:
        raise Unavailable(f"the ledger's Redis does not answer: {error}") from error
