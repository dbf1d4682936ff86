"""Embeddings and features straight from Redis, in the layout that Feast's own client writes, without Feast.

Feast's SDK turns every value into a protobuf message and back, 0.15 ms an entity of one processor, and takes seconds to
import. What it stores is simple, and has to stay so for as long as its data must be readable by its next version:

    key     1u32 · STRING u32 · len u32 · join key · STRING u32 · len u32 · identifier · project
    field   murmur3_32("view:feature"), little-endian
    value   a protobuf ``Value``: a tag, a length where it has one, and the bytes

``tests/feature_repo/test_packed.py`` holds this reader to the SDK's answers for what the SDK wrote. A value that looks
otherwise is an error, never a guess.
"""

import json
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import mmh3
import numpy as np
import redis.asyncio
import yaml
from numpy.typing import NDArray

from feature_repo.columns import Profiles, read_columns
from feature_repo.names import (
    CONFIG_FILE,
    REDIS_VARIABLE,
    account_view,
    columns_field,
    computed_field,
    embedding_view,
    entity_key,
    model_field,
    vector_field,
)
from feature_repo.varint import read_varint, varint
from shadowprice.campaign import Side
from shadowprice.errors import InvalidInput, NotFound, Unavailable

STRING = 2
_TEXT, _DOUBLE, _FLOATS = b"\x12", b"\x29", b"\x82\x01"
"""Tags of string_val (2, length-delimited), double_val (5, fixed 64) and float_list_val (16, length-delimited)."""
_NOBODY = ""


class PackedReader:
    """Reads embeddings of one model and features from Redis; answers as :class:`feature_repo.online.OnlineReader` does.

    :meth:`fetch` and :meth:`fetch_profiles` are for one event loop and keep their connections, :meth:`embeddings` and
    :meth:`profiles` for any thread that may wait.

    model_version  the model whose embeddings are read
    widths         side → length D of what is stored of an account
    """

    def __init__(
        self, path: str | os.PathLike[str], model_version: str, widths: Mapping[Side, int] | None = None
    ) -> None:
        """Read the repository's description and reach Redis once.

        Raises:
            InvalidInput: the repository's online store is not one Redis.
            NotFound: the model is not registered.
            Unavailable: the repository or Redis cannot be read.
        """
        folder = Path(path)
        columns = read_columns(folder)
        if model_version not in columns.model_versions:
            raise NotFound(
                f"feature store {folder}: model {model_version!r} is not registered; "
                "`shadowprice job register` registers it"
            )
        self.model_version = model_version
        self.widths = {side: (widths or {}).get(side, columns.embedding_width) for side in columns.sides}
        project, self._options = connection_of(folder)
        self._idle: list[Any] = []
        self._keys = {side: key_parts(entity_key(side), project) for side in columns.sides}
        self._fields = {
            side: [
                _field(embedding_view(side), feature)
                for feature in (vector_field(side), computed_field(side), model_field(side))
            ]
            for side in columns.sides
        }
        own = model_version.encode()
        self._own = _TEXT + varint(len(own)) + own
        self._vector = {side: _vector_head(width) for side, width in self.widths.items()}
        for side in columns.sides:
            self.embeddings(side, [_NOBODY])

    async def fetch(self, side: Side, account_ids: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Embeddings of accounts, in their order; identifiers may repeat. One round trip.

        Returns:
            Z float32 (n, D) and the times they were computed, float64 (n,) unix seconds (UTC); both
            NaN where the store has no embedding of this account by this model.

        Raises:
            InvalidInput: the store has no such side.
            Unavailable: Redis does not answer, or not in the layout this reader knows.
        """
        return self._found(side, await self._fetched(self._commands(side, account_ids, self._fields.get(side, []))))

    def embeddings(self, side: Side, account_ids: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Run :meth:`fetch` over a connection of its own, for a thread without an event loop."""
        return self._found(side, self._read(self._commands(side, account_ids, self._fields.get(side, []))))

    async def fetch_profiles(self, side: Side, account_ids: Sequence[str], names: Sequence[str]) -> Profiles:
        """Newest features of accounts, as :meth:`feature_repo.online.OnlineReader.profiles` reads them; one round trip.

        Raises:
            InvalidInput: the store has no such side.
            Unavailable: Redis does not answer, or not in the layout this reader knows.
        """
        return Profiles.of(_texts(await self._fetched(self._profile_commands(side, account_ids))), names)

    def profiles(self, side: Side, account_ids: Sequence[str], names: Sequence[str]) -> Profiles:
        """Run :meth:`fetch_profiles` over a connection of its own, for a thread without an event loop."""
        return Profiles.of(_texts(self._read(self._profile_commands(side, account_ids))), names)

    async def close(self) -> None:
        """Close what is kept, on the event loop of :meth:`fetch`."""
        while self._idle:
            await self._idle.pop().disconnect()

    async def _fetched(self, commands: Sequence[bytes]) -> list[Any]:
        kept = self._idle.pop() if self._idle else None
        if kept is not None:
            try:
                return await self._ask(kept, commands)
            except redis.ConnectionError:
                pass  # Redis may have been restarted since the last call; reading twice does no harm
            except redis.RedisError as error:
                raise _unread(error) from error
        try:
            return await self._ask(self._new_connection(), commands)
        except redis.RedisError as error:
            raise _unread(error) from error

    def _read(self, commands: Sequence[bytes]) -> list[Any]:
        connection: Any = redis.Redis(**self._options).connection_pool.make_connection()
        try:
            connection.send_packed_command([b"".join(commands)], check_health=False)
            return [connection.read_response(disable_decoding=True) for _ in commands]
        except redis.RedisError as error:
            raise _unread(error) from error
        finally:
            connection.disconnect()

    def _profile_commands(self, side: Side, account_ids: Sequence[str]) -> list[bytes]:
        return self._commands(side, account_ids, [_field(account_view(side), columns_field(side))])

    def _commands(self, side: Side, account_ids: Sequence[str], fields: Sequence[bytes]) -> list[bytes]:
        if side not in self._keys:
            raise InvalidInput(f"the feature store has no accounts of side {side!r}", field="side")
        before, after = self._keys[side]
        count, packed = 2 + len(fields), b"".join(fields)
        commands = []
        for account_id in account_ids:
            name = account_id.encode()
            key = b"%b%b%b%b" % (before, struct.pack("<I", len(name)), name, after)
            commands.append(b"*%d\r\n$5\r\nHMGET\r\n$%d\r\n%b\r\n%b" % (count, len(key), key, packed))
        return commands

    def _found(self, side: Side, replies: Sequence[Any]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        rows: list[int] = []
        vectors: list[bytes] = []
        times: list[bytes] = []
        head, width = self._vector[side], self.widths[side]
        start = len(head)
        for row, (vector, computed, model) in enumerate(replies):
            if model != self._own:
                continue
            if not (
                isinstance(vector, bytes)
                and vector.startswith(head)
                and len(vector) == start + 4 * width
                and isinstance(computed, bytes)
                and len(computed) == 9
                and computed.startswith(_DOUBLE)
            ):
                raise Unavailable(
                    f"{side} embeddings of model {self.model_version} are not {width} long, or Feast stores them "
                    "in a layout this reader does not know; read them with the SDK"
                )
            rows.append(row)
            vectors.append(vector[start:])
            times.append(computed[1:])
        matrix = np.full((len(replies), width), np.nan, dtype=np.float32)
        computed_at = np.full(len(replies), np.nan)
        if rows:
            matrix[rows] = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(-1, width)
            computed_at[rows] = np.frombuffer(b"".join(times), dtype="<f8")
        return matrix, computed_at

    def _new_connection(self) -> Any:
        # A client of one connection: its pool knows how to authenticate and to speak TLS.
        pool: Any = redis.asyncio.Redis(**self._options).connection_pool
        return pool.make_connection()

    async def _ask(self, connection: Any, commands: Sequence[bytes]) -> list[Any]:
        try:
            replies = await _exchange(connection, commands)
        except redis.RedisError:
            await connection.disconnect(nowait=True)
            raise
        self._idle.append(connection)
        return replies


async def _exchange(connection: Any, commands: Sequence[bytes]) -> list[Any]:
    await connection.send_packed_command([b"".join(commands)], check_health=False)
    return [await connection.read_response(disable_decoding=True) for _ in commands]


def _unread(error: Exception) -> Unavailable:
    return Unavailable(f"Redis cannot be read: {error}")


def reads(path: str | os.PathLike[str]) -> bool:
    """Return whether :class:`PackedReader` can read a repository's online store: one Redis, not a cluster of them.

    Raises:
        Unavailable: the repository's description cannot be read.
    """
    return _is_one_redis(_description(Path(path))["online_store"])


def _description(folder: Path) -> dict[str, Any]:
    try:
        return cast(dict[str, Any], yaml.safe_load((folder / CONFIG_FILE).read_text()))
    except (OSError, yaml.YAMLError) as error:
        raise Unavailable(f"feature store {folder}: {CONFIG_FILE} cannot be read: {error}") from error


def _is_one_redis(online: dict[str, Any]) -> bool:
    return bool(online["type"] == "redis" and online.get("redis_type", "redis") == "redis")


def connection_of(folder: Path) -> tuple[str, dict[str, Any]]:
    """The project, and the options of the Redis client as Feast reads them from its connection string."""
    config = _description(folder)
    online = config["online_store"]
    if not _is_one_redis(online):
        raise InvalidInput(
            f"the packed reader reads one Redis; the online store of {folder} is {online['type']}",
            field="feature_reader",
        )
    address = os.environ.get(REDIS_VARIABLE)
    if not address:
        raise Unavailable(f"feature store {folder}: the environment variable {REDIS_VARIABLE} is not set")
    options: dict[str, Any] = {}
    for part in online["connection_string"].replace(f"${{{REDIS_VARIABLE}}}", address).split(","):
        name, equals, value = part.partition("=")
        if not equals:
            host, _, port = part.partition(":")
            options |= {"host": host, "port": int(port or 6379)}
            continue
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    return config["project"], options


def key_parts(join_key: str, project: str) -> tuple[bytes, bytes]:
    """Bytes of a key before the length of the identifier, and those after the identifier."""
    name = join_key.encode()
    return struct.pack("<III", 1, STRING, len(name)) + name + struct.pack("<I", STRING), project.encode()


def _vector_head(width: int) -> bytes:
    """Bytes before the numbers of a stored list of ``width`` numbers."""
    floats = b"\x0a" + varint(4 * width)
    return _FLOATS + varint(len(floats) + 4 * width) + floats


def _hash(field: str) -> bytes:
    return struct.pack("<I", mmh3.hash(field, signed=False))


def _field(view: str, feature: str) -> bytes:
    return _bulk(_hash(f"{view}:{feature}"))


def _texts(replies: Sequence[Sequence[bytes | None]]) -> list[str | None]:
    """The text in each stored value; None where there is none."""
    return [_text(stored) if stored else None for (stored,) in replies]


def _text(stored: bytes) -> str:
    length, start = read_varint(stored, 1)
    text = stored[start:]
    if not stored.startswith(_TEXT) or len(text) != length:
        raise Unavailable("Feast stores features in a layout this reader does not know; read them with the SDK")
    return text.decode()


def _bulk(value: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(value), value)
