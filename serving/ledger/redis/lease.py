"""A lease in Redis: at most one of the ledgers that share a campaign's store holds it at a time."""

from uuid import uuid4

import redis

TAKE = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
    return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
"""Take or extend it; KEYS: the lease; ARGV: who takes it, milliseconds. Returns 1 where it is held then."""
LEAVE = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"


class Lease:
    """The lease ``key`` of one process.

    A lease saves work and does not guard what must not happen twice: a holder that is stopped for longer than the
    lease, or a Redis that forgot it, may leave two holders for a moment.
    """

    def __init__(self, client: redis.Redis, key: str) -> None:
        self._client = client
        self._key = key
        self._holder = uuid4().hex
        self._held = False

    def take(self, seconds: float) -> bool:
        """Take or extend it for ``seconds``; whether it is held. Raises as redis."""
        self._held = bool(self._client.eval(TAKE, 1, self._key, self._holder, round(seconds * 1000)))
        return self._held

    def leave(self) -> None:
        """Let another process have it at once, where this one holds it. Raises as redis."""
        if self._held:
            self._client.eval(LEAVE, 1, self._key, self._holder)
