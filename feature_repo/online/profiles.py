"""Putting the newest profile and interaction aggregates of every account where serving reads them."""

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from feature_repo.columns import SNAPSHOT, Profiles, feast_name
from feature_repo.definitions import EVENT_TIME, source_file
from feature_repo.names import account_view, columns_field, entity_key, interactions_view, profile_view, snapshot_field
from feature_repo.offline import ParquetDraft
from feature_repo.online.lookup import BATCH, look_up, require_file, texts
from feature_repo.online.publish import write_due
from feature_repo.store import store_columns
from shadowprice.campaign import Side
from shadowprice.checks import require
from shadowprice.tables.database import empty_database


def publish_profiles(store: Any, batch: int = 2000, progress: bool = True) -> int:
    """Write the newest profile and interaction aggregates of each account to the online store, as one text.

    They are read from the offline sources, which :func:`feature_repo.offline.write_profiles` and
    :func:`~feature_repo.offline.write_interactions` wrote. Goes batch by batch, one after the other, and writes only
    texts that the store does not hold: a call that was interrupted is resumed by calling again. An account whose
    profile in the store was taken later stays as it is. One batch is in memory.

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
    folder = Path(store.repo_path)
    sides = [side for side in store_columns(store).sides if source_file(folder, profile_view(side)).exists()]
    for side in sides:
        _write_source(store, side)
    due = {account_view(side): partial(_is_due, store, side) for side in sides}
    return write_due(store, due, batch, "publish profiles" if progress else "")


def _write_source(store: Any, side: Side) -> None:
    """Write the newest columns of each account to the offline source of their view."""
    columns, key, folder = store_columns(store), entity_key(side), Path(store.repo_path)
    profiles, aggregates = source_file(folder, profile_view(side)), source_file(folder, interactions_view(side))
    target = source_file(folder, account_view(side))
    names = [*columns.profile[side]]
    newest, held = f"SELECT * FROM {_newest(profiles, key)}", set(pa.parquet.read_schema(profiles).names)
    if aggregates.exists():
        names += columns.interactions.get(side, ())
        held |= set(pa.parquet.read_schema(aggregates).names)
        newest += f' LEFT JOIN (SELECT * EXCLUDE ({EVENT_TIME}) FROM {_newest(aggregates, key)}) USING ("{key}")'
    features = {SNAPSHOT: snapshot_field(side)} | {name: feast_name(side, name) for name in names}
    entries = ", ".join(f"'{name}': {_written(name, feature)}" for name, feature in features.items() if feature in held)
    text = f"CAST(to_json({{{entries}}}) AS VARCHAR) AS {columns_field(side)}"
    with empty_database() as db, ParquetDraft(target, compression_level=9, use_dictionary=False) as draft:
        reader = db.sql(f'SELECT "{key}", {EVENT_TIME}, {text} FROM ({newest})').to_arrow_reader(BATCH)
        draft.write(reader.schema.empty_table())
        for rows in reader:
            draft.write(pa.Table.from_batches([rows]))


def _written(name: str, feature: str) -> str:
    """SQL of a column in the text: aggregates, which models alone read, have the digits of their float32."""
    return f'CAST(CAST("{feature}" AS FLOAT)::VARCHAR AS JSON)' if name.startswith("h_") else f'"{feature}"'


def _newest(file: Path, key: str) -> str:
    """Relation with the newest row of each account."""
    path = str(file).replace("'", "''")
    return f"""(SELECT * FROM read_parquet('{path}')
        QUALIFY row_number() OVER (PARTITION BY "{key}" ORDER BY {EVENT_TIME} DESC) = 1)"""


def _is_due(store: Any, side: Side, rows: pd.DataFrame) -> NDArray[np.bool_]:
    """bool (n,): what the store lacks, or holds otherwise of a profile that was not taken later."""
    feature, key = columns_field(side), entity_key(side)
    held = texts(look_up(store, [f"{account_view(side)}:{feature}"], key, rows[key].tolist())[feature])
    new = rows[feature].tolist()
    due = np.array([before != now for before, now in zip(held, new, strict=True)], dtype=np.bool_)
    differs = np.flatnonzero(due)
    before, taken = (Profiles.of([column_texts[at] for at in differs], []).snapshot_at for column_texts in (held, new))
    # A time still to come, such as one in milliseconds, is a mistake that would keep out every later profile.
    due[differs] = ~((before > taken) & (before <= time.time()))
    return due
