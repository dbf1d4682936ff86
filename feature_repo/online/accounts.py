"""Accounts in the online store: what it holds of one, and removing them."""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import redis

from feature_repo.names import (
    account_view,
    columns_field,
    computed_field,
    embedding_view,
    entity_key,
    model_field,
    vector_field,
)
from feature_repo.online.lookup import STORE_FAILURES
from feature_repo.packed import connection_of, key_parts
from feature_repo.store import is_file, open_store, store_columns
from shadowprice.errors import Unavailable

BATCH = 1000
LENGTH = 4
"""Bytes before an identifier in Feast's keys."""
Match = Callable[[Iterable[str]], Collection[str]]


def held(folder: Path, account: str) -> Iterator[dict[str, Any]]:
    """Yield what decisions read of an account, for each side that has it.

    Raises:
        Unavailable: the store cannot be read.
    """
    store = open_store(folder)
    for side in store_columns(store).sides:
        views = {
            account_view(side): (columns_field(side),),
            embedding_view(side): (vector_field(side), computed_field(side), model_field(side)),
        }
        names = [f"{view}:{feature}" for view, features in views.items() for feature in features]
        try:
            rows = store.get_online_features(features=names, entity_rows=[{entity_key(side): account}]).to_dict()
        except STORE_FAILURES as error:
            raise Unavailable(f"online store of {folder}: cannot be read: {error}") from error
        values = {name: value for name, (value,) in rows.items() if name != entity_key(side)}
        if any(value is not None for value in values.values()):
            yield {"side": side, **values}


def remove(folder: Path, match: Match) -> int:
    """Remove the accounts that ``match`` chooses among those of the store; return the number of removed rows.

    Raises:
        Unavailable: the store cannot be written, or is neither a file nor one Redis.
    """
    store = open_store(folder)
    try:
        if is_file(store.config.online_store):
            return _of_file(Path(store.repo_path) / store.config.online_store.path, store, match)
        return _of_redis(folder, store, match)
    except (sqlite3.Error, redis.RedisError) as error:
        raise Unavailable(f"online store of {folder}: cannot be written: {error}; repeat the command") from error


def _of_file(path: Path, store: Any, match: Match) -> int:
    rows = 0
    with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as database:
        database.execute("PRAGMA secure_delete = ON")
        for side in store_columns(store).sides:
            for view in (account_view(side), embedding_view(side)):
                table = f'"{store.project}_{view}"'
                keys = [key for (key,) in database.execute(f"SELECT key FROM {table}")]
                rows += database.executemany(
                    f"DELETE FROM {table} WHERE key = ?", [(key,) for key in _chosen(keys, 0, None, match)]
                ).rowcount
        if rows:
            # Pages may hold traces of earlier rows.
            database.execute("VACUUM")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return rows


def _of_redis(folder: Path, store: Any, match: Match) -> int:
    project, options = connection_of(folder)
    rows = 0
    with closing(redis.Redis(**options)) as client:
        for side in store_columns(store).sides:
            before, after = key_parts(entity_key(side), project)
            keys = [key for key in client.scan_iter(count=BATCH) if key.startswith(before) and key.endswith(after)]
            chosen = _chosen(keys, len(before) + LENGTH, -len(after), match)
            rows += cast(int, client.delete(*chosen)) if chosen else 0
    return rows


def _chosen(keys: Iterable[bytes], start: int, end: int | None, match: Match) -> list[bytes]:
    names = {key[start:end].decode(errors="replace"): key for key in keys}
    return [names[name] for name in match(names)]
