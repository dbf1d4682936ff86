"""One read of the online store through Feast's SDK, kept in the response's own types."""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import redis
from numpy.typing import NDArray

from feature_repo.sdk import feast
from feature_repo.store import is_file
from shadowprice.errors import Unavailable

STORE_FAILURES = (OSError, sqlite3.Error, redis.RedisError, feast.errors.FeastError)
"""What the stores and their clients raise when they cannot be read or written."""

BATCH = 10_000
"""Entities of one read: sqlite takes 32,766 variables in a statement."""

Values = Mapping[str, Sequence[Any]]
"""Feature name → one protobuf value per entity."""


def look_up(store: Any, features: Any, key: str, identifiers: Sequence[str]) -> Values:
    """Values of ``features`` (a service or references) for at most ``BATCH`` entities, in their order.

    A value is empty where the entity is unknown. The response is read as protobuf: turning it into
    a dictionary, which Feast's ``to_dict`` does, costs as much again.

    Raises:
        Unavailable: the store cannot be read.
    """
    try:
        response = store.get_online_features(features=features, entity_rows={key: list(identifiers)}).proto
    except STORE_FAILURES as error:
        raise Unavailable(f"online store of {store.repo_path}: cannot be read: {error}") from error
    return {
        name: result.values for name, result in zip(response.metadata.feature_names.val, response.results, strict=True)
    }


def require_file(store: Any) -> None:
    """Raise :class:`Unavailable` where the sqlite file is gone: opening it would make an empty one."""
    config = store.config.online_store
    if is_file(config):
        path = Path(store.repo_path) / config.path
        if not path.is_file():
            raise Unavailable(f"{path}: is missing; restore it (docs/how-to/restore.md)")


def texts(values: Sequence[Any]) -> list[str | None]:
    """Text of every value, None where it is empty."""
    return [value.string_val if value.HasField("string_val") else None for value in values]


def numbers(values: Sequence[Any]) -> NDArray[np.float64]:
    """(n,) numbers, NaN where a value is empty."""
    return np.array([value.double_val if value.HasField("double_val") else np.nan for value in values], np.float64)
