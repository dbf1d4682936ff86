"""Putting embeddings and prices where serving reads them."""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from numpy.typing import NDArray

from feature_repo.columns import FeatureColumns, Frames, parts_of
from feature_repo.definitions import EVENT_TIME, PRICE_RECORD, PRICE_VIEW, source_file
from feature_repo.names import computed_field, embedding_view, entity_key, model_field, vector_field
from feature_repo.offline import ParquetDraft, replace_parquet
from feature_repo.online.lookup import BATCH, STORE_FAILURES, Values, look_up, numbers, require_file, texts
from feature_repo.store import store_columns
from shadowprice.campaign import SIDES, Side
from shadowprice.errors import Conflict, InvalidInput, NotFound, Unavailable
from shadowprice.price import PriceRecord
from shadowprice.progress import ProgressBar

_FRAME = ("account_id", "side", "computed_at", "embedding")


def publish_embeddings(
    store: Any, frames: Frames, model_version: str | None = None, batch: int = 2000, progress: bool = True
) -> int:
    """Write the embeddings of a model to the online store, and to its offline source.

    Goes batch by batch, one after the other, and writes only what changed: a call that was
    interrupted is resumed by calling again, numbers that the store holds of this model are not
    written again and keep their time, and an embedding never replaces a later one of the same
    model. Another model's embedding is replaced whatever its time, so that a model can be rolled
    back. Readers of the other model then see these accounts as unknown. One part of the table and
    the identifiers of all accounts are in memory.

    Args:
        store: an open store in which the model is registered.
        frames: account_id, side, computed_at (UTC), embedding (D finite float32) and perhaps own (finite float32, as
            many of each account, or nothing), which is stored behind the embedding; one row per account and side. One
            frame, or its parts in order.
        model_version: the model that computed them; the newest one registered when not given.
        batch: rows of one write, at most 10,000.
        progress: whether to show it.

    Returns:
        How many embeddings were written.

    Raises:
        InvalidInput: the table does not fit the store's description; nothing was written.
        NotFound: the model is not registered.
        Unavailable: the store cannot be written; whole batches before stay.
    """
    if not 1 <= batch <= BATCH:
        raise InvalidInput(f"must be 1 to {BATCH}", field="batch")
    columns = store_columns(store)
    version = model_version or columns.newest_model
    if version not in columns.model_versions:
        raise NotFound(f"model {version!r} is not registered; `shadowprice job register` registers it")
    require_file(store)
    _write_source(store, frames, columns, version)
    due = {embedding_view(side): partial(_is_due, store, side, version) for side in columns.sides}
    return write_due(store, due, batch, "publish embeddings" if progress else "")


def publish_price(store: Any, record: PriceRecord) -> None:
    """Point the online store at a price record. Publishing the same record again changes nothing.

    The immutable price store is the system of record: publish there first, it settles which of two
    solvers was first.

    Raises:
        PriceRejected: the record is not sealed or was altered.
        Conflict: the store holds a later version, or another record of this version.
        Unavailable: the store cannot be read or written.
    """
    record.verify()
    require_file(store)
    held = look_up(
        store, [f"{PRICE_VIEW}:price_version", f"{PRICE_VIEW}:price_sha256"], entity_key("campaign"), [record.campaign]
    )
    (sha256,) = texts(held["price_sha256"])
    version = held["price_version"][0].int64_val if sha256 is not None else 0
    if version > record.version or (version == record.version and sha256 != record.sha256):
        raise Conflict(
            f"price version {record.version} of {record.campaign!r}: version {version} is already published online; "
            "solve again, and prices go on from the newest"
        )
    if version == record.version:
        return
    row = pd.DataFrame(
        [
            {
                entity_key("campaign"): record.campaign,
                EVENT_TIME: pd.Timestamp(record.solved_at).tz_convert("UTC"),
                PRICE_RECORD: record.to_json(),
                "price_version": record.version,
                "price_slot": record.slot,
                "price_prices": json.dumps(dict(record.prices), sort_keys=True),
                "price_tie_share": float(record.tie_share),
                "price_status": record.status,
                "price_model_version": record.model_version,
                "price_solved_at": record.solved_at.astimezone(UTC).isoformat(),
                "price_expires_at": record.expires_at.astimezone(UTC).isoformat(),
                "price_sha256": record.sha256,
            }
        ]
    )
    path = source_file(Path(store.repo_path), PRICE_VIEW)
    # The row of an earlier attempt that did not reach the online store is dropped.
    tables = [pd.read_parquet(path)] if path.exists() else []
    earlier = [table[table["price_sha256"] != record.sha256] for table in tables]
    history = pd.concat([*earlier, row], ignore_index=True).astype({EVENT_TIME: "datetime64[us, UTC]"})
    replace_parquet(path, pa.Table.from_pandas(history, preserve_index=False))
    write_rows(store, PRICE_VIEW, row)


def read_price(store: Any, campaign: str) -> PriceRecord | None:
    """Return the newest price record of a campaign in the online store, or None.

    Raises:
        PriceRejected: the record fails its checksum.
        Unavailable: the store cannot be read.
    """
    require_file(store)
    (text,) = texts(look_up(store, [f"{PRICE_VIEW}:{PRICE_RECORD}"], entity_key("campaign"), [campaign])[PRICE_RECORD])
    return None if text is None else PriceRecord.from_json(text)


def _write_source(store: Any, frames: Frames, columns: FeatureColumns, version: str) -> None:
    """Write the offline source of each side, once all embeddings are found to fit."""
    names: dict[Side, list[pa.Array]] = {side: [] for side in columns.sides}
    with ExitStack() as drafts:
        writers: dict[Side, ParquetDraft] = {
            side: drafts.enter_context(
                ParquetDraft(
                    source_file(Path(store.repo_path), embedding_view(side)),
                    # Bytes of like weight together are shorter by a fifth.
                    use_dictionary=[computed_field(side), model_field(side)],
                    column_encoding={f"{vector_field(side)}.list.element": "BYTE_STREAM_SPLIT"},
                )
            )
            for side in columns.sides
        }
        for part in parts_of(frames):
            matrix = _check_embeddings(part, columns.sides, columns.embedding_width)
            computed_at = part["computed_at"].dt.tz_convert("UTC").dt.as_unit("us")
            for side in columns.sides:
                own = np.flatnonzero(part["side"] == side)
                names[side].append(pa.array(part["account_id"].to_numpy(dtype=object)[own], pa.string()))
                vectors = _with_own(matrix[own], part, own)
                ends = np.arange(0, vectors.shape[1] * own.size + 1, vectors.shape[1], dtype=np.int32)
                arrays = {
                    entity_key(side): names[side][-1],
                    EVENT_TIME: pa.array(computed_at.array[own], pa.timestamp("us", tz="UTC")),
                    vector_field(side): pa.ListArray.from_arrays(ends, vectors.reshape(-1)),
                    computed_field(side): computed_at.astype(np.int64).to_numpy()[own] / 1e6,
                    model_field(side): pa.array([version] * own.size, pa.string()),
                }
                writers[side].write(pa.table(arrays, schema=_embedding_schema(side)))
        for side, parts in names.items():
            _check_repeats(side, pa.chunked_array(parts, pa.string()))


def _with_own(matrix: NDArray[np.float32], part: pd.DataFrame, rows: NDArray[np.intp]) -> NDArray[np.float32]:
    """Embeddings of some rows, each followed by the account's own where the table has it."""
    if "own" not in part or not len(rows) or part["own"].iloc[rows[0]] is None:
        return matrix
    own = np.array(part["own"].iloc[rows].tolist(), dtype=np.float32).reshape(len(rows), -1)
    if not np.isfinite(own).all():
        wrong = rows[~np.isfinite(own).all(axis=1)][:5].tolist()
        raise InvalidInput("must be finite", field="embeddings.own", rows=wrong)
    return np.ascontiguousarray(np.concatenate([matrix, own], axis=1))


def _check_repeats(side: Side, names: pa.ChunkedArray) -> None:
    """Raise :class:`InvalidInput` where an account stands twice."""
    if pc.count_distinct(names).as_py() < len(names):
        counted = pc.value_counts(names)
        twice = counted.filter(pc.greater(counted.field("counts"), 1)).field("values")[:5].to_pylist()
        raise InvalidInput(f"an account may stand once per side; {side} repeats {twice}", field="embeddings.account_id")


def _check_embeddings(frame: pd.DataFrame, sides: tuple[Side, ...], width: int) -> NDArray[np.float32]:
    """The embeddings as float32 (n, D), or :class:`InvalidInput` about the first column that is wrong."""

    def refuse(column: str, reason: str, wrong: NDArray[np.bool_] | None = None) -> None:
        rows = [] if wrong is None else np.flatnonzero(wrong)[:5].tolist()
        raise InvalidInput(reason, field=f"embeddings.{column}", rows=rows)

    for column in _FRAME:
        if column not in frame.columns:
            refuse(column, "the column is missing")
    foreign = ~frame["side"].isin(sides).to_numpy()
    if foreign.any():
        refuse("side", f"must be one of {sides}" if set(sides) < set(SIDES) else f"must be one of {SIDES}", foreign)
    if frame["account_id"].isna().any():
        refuse("account_id", "must not be empty", frame["account_id"].isna().to_numpy())
    if not isinstance(frame["computed_at"].dtype, pd.DatetimeTZDtype):
        refuse("computed_at", "must be times in UTC")
    if frame["computed_at"].isna().any():
        refuse("computed_at", "must not be empty", frame["computed_at"].isna().to_numpy())
    short = (frame["embedding"].map(np.size) != width).to_numpy(dtype=bool)
    if short.any():
        refuse("embedding", f"must have {width} numbers", short)
    matrix = np.array(frame["embedding"].tolist(), dtype=np.float32).reshape(-1, width)
    if not np.isfinite(matrix).all():
        refuse("embedding", "must be finite", np.asarray(~np.isfinite(matrix).all(axis=1)))
    return matrix


def _embedding_schema(side: Side) -> pa.Schema:
    return pa.schema(
        {
            entity_key(side): pa.string(),
            EVENT_TIME: pa.timestamp("us", tz="UTC"),
            vector_field(side): pa.list_(pa.float32()),
            computed_field(side): pa.float64(),
            model_field(side): pa.string(),
        }
    )


def _is_due(store: Any, side: Side, version: str, rows: pd.DataFrame) -> NDArray[np.bool_]:
    """bool (n,): what the store lacks, holds of another model, or holds with other numbers of an earlier time."""

    def held(part: pd.DataFrame, *names: str) -> Values:
        references = [f"{embedding_view(side)}:{name}" for name in names]
        return look_up(store, references, entity_key(side), part[entity_key(side)].tolist())

    known = held(rows, computed_field(side), model_field(side))
    same_model = np.array([model == version for model in texts(known[model_field(side)])], dtype=bool)
    due = ~(same_model & (numbers(known[computed_field(side)]) >= rows[computed_field(side)].to_numpy()))
    # Vectors are long: they are read only where their times leave it open whether they differ.
    later = np.flatnonzero(due & same_model)
    if later.size:
        own = rows.iloc[later]
        values = held(own, vector_field(side))[vector_field(side)]
        for at, value, vector in zip(later, values, own[vector_field(side)], strict=True):
            due[at] = not np.array_equal(np.asarray(value.float_list_val.val, dtype=np.float32), vector)
    return due


def write_due(
    store: Any, due: Mapping[str, Callable[[pd.DataFrame], NDArray[np.bool_]]], batch: int, title: str
) -> int:
    """Write what is due of the offline sources of some views to the online store, batch by batch.

    Args:
        store: an open store.
        due: view → function that marks the rows of a batch to write, bool (n,).
        batch: rows of one write.
        title: of the progress; not shown where empty.

    Returns:
        How many rows were written.

    Raises:
        Unavailable: the store cannot be written; whole batches before stay.
    """
    files = {view: source_file(Path(store.repo_path), view) for view in due}
    rows, written = sum(pa.parquet.read_metadata(file).num_rows for file in files.values()), 0
    with ProgressBar(title, rows, "row", shown=bool(title)) as shown:
        for view, file in files.items():
            with pa.parquet.ParquetFile(file) as source:
                for iter_batch in source.iter_batches(batch):
                    part = iter_batch.to_pandas()
                    chosen = part[due[view](part)]
                    if len(chosen):
                        write_rows(store, view, chosen)
                    written += len(chosen)
                    shown.advance(len(part))
    return written


def write_rows(store: Any, view: str, rows: pd.DataFrame) -> None:
    """Write rows of a view to the online store, or raise :class:`Unavailable`."""
    try:
        store.write_to_online_store(view, rows)
    except STORE_FAILURES as error:
        raise Unavailable(f"online store of {store.repo_path}: cannot be written: {error}") from error
