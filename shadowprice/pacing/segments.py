"""The segments of the decision log: their columns, and their names, which say what rows they hold.

The log is a folder of parquet segments, ``decisions-<first>-<last>.parquet`` and ``outcomes-…``. A
segment is written whole or not at all and never changed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa

Kind = Literal["decisions", "outcomes"]
_TIME = pa.timestamp("us", tz="UTC")
SCHEMAS: dict[Kind, pa.Schema] = {
    "decisions": pa.schema(
        [
            ("request_id", pa.string()),
            ("account_id", pa.string()),
            ("side", pa.string()),
            ("level", pa.int32()),
            ("incentive", pa.int64()),
            ("response", pa.float64()),
            ("expected_cost", pa.float64()),
            ("propensity", pa.float64()),
            ("propensities", pa.list_(pa.float64())),
            ("reason", pa.string()),
            ("model_version", pa.string()),
            ("price_version", pa.int64()),
            ("features_at", _TIME),
            ("decided_at", _TIME),
            ("most_units", pa.int64()),
        ]
    ),
    "outcomes": pa.schema(
        [
            ("request_id", pa.string()),
            ("side", pa.string()),
            ("response", pa.float64()),
            ("cost", pa.int64()),
            ("late", pa.bool_()),
            ("observed_at", _TIME),
            ("recorded_at", _TIME),
        ]
    ),
}
"""Columns of the segments: what :class:`serving.ledger.store.Decision` and its outcome say."""
ADDED = {"most_units": 1}
"""Columns that segments of earlier releases do not have, and what their rows mean by that."""
_NAME = re.compile(r"(decisions|outcomes)-(\d{12})-(\d{12})\.parquet")


@dataclass(frozen=True)
class Segment:
    """A file of rows number ``first`` to ``last``, counted from 1."""

    path: Path
    first: int
    last: int

    @classmethod
    def named(cls, folder: Path, kind: Kind, first: int, last: int) -> Segment:
        """The segment of these rows."""
        return cls(folder / f"{kind}-{first:012d}-{last:012d}.parquet", first, last)


def segments(folder: Path, kind: Kind) -> list[Segment]:
    """The segments of a log in the order of their rows; drafts of an interrupted writer are none."""
    found = []
    for path in folder.glob(f"{kind}-*.parquet"):
        match = _NAME.fullmatch(path.name)
        if match:
            found.append(Segment(path, int(match[2]), int(match[3])))
    return sorted(found, key=lambda segment: (segment.first, segment.last))
