"""Writing what the features were, and joining it to decisions as it was known when they were made."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from feature_repo.columns import FeatureColumns, feast_name
from feature_repo.definitions import EVENT_TIME, snapshot_field, source_file, training_service
from feature_repo.names import entity_key
from feature_repo.store import store_columns
from shadowprice.campaign import Side
from shadowprice.errors import InvalidInput, Unavailable

NANOSECONDS = 1_000_000_000

_ROW = "row"
_TIME = pa.timestamp("us", tz="UTC")


def write_profiles(store: Any, account: pd.DataFrame) -> None:
    """Write the account table, every snapshot of it, as the source of the profile views.

    The files of the sides are replaced, each at once. O(rows).

    Args:
        store: an open store whose columns describe this table.
        account: account_id, side, snapshot_ts, x_*, c_*; see the canonical tables.

    Raises:
        InvalidInput: the feature columns are not those the store was created with.
        Unavailable: a file cannot be written.
    """
    columns = store_columns(store)
    _check_columns(account, columns, "profile", ("x_", "c_"))
    for side in columns.sides:
        rows = account[account["side"] == side]
        taken = {snapshot_field(side): pa.array(_nanoseconds(rows["snapshot_ts"]) // NANOSECONDS, pa.int64())}
        _write(store, f"{side}_profile", side, rows, columns.profile[side], taken)


def write_interactions(store: Any, interactions: pd.DataFrame) -> None:
    """Write interaction aggregates, of one instant or several, as the source of the interaction views.

    Args:
        store: an open store whose columns describe these aggregates.
        interactions: account_id, side, snapshot_ts, h_*; see :func:`shadowprice.graphs.aggregates.interactions`.

    Raises:
        InvalidInput: the aggregates are not those the store was created with.
        Unavailable: a file cannot be written.
    """
    columns = store_columns(store)
    _check_columns(interactions, columns, "interactions", ("h_",))
    for side, names in columns.interactions.items():
        if names:
            rows = interactions[interactions["side"] == side]
            _write(store, f"{side}_interactions", side, rows, names, {})


def training_frame(store: Any, exposures: pd.DataFrame, side: Side) -> pd.DataFrame:
    """Features of the account of every exposure, as known when it was decided.

    Of every view the newest snapshot with ``snapshot_ts <= decided_at`` counts; later ones are never
    seen. Joined by Feast in DuckDB, O(n log n) in exposures and in (exposure, earlier snapshot) pairs.

    Args:
        store: an open store with its sources written.
        exposures: account_id and decided_at (UTC); rows may repeat.
        side: whose accounts they are.

    Returns:
        One row per exposure, with its index and in its order: snapshot_at (float64, unix seconds, when
        the profile was taken), x_*, h_* (float64) and c_* (text). NaN or None where there is no earlier snapshot.

    Raises:
        InvalidInput: the store has no such side, or an exposure no account or no UTC time.
        Unavailable: the sources are not written, or lie elsewhere since the folder was moved.
    """
    columns = store_columns(store)
    if side not in columns.sides:
        raise InvalidInput(f"the feature store has no accounts of side {side!r}", field="side")
    _check_exposures(exposures, side)
    renamed = {feast_name(side, name): name for name in (*columns.profile[side], *columns.interactions.get(side, ()))}
    renamed[snapshot_field(side)] = "snapshot_at"
    _check_sources(store, side, columns)
    entities = pd.DataFrame(
        {
            entity_key(side): exposures["account_id"].to_numpy(dtype=object),
            EVENT_TIME: exposures["decided_at"].dt.tz_convert("UTC").dt.floor("us").array,
            _ROW: np.arange(len(exposures)),
        }
    )
    if entities.empty:
        joined = pd.DataFrame(columns=[_ROW, *renamed])
    else:
        service = store.get_feature_service(training_service(side))
        joined = store.get_historical_features(entity_df=entities, features=service).to_df()
    # The join keeps every row but not their order.
    rows = joined[_ROW].to_numpy(dtype=np.int64)
    place = np.argsort(rows, kind="stable")
    if not np.array_equal(rows[place], np.arange(len(exposures))):
        raise RuntimeError(f"the point-in-time join returned {len(rows)} rows for {len(exposures)} exposures")
    frame = joined[list(renamed)].rename(columns=renamed).iloc[place].set_axis(exposures.index, axis=0)
    numbers = [name for name in frame.columns if not name.startswith("c_")]
    frame = frame.astype(dict.fromkeys(numbers, np.float64))
    return frame[["snapshot_at", *(name for name in frame.columns if name != "snapshot_at")]]


def _check_columns(frame: pd.DataFrame, columns: FeatureColumns, kind: str, prefixes: tuple[str, ...]) -> None:
    for side, expected in getattr(columns, kind).items():
        present = [column for column in frame.columns if column.startswith(prefixes)]
        filled = frame.loc[frame["side"] == side, present].notna().any()
        missing = sorted(set(expected) - set(present))
        unknown = sorted(column for column in present if filled[column] and column not in expected)
        if missing or unknown:
            raise InvalidInput(
                f"missing {missing}, not registered {unknown}; create the store again with the columns of this table",
                field=f"{kind}.{side}",
            )


def _check_exposures(exposures: pd.DataFrame, side: Side) -> None:
    absent = [column for column in ("account_id", "decided_at") if column not in exposures.columns]
    if absent:
        raise InvalidInput("the column is missing", field=f"exposures.{absent[0]}")
    if not isinstance(exposures["decided_at"].dtype, pd.DatetimeTZDtype):
        raise InvalidInput("must be times in UTC", field="exposures.decided_at")
    for column in ("account_id", "decided_at"):
        empty = np.flatnonzero(exposures[column].isna())
        if empty.size:
            raise InvalidInput("must not be empty", field=f"exposures.{column}", rows=empty[:5].tolist())
    if "side" in exposures.columns:
        other = np.flatnonzero(exposures["side"] != side)
        if other.size:
            raise InvalidInput(f"must be {side}", field="exposures.side", rows=other[:5].tolist())


def _check_sources(store: Any, side: Side, columns: FeatureColumns) -> None:
    folder = Path(store.repo_path)
    for view in (f"{side}_profile", *([f"{side}_interactions"] if columns.interactions.get(side) else [])):
        path = source_file(folder, view)
        registered = store.get_feature_view(view).batch_source.path
        if registered != str(path):
            raise Unavailable(f"{view} is registered at {registered}; the folder was moved: create the store again")
        if not path.is_file():
            raise Unavailable(f"{path}: is missing; write the profiles and interactions first")


def _nanoseconds(times: pd.Series[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.asarray(times.dt.as_unit("ns"), dtype="datetime64[ns]").view(np.int64)


def _write(
    store: Any, view: str, side: Side, rows: pd.DataFrame, names: tuple[str, ...], extra: dict[str, pa.Array]
) -> None:
    arrays = {
        entity_key(side): pa.array(rows["account_id"], pa.string()),
        # DuckDB reads microseconds: rounded up, so that a snapshot never looks older than it is.
        EVENT_TIME: pa.array(rows["snapshot_ts"].dt.ceil("us").dt.as_unit("us"), _TIME),
    }
    for name in names:
        kind = pa.string() if name.startswith("c_") else pa.float64()
        arrays[feast_name(side, name)] = pa.array(rows[name], kind, from_pandas=True)
    replace_parquet(source_file(Path(store.repo_path), view), pa.table({**arrays, **extra}))


def replace_parquet(path: Path, table: pa.Table) -> None:
    """Write a parquet file so that readers see the old one or the new one, never a part."""
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        pa.parquet.write_table(table, draft)
        os.replace(draft, path)
    except OSError as error:
        raise Unavailable(f"{path}: cannot be written: {error}") from error
    finally:
        draft.unlink(missing_ok=True)
