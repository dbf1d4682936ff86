"""Labeled rows of a training set, written part by part, and the requests of the accounts to serve."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.datasets.registry import Dataset
from shadowprice.errors import InvalidInput
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.registry import MODELS
from shadowprice.tables import Tables, behaviours, labels_query, offer_features
from shadowprice.tables.database import BATCH, ROW, write_batches
from shadowprice.tables.views import CLUSTER

SPLIT_BY = ("account_id", "decided_at", CLUSTER)
"""Columns that a split reads; the last one where accounts have clusters."""


def context_of(tables: Tables, side: Side) -> tuple[str, ...]:
    """Return the columns x_* and c_* of the requests of a side in which a labeled one has a value.

    Raises:
        InvalidInput: the side has no labeled request.
    """
    names = [name for name in tables.columns("exposure") if name.startswith(("x_", "c_"))]
    counts = "".join(f', count("{name}")' for name in names)
    with tables.connect() as db:
        ((rows, *known),) = db.sql(f"SELECT count(*){counts} FROM ({labels_query(tables, side)})").fetchall()
    if not rows:
        raise InvalidInput(
            f"side {side!r} has offers but no mature outcome to learn from; add outcomes or leave its offers out",
            field="outcome",
        )
    return tuple(name for name, count in zip(names, known, strict=True) if count)


def write_labeled(
    dataset: Dataset, side: Side, context: Sequence[str], times: Sequence[datetime], path: Path
) -> dict[str, Any]:
    """Write the labeled requests of a side with their split, in the order of the exposures.

    A request whose account had no profile by the snapshot that it sees is left out. O(n) for n requests; a part of them
    is in memory.

    Args:
        dataset: with the tables and the rule that splits.
        side: whose requests.
        context: columns of the request to keep.
        times: instants of the snapshots, ascending.
        path: Parquet file with request_id, account_id, partner_id, level, propensity, response, the context, of funds
            what they have more, split, snapshot_at and weight.

    Returns:
        Rows left out, and rows of each split.

    Raises:
        InvalidInput: no request has a profile of its account from before.
    """
    tables, left_out, splits = dataset.tables, 0, Counter[str]()
    dropped = [name for name in tables.columns("exposure") if name.startswith(("x_", "c_")) and name not in context]
    unused = ", ".join(f'"{name}"' for name in (ROW, "face_value", *dropped))
    query = f"""
        SELECT l.* EXCLUDE ({unused}), epoch_us(p.first) / 1e6 AS first
        FROM ({labels_query(tables, side)}) AS l
        LEFT JOIN (
            SELECT account_id, min(snapshot_ts) AS first FROM account WHERE side = '{side}' GROUP BY account_id
        ) AS p ON p.account_id = l.account_id
        ORDER BY l.{ROW}"""
    writer = None
    try:
        with tables.connect() as db:
            for batch in db.sql(query).to_arrow_reader(BATCH):
                own = pa.Table.from_batches([batch])
                frame = own.select([name for name in SPLIT_BY if name in own.column_names]).to_pandas()
                at = frame["decided_at"].dt.as_unit("us").astype(np.int64).to_numpy() / 1e6
                known = _profiled(own["first"].to_numpy(), at, times)
                split = dataset.split.assign(frame)
                kept = own.drop_columns(["decided_at", "first"]).append_column("split", pa.array(split, pa.string()))
                kept = kept.append_column("snapshot_at", pa.array(at)).append_column(
                    "weight", pa.array(np.ones(at.size))
                )
                kept = kept.filter(pa.array(known))
                left_out += int((~known).sum())
                splits.update(split[known].tolist())
                writer = writer or pa.parquet.ParquetWriter(path, kept.schema)
                writer.write_table(kept)
    finally:
        if writer is not None:
            writer.close()
    if not splits:
        raise InvalidInput(
            f"no request of side {side!r} has a profile of its account from before; account.snapshot_ts must not be "
            "later than exposure.decided_at",
            field="account.snapshot_ts",
        )
    counts = {f"{side} {split} rows": count for split, count in splits.items()}
    return {f"{side} rows without a profile at the time": left_out} | counts


def _profiled(first: NDArray[np.float64], at: NDArray[np.float64], times: Sequence[datetime]) -> NDArray[np.bool_]:
    """bool (n,): rows whose account had its ``first`` profile by the snapshot that they see; both in unix seconds."""
    instants = np.array([time.timestamp() for time in times])
    seen = np.searchsorted(instants, at, side="right") - 1
    taken = np.where(seen >= 0, instants[np.maximum(seen, 0)], -np.inf)
    return np.asarray(first <= taken)


def write_serving(tables: Tables, side: Side, accounts: NDArray[np.str_], at: datetime, path: Path) -> None:
    """Write the current request of each account of a side: its latest, or one without context.

    ``at`` is the instant whose features it sees. Where accounts have risk tolerances, the newest one is beside it.
    O(n log n) for n requests.
    """
    names = ["partner_id", *(name for name in tables.columns("exposure") if name.startswith(("x_", "c_")))]
    columns = ", ".join(f'l."{name}"' for name in names)
    tolerance, known = "", ""
    if "risk_tolerance" in tables.columns("account"):
        tolerance = ", CAST(t.risk_tolerance AS DOUBLE) AS risk_tolerance"
        known = f"""LEFT JOIN (
            SELECT account_id, risk_tolerance FROM account WHERE side = '{side}'
            QUALIFY row_number() OVER (PARTITION BY account_id ORDER BY snapshot_ts DESC) = 1
        ) AS t ON t.account_id = s.account_id"""
    query = f"""
        SELECT s.account_id, {columns}, CAST({at.timestamp()!r} AS DOUBLE) AS snapshot_at{tolerance}
        FROM served AS s LEFT JOIN (
            SELECT * FROM exposure WHERE side = '{side}'
            QUALIFY row_number() OVER (PARTITION BY account_id ORDER BY decided_at DESC, {ROW} DESC) = 1
        ) AS l ON l.account_id = s.account_id {known}
        ORDER BY s.account_id"""
    with tables.connect() as db:
        db.register("served", pa.table({"account_id": pa.array(accounts, pa.string())}))
        write_batches(path, db.sql(query).to_arrow_reader(BATCH))


READERS: Mapping[str, Callable[[Tables], Any]] = {
    "behaviours": behaviours,
    "offers": offer_features,
}
"""Input that is a table of its own → its reader."""


def inputs_of(tables: Tables, campaign: Campaign, snapshots: Sequence[GraphSnapshot]) -> Inputs:
    """Return the inputs that a model of such rows is registered to read beside them."""
    given = Inputs(snapshots=snapshots, segments=campaign.segments)
    wanted = {name for entry in MODELS.values() if entry.about == given.about for name in entry.reads}
    return replace(given, **{name: read(tables) for name, read in READERS.items() if name in wanted})
