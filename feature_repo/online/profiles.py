"""Putting the newest profile and interaction aggregates of every account where serving reads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from feature_repo.columns import online_features
from feature_repo.definitions import EVENT_TIME, source_file
from feature_repo.names import entity_key, interactions_view, profile_view, snapshot_field
from feature_repo.online.lookup import BATCH, Values, look_up, numbers, require_file, texts, whole_numbers
from feature_repo.online.publish import write_rows
from feature_repo.store import store_columns
from shadowprice.campaign import Side
from shadowprice.checks import require
from shadowprice.progress import ProgressBar
from shadowprice.tables.database import empty_database

COUNTED = "counted_at"
"""Event time of the aggregates of a row; that of the profile is :data:`EVENT_TIME`."""


def publish_profiles(store: Any, batch: int = 2000, progress: bool = True) -> int:
    """Write the newest profile and interaction aggregates of each account to the online store.

    They are read from the offline sources, which :func:`feature_repo.offline.write_profiles` and
    :func:`~feature_repo.offline.write_interactions` wrote. Goes batch by batch, one after the other, and writes only
    rows with a value that the store does not hold: a call that was interrupted is resumed by calling again. An account
    whose profile in the store was taken later stays as it is. One batch is in memory.

    Args:
        store: an open store.
        batch: accounts of one write, at most 10,000.
        progress: whether to show it.

    Returns:
        How many accounts had something to write; 0 where no source was written yet.

    Raises:
        Unavailable: the store cannot be written; whole batches before stay.
    """
    require(1 <= batch <= BATCH, "batch", f"must be 1 to {BATCH}")
    require_file(store)
    sides = store_columns(store).sides
    sources = {
        side: file for side in sides if (file := source_file(Path(store.repo_path), profile_view(side))).exists()
    }
    written = 0
    rows = sum(pa.parquet.read_metadata(file).num_rows for file in sources.values())
    with ProgressBar("publish profiles", rows, "row", shown=progress) as shown:
        for side in sources:
            for part, snapshots in _newest(store, side, batch):
                written += _publish(store, side, part)
                shown.advance(snapshots)
    return written


def _newest(store: Any, side: Side, batch: int) -> Iterator[tuple[pd.DataFrame, int]]:
    """Yield the newest row of each account in parts, and how many snapshots the accounts of a part have."""
    key = entity_key(side)

    def relation(view: str, more: str) -> str:
        file = str(source_file(Path(store.repo_path), view)).replace("'", "''")
        return f"""(SELECT *, {more} FROM read_parquet('{file}')
            QUALIFY row_number() OVER (PARTITION BY "{key}" ORDER BY {EVENT_TIME} DESC) = 1)"""

    profiles = relation(profile_view(side), f'count(*) OVER (PARTITION BY "{key}") AS snapshots')
    query = f"SELECT * FROM {profiles}"
    if source_file(Path(store.repo_path), interactions_view(side)).exists():
        aggregates = relation(interactions_view(side), f"{EVENT_TIME} AS {COUNTED}")
        query += f' LEFT JOIN (SELECT * EXCLUDE ({EVENT_TIME}) FROM {aggregates}) USING ("{key}")'
    with empty_database() as db:
        for rows in db.sql(query).to_arrow_reader(batch):
            part = rows.to_pandas()
            yield part, int(part.pop("snapshots").sum())


def _publish(store: Any, side: Side, rows: pd.DataFrame) -> int:
    """Write what the store lacks of the newest rows of some accounts; return of how many accounts."""
    columns, key, taken = store_columns(store), entity_key(side), snapshot_field(side)
    names = [*columns.profile[side], *columns.interactions.get(side, ())]
    of: dict[str, list[str]] = {profile_view(side): [taken], interactions_view(side): []}
    for view, feature in online_features(columns, side, names).values():
        if feature in rows:
            of[view].append(feature)
    held = look_up(store, [f"{view}:{name}" for view, own in of.items() for name in own], key, rows[key].tolist())
    stays = whole_numbers(held[taken]) > rows[taken].to_numpy(dtype=np.float64)
    due = np.zeros(len(rows), dtype=np.bool_)
    for view, own in of.items():
        differs = ~stays & _differs(rows, own, held)
        if not differs.any():
            continue
        found = rows.loc[differs, [key, EVENT_TIME, *own]]
        if view == interactions_view(side):
            found[EVENT_TIME] = rows.loc[differs, COUNTED].fillna(found[EVENT_TIME])
        write_rows(store, view, found)
        due |= differs
    return int(due.sum())


def _differs(rows: pd.DataFrame, names: list[str], held: Values) -> NDArray[np.bool_]:
    """bool (n,): rows with a value that the store does not hold."""
    found = np.zeros(len(rows), dtype=np.bool_)
    for name in names:
        own = rows[name]
        if pd.api.types.is_numeric_dtype(own):
            kept = whole_numbers(held[name]) if own.dtype == np.int64 else numbers(held[name])
            value = own.to_numpy(dtype=np.float64)
            found |= ~((value == kept) | (np.isnan(value) & np.isnan(kept)))
        else:
            texts_held = texts(held[name])
            given = own.where(own.notna(), None).tolist()
            found |= np.array([each != other for each, other in zip(given, texts_held, strict=True)], dtype=np.bool_)
    return found
