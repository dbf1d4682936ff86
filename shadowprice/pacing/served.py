"""What was really served: decisions and outcomes from the ledger's append-only log, each counted once.

A writer that was interrupted may write rows again, so segments may overlap: reading drops what was read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shadowprice.campaign import Campaign
from shadowprice.errors import InvalidTable, NotFound
from shadowprice.pacing.segments import ADDED, SCHEMAS, Kind, Segment, segments

FLAG: Final = "boolean"
WHOLE: Final = "Int64"
"""Canonical types, as :mod:`shadowprice.tables.schema` has them; the services log without its checker installed."""


@dataclass(frozen=True, eq=False)
class ServedLog:
    """The rows of a log, each request once, in the order of recording; columns of :data:`SCHEMAS`."""

    decisions: pd.DataFrame
    outcomes: pd.DataFrame


def read_log(folder: str | Path) -> ServedLog:
    """Read a log. O(rows) memory.

    Raises:
        NotFound: no such folder.
        InvalidTable: a segment is missing between others, is damaged, or holds other rows than it says.
    """
    place = Path(folder)
    if not place.is_dir():
        raise NotFound(f"there is no decision log in {place}")
    return ServedLog(_read(place, "decisions"), _read(place, "outcomes"))


def exposure_and_outcome(log: ServedLog, campaign: Campaign) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The log as the canonical tables ``exposure`` and ``outcome``.

    An offer's id is ``<side>-<incentive>``. Requests that were given nothing at all are not exposures.
    ``exploration`` says whether the level was drawn. The ledger hears a merchant's response as a ratio,
    not as the counts that the table holds, so a merchant's outcome is not mature there; judge merchants
    by ``response`` of the log itself.
    """
    decisions = log.decisions[log.decisions["level"] >= 0].reset_index(drop=True)
    exposure = pd.DataFrame(
        {
            "request_id": decisions["request_id"],
            "account_id": decisions["account_id"],
            "side": decisions["side"],
            "offer_id": decisions["side"] + "-" + decisions["incentive"].astype(str),
            "decided_at": decisions["decided_at"],
            "propensity": decisions["propensity"],
            "policy_version": decisions["model_version"],
            "price_version": decisions["price_version"].astype(WHOLE),
            "exploration": (decisions["reason"] == "explored").astype(FLAG),
        }
    )
    outcomes = log.outcomes[log.outcomes["request_id"].isin(exposure["request_id"])].reset_index(drop=True)
    customer = outcomes["side"] == "customer"
    outcome = pd.DataFrame(
        {
            "request_id": outcomes["request_id"],
            "observed_at": outcomes["observed_at"],
            "mature": customer.astype(FLAG),
            "cost_paid": outcomes["cost"].astype(WHOLE),
            "redeemed": outcomes["response"].where(customer).astype(WHOLE),
        }
    )
    unknown = set(exposure["side"]) - set(campaign.sides)
    if unknown:
        raise InvalidTable(f"campaign {campaign.name!r} has no side {sorted(unknown)}", field="decisions.side")
    return exposure, outcome


def _read(folder: Path, kind: Kind) -> pd.DataFrame:
    parts: list[pa.Table] = []
    read = 0
    for segment in segments(folder, kind):
        if segment.first > read + 1:
            raise InvalidTable(f"rows {read + 1} to {segment.first - 1} are in no segment", field=f"{folder}/{kind}")
        if segment.last > read:
            table = _table(segment, kind)
            parts.append(table.slice(read + 1 - segment.first))
            read = segment.last
    whole = pa.concat_tables(parts) if parts else SCHEMAS[kind].empty_table()
    frame: pd.DataFrame = whole.to_pandas()
    return frame.drop_duplicates("request_id", ignore_index=True)


def _table(segment: Segment, kind: Kind) -> Any:
    try:
        table = pq.read_table(segment.path, schema=SCHEMAS[kind])
    except (OSError, pa.ArrowException) as error:
        raise InvalidTable(f"cannot be read: {error}", field=str(segment.path)) from error
    if table.num_rows != segment.last - segment.first + 1:
        raise InvalidTable(f"holds {table.num_rows} rows, not those it is named by", field=str(segment.path))
    for name in ADDED.keys() & set(table.column_names):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(place), pc.fill_null(table[name], ADDED[name]))
    return table
