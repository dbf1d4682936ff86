"""Decision log as the console shows it: sums by side, hour and level, and all that is recorded of one request."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import numpy as np
import pandas as pd

from shadowprice.campaign import Campaign
from shadowprice.errors import NotFound, Unavailable
from shadowprice.pacing.decision_log.segments import SCHEMAS, RowKind, Segment, segments
from shadowprice.reports.mix import Mix

Found = TypeVar("Found")
ATTEMPTS = 5
"""Attempts to read a folder whose segments are being replaced by larger ones."""
THREADS = 2

CELLS = """
    WITH corrected AS (
        SELECT request_id, sum(cost - previous_cost) AS cost, sum(response - previous_response) AS response
        FROM corrections GROUP BY request_id
    )
    SELECT d.side, d.arm, d.level, d.incentive, d.reason, epoch_us(d.decided_at) // 3600000000 AS hour,
        count(*) AS requests, count(o.request_id) AS outcomes,
        sum(coalesce(o.response, 0) + coalesce(c.response, 0)) AS responses,
        sum(coalesce(o.cost, 0) + coalesce(c.cost, 0))::BIGINT AS cost
    FROM decisions d LEFT JOIN outcomes o USING (request_id) LEFT JOIN corrected c USING (request_id)
    GROUP BY ALL ORDER BY ALL"""
"""A correction has the values before it too, so the differences of all corrections of a request add up.

Hours are counted since 1970, because DuckDB needs an extension to truncate times with a zone."""

EXPLORED = """
    WITH corrected AS (
        SELECT request_id, sum(response - previous_response) AS response FROM corrections GROUP BY request_id
    ), asked AS (
        SELECT d.side, d.account_id, d.level, coalesce(o.response, 0) + coalesce(c.response, 0) AS response
        FROM decisions d LEFT JOIN outcomes o USING (request_id) LEFT JOIN corrected c USING (request_id)
        WHERE d.reason = 'explored'
    )
    SELECT side, account_id, level, count(*) AS requests, sum(response) AS responses, sum(response ^ 2) AS squares
    FROM asked GROUP BY ALL ORDER BY ALL"""
BY_CALLER = """
    SELECT coalesce(caller, '') AS caller, source, kind, override, count(*) AS corrections,
        sum(cost - previous_cost)::BIGINT AS cost, max(recorded_at) AS last
    FROM corrections GROUP BY ALL ORDER BY ALL"""
OF_ACCOUNT = """
    WITH corrected AS (
        SELECT request_id, sum(cost - previous_cost) AS cost, sum(response - previous_response) AS response
        FROM corrections GROUP BY request_id
    )
    SELECT d.request_id, d.side, d.decided_at, d.level, d.incentive, d.reason, d.arm,
        o.response + coalesce(c.response, 0) AS response, o.cost + coalesce(c.cost, 0) AS cost
    FROM decisions d LEFT JOIN outcomes o USING (request_id) LEFT JOIN corrected c USING (request_id)
    WHERE d.account_id = ? ORDER BY d.decided_at DESC, d.request_id LIMIT ?"""
REPORTED = """
    SELECT coalesce(caller, '') AS caller, count(*) AS outcomes, sum(cost)::BIGINT AS cost,
        min(recorded_at) AS first, max(recorded_at) AS last
    FROM outcomes GROUP BY 1 ORDER BY 1"""


@dataclass(frozen=True)
class Audit:
    """Recorded facts of one request: its decision, its outcome if there is one, and its corrections in order."""

    decision: dict[str, Any]
    outcome: dict[str, Any] | None
    corrections: list[dict[str, Any]]


class DecisionLog:
    """Queries over the parquet log of a ledger. Safe to share between threads.

    The log lags behind the ledger by the interval that the ledger is set to.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._summed: tuple[object, pd.DataFrame] = (None, pd.DataFrame())

    def cells(self) -> pd.DataFrame:
        """Requests, outcomes, responses and minor units paid by side, arm, level, incentive, reason and hour.

        Hours are those since 1970 (UTC). Outcomes are as corrected. O(rows of the log), once for each state of the log.

        Raises:
            NotFound: there is no log in the folder.
            Unavailable: it cannot be read.
        """

        def sums(state: object, db: duckdb.DuckDBPyConnection) -> pd.DataFrame:
            if self._summed[0] != state:
                self._summed = (state, db.sql(CELLS).df())
            return self._summed[1]

        return self._read(sums)

    def explored(self) -> pd.DataFrame:
        """Requests, responses and their squares by side, account and level, of requests whose level was drawn.

        Raises:
            NotFound: there is no log in the folder. Unavailable: it cannot be read.
        """

        def sums(_: object, db: duckdb.DuckDBPyConnection) -> pd.DataFrame:
            table: pd.DataFrame = db.sql(EXPLORED).df()
            return table

        return self._read(sums)

    def audit(self, request_id: str) -> Audit:
        """Return the recorded facts of a request.

        Raises:
            NotFound: the log has no such request, or there is no log. Unavailable: it cannot be read.
        """

        def facts(_: object, db: duckdb.DuckDBPyConnection) -> Audit | None:
            def rows(kind: RowKind) -> list[dict[str, Any]]:
                order = "ORDER BY recorded_at" if kind == "corrections" else ""
                answer = db.sql(f"SELECT * FROM {kind} WHERE request_id = ? {order}", params=[request_id])
                rows: list[dict[str, Any]] = answer.to_arrow_table().to_pylist()
                return rows

            decisions, outcomes = rows("decisions"), rows("outcomes")
            return Audit(decisions[0], next(iter(outcomes), None), rows("corrections")) if decisions else None

        audited = self._read(facts)
        if audited is None:
            raise NotFound(f"request_id: the log has no request {request_id!r}; a new one is logged within seconds")
        return audited

    def of_account(self, account_id: str, newest: int) -> list[dict[str, Any]]:
        """Return the newest requests of an account with corrected outcomes, the last first; empty where it has none.

        Raises:
            NotFound: there is no log in the folder. Unavailable: it cannot be read.
        """

        def facts(_: object, db: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
            rows: list[dict[str, Any]] = db.sql(OF_ACCOUNT, params=[account_id, newest]).to_arrow_table().to_pylist()
            return rows

        return self._read(facts)

    def changes(self, newest: int) -> dict[str, list[dict[str, Any]]]:
        """Outcomes ``reported`` by caller, corrections as ``sums`` by caller, source and kind, and the ``newest`` ones.

        The last correction comes first.

        Raises:
            NotFound: there is no log in the folder. Unavailable: it cannot be read.
        """

        def facts(_: object, db: duckdb.DuckDBPyConnection) -> dict[str, list[dict[str, Any]]]:
            last = "SELECT * FROM corrections ORDER BY recorded_at DESC, event_id LIMIT ?"
            tables = {"reported": db.sql(REPORTED), "sums": db.sql(BY_CALLER), "newest": db.sql(last, params=[newest])}
            return {name: table.to_arrow_table().to_pylist() for name, table in tables.items()}

        return self._read(facts)

    def _read(self, query: Callable[[object, duckdb.DuckDBPyConnection], Found]) -> Found:
        """Run a query over the tables ``decisions``, ``outcomes`` and ``corrections``, one at a time."""
        if not self._folder.is_dir():
            raise NotFound(f"there is no decision log in {self._folder}")
        problem = ""
        with self._lock:
            for _ in range(ATTEMPTS):
                state = {kind: _whole(self._folder, kind) for kind in SCHEMAS}
                try:
                    with duckdb.connect(config={"threads": THREADS}) as db:
                        for kind, (files, overlap) in state.items():
                            _open(db, kind, files, overlap)
                        names = [(file.path.name, overlap) for files, overlap in state.values() for file in files]
                        return query(names, db)
                except (OSError, duckdb.IOException) as error:
                    problem = str(error)
        raise Unavailable(f"the decision log cannot be read: {problem}")


def mix_of_cells(cells: pd.DataFrame, campaign: Campaign) -> tuple[Mix, datetime]:
    """Sums of a log as a mix, and the moment that its hours are counted from.

    Hours are counted from the start of the window where all decisions lie in it, else from the first decision. The
    segment of a request is its arm; ``all`` without an experiment.
    """
    first, last = (datetime.fromtimestamp(3600 * int(hour), UTC) for hour in (cells["hour"].min(), cells["hour"].max()))
    start = campaign.starts_at if campaign.starts_at <= first and last < campaign.ends_at else first
    rows = cells.assign(
        hour=cells["hour"] - int(start.timestamp() // 3600),
        segment=cells["arm"].fillna("unassigned").replace("unassigned", "all"),
    )
    sums = rows.groupby(["side", "segment", "hour", "level", "incentive"], as_index=False)[
        ["requests", "responses", "cost"]
    ].sum()
    return Mix(
        **{name: sums[name].to_numpy(dtype=str) for name in ("side", "segment")},
        **{name: sums[name].to_numpy(dtype=np.int64) for name in ("hour", "level", "incentive", "requests", "cost")},
        responses=sums["responses"].to_numpy(dtype=np.float64),
    ), start


def _whole(folder: Path, kind: RowKind) -> tuple[list[Segment], bool]:
    """Return the segments that together have each row, and whether some rows occur twice."""
    chosen: list[Segment] = []
    end, overlap = 0, False
    for segment in sorted(segments(folder, kind), key=lambda each: (each.first, -each.last)):
        if segment.last > end:
            overlap |= segment.first <= end
            chosen.append(segment)
            end = segment.last
    return chosen, overlap


def _open(db: duckdb.DuckDBPyConnection, kind: RowKind, found: list[Segment], overlap: bool) -> None:
    # A segment may lack the newest columns, which the empty table adds.
    db.register(f"{kind}_columns", SCHEMAS[kind].empty_table())
    source = f"SELECT * FROM {kind}_columns"
    if found:
        paths = ", ".join("'" + str(file.path).replace("'", "''") + "'" for file in found)
        source += f" UNION ALL BY NAME SELECT * FROM read_parquet([{paths}], union_by_name = true)"
    once = "source, event_id" if kind == "corrections" else "request_id"
    distinct = f"DISTINCT ON ({once})" if overlap else ""
    db.execute(f"CREATE VIEW {kind} AS SELECT {distinct} * FROM ({source})")
