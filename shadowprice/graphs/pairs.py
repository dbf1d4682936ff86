"""Ties from payments: one per pair of accounts, with its features."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from shadowprice.errors import InvalidInput
from shadowprice.graphs.tie_sums import TieSums, quoted
from shadowprice.tables.database import BATCH, Tables, empty_database, instant

MICROSECONDS_PER_DAY = 86_400e6


@dataclass(frozen=True, eq=False)
class Pairs:
    """E pairs in order of their ends.

    ends      int64 (2, E): where source and target stand among the accounts
    names     names of the features
    features  float32 (E, D)
    """

    ends: NDArray[np.int64]
    names: tuple[str, ...]
    features: NDArray[np.float32]


def pairs_until(
    tables: Tables, account_id: NDArray[np.str_], at: datetime, is_side: NDArray[np.bool_] | None = None
) -> Pairs:
    """Return one tie per pair that has an event until ``at``: number and amount of its events, their mean features,
    their recency.

    log_count and log_weight are log(1 + number) and log(1 + sum of the weights); log_days_ago is log(1 + days) since
    the last event. x_* are means over the events with known values, NaN where there are none.

    Args:
        tables: whose table ``edge`` is read; the database sums, and writes to disk what does not fit into memory.
        account_id: str (N,), the accounts.
        at: events after it are not read.
        is_side: bool (2, N), in the order of ``SIDES``. With it an event counts where its ends are of these sides, and
            others are left out; without it an unknown end is refused.

    Raises:
        InvalidInput: an event of an account that is not among ``account_id``.

    Complexity: O(n) for n events, and O(E log E) to sort the pairs.
    """
    if is_side is None:
        _refuse_strangers(tables, account_id, at)
    with TemporaryDirectory(prefix="shadowprice-") as scratch:
        return pairs_of(TieSums.until(tables, at, Path(scratch) / "ties.parquet"), account_id, is_side)


def pairs_of(sums: TieSums, account_id: NDArray[np.str_], is_side: NDArray[np.bool_] | None = None) -> Pairs:
    """Return the pairs of :func:`pairs_until` whose events are summed already. O(E log E) to sort them."""
    at, names = sums.at, sums.names
    known = np.ones((2, account_id.size), dtype=bool) if is_side is None else is_side
    nodes = pa.table(
        {
            "account_id": pa.array(account_id, pa.string()),
            "node": np.arange(account_id.size, dtype=np.int32),
            "customer": known[0],
            "merchant": known[1],
        }
    )
    means = "".join(f', "{name}" / nullif("n_{name}", 0)' for name in names)
    with empty_database() as db:
        db.register("node", nodes)
        batches = db.sql(f"""
            SELECT s.node, t.node, n, weight, last{means}
            FROM read_parquet({quoted(sums.path)}) AS e
            JOIN node AS s ON s.account_id = e.src AND s.customer
            JOIN node AS t ON t.account_id = e.dst AND t.merchant
            ORDER BY 1, 2""").to_arrow_reader(BATCH)
        parts = [_pairs(batch, at) for batch in batches]
    ends = [ends for ends, _ in parts] or [np.zeros((2, 0), dtype=np.int32)]
    features = [values for _, values in parts] or [np.zeros((0, len(names) + 3), dtype=np.float32)]
    return Pairs(
        ends=np.concatenate(ends, axis=1, dtype=np.int64),
        names=("log_count", "log_weight", *names, "log_days_ago"),
        features=np.concatenate(features),
    )


def _pairs(batch: pa.RecordBatch, at: datetime) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    source, target, count, weight, last, *means = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
    days = np.log1p((pd.Timestamp(at).value // 1000 - last) / MICROSECONDS_PER_DAY)
    features = [np.log1p(count), np.log1p(weight), *means, days]
    return np.stack([source, target]).astype(np.int32), np.stack(features, axis=1).astype(np.float32)


def _refuse_strangers(tables: Tables, account_id: NDArray[np.str_], at: datetime) -> None:
    seen = f"(SELECT * FROM edge WHERE ts <= {instant(at)})"
    for column in ("src", "dst"):
        unknown = f"SELECT DISTINCT src, dst FROM {seen} WHERE {column} NOT IN (SELECT account_id FROM node)"
        with tables.connect() as db:
            db.register("node", pa.table({"account_id": pa.array(account_id, pa.string())}))
            count, first = db.sql(f"SELECT count(*), arg_min({column}, (src, dst)) FROM ({unknown})").fetchall()[0]
        if count:
            raise InvalidInput(
                f"{count} ties name accounts without a profile at {at.isoformat()}, such as {first!r}; add their rows "
                "to the account table",
                field=f"edge.{column}",
            )
