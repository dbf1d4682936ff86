"""Sums, dates and traffic of the ledger, from the tables that keep them."""

import sqlite3

from serving.ledger.records import CAUSES
from serving.ledger.totals import LedgerTotals
from serving.ledger.traffic import QUARTER, Asked, Traffic, by_hour
from shadowprice.campaign import Campaign, Side
from shadowprice.pacing.decision_log.records import CORRECTION_KINDS

SUMS = (
    *("outcomes", "closed", *CAUSES, "spent", "late", "responses", "misdated"),
    *("refunded", "withdrawn", "overridden", *CORRECTION_KINDS),
)
"""Columns of the sums of each side."""


def read_totals(database: sqlite3.Connection, campaign: Campaign) -> LedgerTotals:
    """Totals of every side of the campaign, zero where nothing happened yet."""
    tally = database.execute("SELECT side, level, reason, decisions, authorized, reserved FROM tally").fetchall()
    settled = {
        side: dict(zip(SUMS, sums, strict=True))
        for side, *sums in database.execute(f"SELECT side, {', '.join(SUMS)} FROM settlement")
    }
    authorized: dict[Side, int] = dict.fromkeys(campaign.sides, 0)
    reserved: dict[Side, int] = dict.fromkeys(campaign.sides, 0)
    for side, _, _, _, granted, held in tally:
        authorized[side] = authorized.get(side, 0) + granted
        reserved[side] = reserved.get(side, 0) + held
    given, received = database.execute("SELECT given, received FROM moved").fetchone()
    column = {name: {side: settled.get(side, {}).get(name, 0) for side in campaign.sides} for name in SUMS}
    return LedgerTotals(
        decisions={(side, level, reason): count for side, level, reason, count, _, _ in tally},
        authorized=authorized,
        outstanding={side: reserved[side] - column["closed"][side] for side in campaign.sides},
        spent=column["spent"],
        responses=column["responses"],
        outcomes=column["outcomes"],
        released={(side, cause): column[cause][side] for side in campaign.sides for cause in CAUSES},
        late=column["late"],
        refunded=column["refunded"],
        withdrawn=column["withdrawn"],
        overridden=column["overridden"],
        corrections={(side, kind): column[kind][side] for side in campaign.sides for kind in CORRECTION_KINDS},
        misdated=column["misdated"],
        given=given,
        received=received,
    )


def read_traffic(database: sqlite3.Connection, since: int, limit: int) -> Traffic:
    """Requests from the quarter of an hour ``since`` on, by hours that begin there; a sample of the newest ``limit``.

    O(quarters + limit), whatever the number of decisions.
    """
    counts = database.execute(
        "SELECT side, quarter, requests FROM traffic WHERE quarter >= ?", (since // QUARTER,)
    ).fetchall()
    sample = database.execute(
        "SELECT request_id, account_id, side, partner_id, context FROM (SELECT request_id, account_id, side,"
        " partner_id, context, decided_at FROM decision ORDER BY sequence DESC LIMIT ?)"
        " WHERE decided_at >= ?",
        (limit, since),
    ).fetchall()
    return Traffic(by_hour(counts, since), [Asked(*row) for row in sample])
