"""Accounts that a graph snapshot holds."""

from __future__ import annotations

from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.tables.database import Tables, instant

_END: dict[Side, str] = {"customer": "src", "merchant": "dst"}


def members(tables: Tables, side: Side, at: datetime, until: datetime | None) -> NDArray[np.str_]:
    """Return the accounts of a side that are in the snapshot of an instant, sorted.

    Of the accounts profiled by then they are those that were profiled last, those with a tie by then to another
    profiled account, and those that ask, or are asked about, before the next snapshot.

    Args:
        tables: of which ``account``, ``edge`` and ``exposure`` are read.
        side: whose accounts.
        at: the instant.
        until: the instant of the next snapshot; None: there is none.

    Complexity: O(n log n) in the rows of the tables.
    """
    before = f"AND decided_at < {instant(until)}" if until else ""
    query = f"""
        WITH profile AS (
            SELECT account_id, side, max(snapshot_ts) AS newest FROM account WHERE snapshot_ts <= {instant(at)}
            GROUP BY account_id, side
        ), own AS (
            SELECT account_id, newest FROM profile WHERE side = '{side}'
        ), tie AS (
            SELECT src, dst FROM edge WHERE ts <= {instant(at)}
            AND src IN (SELECT account_id FROM profile WHERE side = 'customer')
            AND dst IN (SELECT account_id FROM profile WHERE side = 'merchant')
        ), asked AS (
            SELECT * FROM exposure WHERE decided_at >= {instant(at)} {before}
        )
        SELECT account_id FROM own WHERE newest = (SELECT max(newest) FROM own) OR account_id IN (
            SELECT {_END[side]} FROM tie
            UNION ALL SELECT account_id FROM asked WHERE side = '{side}'
            UNION ALL SELECT partner_id FROM asked WHERE side <> '{side}' AND partner_id IS NOT NULL
        ) ORDER BY account_id"""
    with tables.connect() as db:
        return np.asarray(db.sql(query).to_arrow_table()["account_id"].to_numpy(), dtype=np.str_)
