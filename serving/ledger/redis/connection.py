"""The connection to Redis: its address, its secret, and the check of its settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError
from redis.retry import Retry

from shadowprice.errors import InvalidInput

TIMEOUT_SECONDS = 1.5
"""Shorter than the predictor waits for the ledger, so that the predictor receives the reason."""
NEEDED = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}


class NotDurable(redis.RedisError):
    """Redis may lose records, or does not allow the check."""


@dataclass(frozen=True)
class DurabilityCheck:
    """Checks that Redis is a master that answers after its disk has the records, and evicts none.

    declared  the operator vouches for the disk and the eviction policy, so only the role is checked
    """

    declared: bool = False

    def connected(self, connection: Any) -> None:
        """Prepare a new connection and check it before its first use; raises as the check."""
        connection.on_connect()
        self(connection)

    def __call__(self, connection: Any) -> None:
        """Check the server at the other end, in one round trip.

        Raises:
            NotDurable: it may lose records, or the check is denied.
            redis.RedisError: it does not answer.
        """
        names = () if self.declared else tuple(NEEDED)
        role, replication, *settings = _ask(
            connection, [("ROLE",), ("INFO", "replication"), *(("CONFIG", "GET", name) for name in names)]
        )
        found_role = _role(role, replication)
        if found_role != "master":
            raise NotDurable(
                f"its role is {found_role!r}, and must be 'master' for a ledger; name the master's address"
            )
        for name, answer in zip(names, settings, strict=True):
            if isinstance(answer, ResponseError):
                raise NotDurable(
                    f"{name} cannot be checked ({answer}); grant this user +config|get, or vouch for it with "
                    "--redis-durability declared"
                )
            value = _value(name, answer)
            if value != NEEDED[name]:
                raise NotDurable(f"{name} is {value!r}, and must be {NEEDED[name]!r} for a ledger")


def connect(url: str, password: str | None, check: DurabilityCheck) -> redis.Redis:
    """Return a client of ``redis://host:port/database`` or ``rediss://…``; it connects when it is used.

    Every new connection passes ``check`` before it is used.

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
            redis_connect_func=check.connected,
            **options,
        )
    except ValueError as error:
        raise InvalidInput(f"is not an address of Redis: {error}", field="redis") from None


def check_durable(client: redis.Redis, check: DurabilityCheck) -> None:
    """Check the server by a connection of the client's pool; raises as the check."""
    pool = client.connection_pool
    connection = pool.get_connection()
    try:
        check(connection)
    except redis.RedisError:
        # Answers may be left on it.
        connection.disconnect()  # type: ignore[no-untyped-call]
        raise
    finally:
        pool.release(connection)


def connected_replicas(client: redis.Redis) -> int:
    """Return the number of replicas that Redis feeds now; 0 where it does not tell."""
    try:
        information: Any = client.info("replication")
    except ResponseError:
        return 0
    kept = (information.get(f"slave{number}") for number in range(int(information.get("connected_slaves", 0))))
    return sum(isinstance(replica, dict) and replica.get("state") == "online" for replica in kept)


def _ask(connection: Any, commands: Sequence[tuple[str, ...]]) -> list[Any]:
    connection.send_packed_command(connection.pack_commands(commands))
    answers: list[Any] = []
    for _ in commands:
        try:
            answers.append(connection.read_response())
        except ResponseError as error:
            answers.append(error)
    return answers


def _role(role: Any, replication: Any) -> str:
    if not isinstance(role, ResponseError):
        return str(role[0].decode())
    if isinstance(replication, ResponseError):
        raise NotDurable(f"its role cannot be checked ({role}); grant this user +role or +info")
    lines = replication.decode().splitlines()
    return str(next((line.removeprefix("role:") for line in lines if line.startswith("role:")), ""))


def _value(name: str, answer: Any) -> str | None:
    # A list of names and values, or a map with the newer protocol.
    pairs = answer if isinstance(answer, dict) else dict(zip(answer[::2], answer[1::2], strict=True))
    value = pairs.get(name.encode())
    return None if value is None else str(value.decode())
