"""Feast online store in a sqlite file with one short row for each entity of a view.

Feast's own sqlite store has a row for each feature of an entity, with the key of the entity in it and in two indices,
and every text twice: 3.2 kB for an account with an embedding of 64 numbers. Here a row holds all features
(:mod:`feature_repo.rows`) beside the identifier and the event time.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from feature_repo.rows import packed, shape_of, unpacked
from feature_repo.sdk import EntityKeyProto, SqliteOnlineStore, SqliteOnlineStoreConfig, serialize_entity_key

KIND = "feature_repo.compact.CompactSqliteOnlineStore"
"""Type of the store in Feast's configuration."""
PAGE_BYTES = 8192
"""Size of the file's pages: rows of a few hundred bytes leave little of them unused."""
SHAPES = "shapes"
"""Table with the shape of the first row of each view."""

Row = tuple[Any, Mapping[str, Any], datetime, datetime | None]


class CompactSqliteOnlineStoreConfig(SqliteOnlineStoreConfig):  # type: ignore[misc]
    """Configuration: the path of the file."""

    type: Literal["feature_repo.compact.CompactSqliteOnlineStore"] = KIND  # type: ignore[assignment]


class CompactSqliteOnlineStore(SqliteOnlineStore):  # type: ignore[misc]
    """Store of the rows described above; Feast makes it by the name of its class."""

    def __init__(self) -> None:
        super().__init__()
        self._shapes: dict[str, bytes] = {}

    def online_write_batch(
        self, config: Any, table: Any, data: Sequence[Row], progress: Callable[[int], Any] | None
    ) -> None:
        """Write rows of a view, each in place of the one before."""
        if not data:
            return
        name, connection = _table(config, table), self._get_conn(config)
        with connection:
            _create(connection, name)
            shape = self._shape(connection, name, shape_of(data[0][1]))
            rows = ((_key(key, config), packed(values, shape), _seconds(at)) for key, values, at, _ in data)
            connection.executemany(f"INSERT OR REPLACE INTO {name} (key, row, at) VALUES (?, ?, ?)", rows)
        if progress:
            progress(len(data))

    def online_read(
        self, config: Any, table: Any, entity_keys: Sequence[Any], requested_features: Sequence[str] | None = None
    ) -> list[tuple[datetime | None, dict[str, Any] | None]]:
        """Event time and values by name of each entity; None where it has no row."""
        del requested_features  # all of them are in the row that is read
        name, connection = _table(config, table), self._get_conn(config)
        keys = [_key(entity_key, config) for entity_key in entity_keys]
        marks = ", ".join("?" * len(keys))
        rows = connection.execute(f"SELECT key, row, at FROM {name} WHERE key IN ({marks})", keys).fetchall()
        shape = self._shape(connection, name) if rows else b""
        try:
            rows_of = {key: (datetime.fromtimestamp(at, UTC), unpacked(row, shape)) for key, row, at in rows}
        except ValueError as error:
            raise sqlite3.DatabaseError(f"{name}: {error}") from error
        return [rows_of.get(key, (None, None)) for key in keys]

    def update(
        self,
        config: Any,
        tables_to_delete: Sequence[Any],
        tables_to_keep: Sequence[Any],
        entities_to_delete: Sequence[Any],
        entities_to_keep: Sequence[Any],
        partial: bool,
    ) -> None:
        """Make the tables of the views that stay, and remove those of the others."""
        del entities_to_delete, entities_to_keep, partial
        connection = self._get_conn(config)
        with connection:
            for table in tables_to_keep:
                _create(connection, _table(config, table))
            for table in tables_to_delete:
                connection.execute(f"DROP TABLE IF EXISTS {_table(config, table)}")

    def plan(self, config: Any, desired_registry_proto: Any) -> list[Any]:
        """Name no object of Feast's own: :meth:`update` and the first write make the tables."""
        del config, desired_registry_proto
        return []

    def _shape(self, connection: sqlite3.Connection, name: str, first: bytes | None = None) -> bytes:
        """Shape that the rows of a table are compressed against; of a table without one, ``first`` becomes it."""
        if name not in self._shapes:
            if first is not None:
                connection.execute(f"INSERT OR IGNORE INTO {SHAPES} VALUES (?, ?)", (name, first))
            shape_row = connection.execute(f"SELECT shape FROM {SHAPES} WHERE name = ?", (name,)).fetchone()
            if shape_row is None:
                raise sqlite3.DatabaseError(f"{name} has rows and no shape; publish into a new store")
            self._shapes[name] = shape_row[0]
        return self._shapes[name]


def _key(entity_key: Any, config: Any) -> bytes:
    """Identifier of an entity, or where its key is not one text, Feast's bytes of it."""
    values = entity_key.entity_values
    if len(values) == 1 and values[0].WhichOneof("val") == "string_val":
        return bytes(values[0].string_val.encode())
    key: bytes = serialize_entity_key(
        EntityKeyProto.FromString(entity_key.SerializeToString()),
        entity_key_serialization_version=config.entity_key_serialization_version,
    )
    return key


def _seconds(at: datetime) -> int:
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())


def _table(config: Any, view: Any) -> str:
    """Quoted name of the table of a view."""
    return '"' + f"{config.project}_{view.name}".replace('"', '""') + '"'


def _create(connection: sqlite3.Connection, name: str) -> None:
    connection.execute(f"CREATE TABLE IF NOT EXISTS {name} (key BLOB PRIMARY KEY, row BLOB, at INTEGER)")
    connection.execute(f"CREATE TABLE IF NOT EXISTS {SHAPES} (name TEXT PRIMARY KEY, shape BLOB)")
