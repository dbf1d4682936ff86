"""Writing what the features were, and joining it to decisions as it was known when they were made."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from feature_repo.columns import FeatureColumns, Frames, feast_name, parts_of
from feature_repo.definitions import EVENT_TIME, source_file, training_service
from feature_repo.names import entity_key, snapshot_field
from feature_repo.store import open_store, store_columns
from shadowprice.campaign import Side
from shadowprice.errors import InvalidInput, Unavailable
from shadowprice.on_ray.parts import in_parts

NANOSECONDS = 1_000_000_000

_ROW = "row"
_KEYS = ("account_id", "side", "snapshot_ts")
_TIME = pa.timestamp("us", tz="UTC")


def write_profiles(store: Any, account: Frames) -> None:
    """Write the account table, every snapshot of it, as the source of the profile views.

    The files of the sides are replaced, each at once. O(rows); of a table in parts one part is in memory.

    Args:
        store: an open store whose columns describe this table.
        account: account_id, side, snapshot_ts, x_*, c_*; see the canonical tables. One frame, or its parts in order.

    Raises:
        InvalidInput: the feature columns are not those the store was created with; nothing was written.
        Unavailable: a file cannot be written.
    """

    def taken(side: Side, rows: pd.DataFrame) -> dict[str, pa.Array]:
        return {snapshot_field(side): pa.array(_nanoseconds(rows["snapshot_ts"]) // NANOSECONDS, pa.int64())}

    columns = store_columns(store)
    _write(store, account, "profile", columns.profile, ("x_", "c_"), taken)


def write_interactions(store: Any, interactions: Frames) -> None:
    """Write interaction aggregates, of one instant or several, as the source of the interaction views.

    Args:
        store: an open store whose columns describe these aggregates.
        interactions: account_id, side, snapshot_ts, h_*; see :func:`shadowprice.graphs.aggregates.interactions`. One
            frame, or its parts in order.

    Raises:
        InvalidInput: the aggregates are not those the store was created with; nothing was written.
        Unavailable: a file cannot be written.
    """
    columns = {side: names for side, names in store_columns(store).interactions.items() if names}
    _write(store, interactions, "interactions", columns, ("h_",), lambda _side, _rows: {})


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


def training_frames(store: Any, asked: Iterable[tuple[Side, pd.DataFrame]]) -> Iterator[pd.DataFrame]:
    """Yield :func:`training_frame` of each side and its exposures, in order.

    Inside :func:`~shadowprice.on_ray.parts.on_actors` each part is joined by the same Feast definitions on a Ray actor,
    which reads the sources in the store's folder.
    """
    return in_parts(_Join(store), asked)


class _Join:
    """The join of a store, which another process opens for itself."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __call__(self, asked: tuple[Side, pd.DataFrame]) -> pd.DataFrame:
        side, exposures = asked
        return training_frame(self._store, exposures, side)

    def __reduce__(self) -> Any:
        return _join_in, (self._store.repo_path,)


def _join_in(folder: Path) -> _Join:
    return _Join(open_store(folder))


def _check_columns(
    frame: pd.DataFrame, columns: Mapping[Side, tuple[str, ...]], kind: str, prefixes: tuple[str, ...]
) -> None:
    for side, expected in columns.items():
        present = [column for column in frame.columns if column.startswith(prefixes)]
        rows = frame.loc[frame["side"] == side, present]
        if not len(rows):
            continue
        filled = rows.notna().any()
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
            mend = "run `shadowprice job featurize` again"
            raise Unavailable(f"{view} is registered at {registered}; the folder was moved: {mend}")
        if not path.is_file():
            raise Unavailable(f"{path}: is missing; write the profiles and interactions first")


def _nanoseconds(times: pd.Series[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.asarray(times.dt.as_unit("ns"), dtype="datetime64[ns]").view(np.int64)


def _write(
    store: Any,
    frames: Frames,
    kind: str,
    columns: Mapping[Side, tuple[str, ...]],
    prefixes: tuple[str, ...],
    more: Callable[[Side, pd.DataFrame], dict[str, pa.Array]],
) -> None:
    """Write the rows of each side to the source of its view, once all of them are found to fit."""
    folder = Path(store.repo_path)
    with ExitStack() as drafts:
        writers: dict[Side, ParquetDraft] = {
            side: drafts.enter_context(ParquetDraft(source_file(folder, f"{side}_{kind}"))) for side in columns
        }
        for part in parts_of(frames):
            _check_columns(part, columns, kind, prefixes)
            for side, names in columns.items():
                rows = part[part["side"] == side].reindex(columns=[*_KEYS, *names])
                writers[side].write(pa.table({**_arrays(side, rows, names), **more(side, rows)}))


def _arrays(side: Side, rows: pd.DataFrame, names: tuple[str, ...]) -> dict[str, pa.Array]:
    arrays = {
        entity_key(side): pa.array(rows["account_id"], pa.string()),
        # DuckDB reads microseconds: rounded up, so that a snapshot never looks older than it is.
        EVENT_TIME: pa.array(rows["snapshot_ts"].dt.ceil("us").dt.as_unit("us"), _TIME),
    }
    for name in names:
        kind = pa.string() if name.startswith("c_") else pa.float64()
        arrays[feast_name(side, name)] = pa.array(rows[name], kind, from_pandas=True)
    return arrays


class ParquetDraft:
    """Parquet file written in parts: readers see the old one or the new one, never a part.

    It takes its place at the end of a ``with`` block that raises nothing. ``options`` are those of Arrow's writer.

    Raises:
        Unavailable: the file cannot be written.
    """

    def __init__(self, path: Path, **options: Any) -> None:
        self._path, self._options = path, {"compression": "zstd", **options}
        self._draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        self._writer: Any = None

    def __enter__(self) -> Self:
        return self

    def write(self, table: pa.Table) -> None:
        """Append rows; the first call sets the columns."""
        try:
            if self._writer is None:
                self._writer = pa.parquet.ParquetWriter(self._draft, table.schema, **self._options)
            self._writer.write_table(table)
        except OSError as error:
            raise self._refused(error) from error

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._writer is not None:
                self._writer.close()
                if kind is None:
                    os.replace(self._draft, self._path)
        except OSError as error:
            raise self._refused(error) from error
        finally:
            self._draft.unlink(missing_ok=True)

    def _refused(self, error: OSError) -> Unavailable:
        return Unavailable(f"{self._path}: cannot be written: {error}")


def replace_parquet(path: Path, table: pa.Table) -> None:
    """Write a parquet file so that readers see the old one or the new one, never a part."""
    with ParquetDraft(path) as draft:
        draft.write(table)
