"""What is asked of the books, from the sums that are kept with them."""

from __future__ import annotations

import sqlite3

from serving.ledger.store import CAUSES, time_of
from serving.ledger.totals import Totals
from serving.ledger.traffic import HOUR, Asked, Hour, Traffic
from shadowprice.campaign import Campaign, Side


def read_totals(database: sqlite3.Connection, campaign: Campaign) -> Totals:
    """Totals of every side of the campaign, zero where nothing happened yet."""
    tally = database.execute("SELECT side, level, reason, decisions, authorised, reserved FROM tally").fetchall()
    settled = {
        row[0]: row[1:]
        for row in database.execute(
            "SELECT side, outcomes, closed, expired, returned, spent, late, responses FROM settlement"
        )
    }
    authorised: dict[Side, int] = dict.fromkeys(campaign.sides, 0)
    reserved: dict[Side, int] = dict.fromkeys(campaign.sides, 0)
    for side, _, _, _, promised, held in tally:
        authorised[side] += promised
        reserved[side] += held
    column = {
        name: {side: settled.get(side, (0, 0, 0, 0, 0, 0, 0.0))[index] for side in campaign.sides}
        for index, name in enumerate(("outcomes", "closed", *CAUSES, "spent", "late", "responses"))
    }
    return Totals(
        decisions={(side, level, reason): count for side, level, reason, count, _, _ in tally},
        authorised=authorised,
        outstanding={side: reserved[side] - column["closed"][side] for side in campaign.sides},
        spent=column["spent"],
        responses=column["responses"],
        outcomes=column["outcomes"],
        released={(side, cause): column[cause][side] for side in campaign.sides for cause in CAUSES},
        late=column["late"],
    )


def read_traffic(database: sqlite3.Connection, since: int, limit: int) -> Traffic:
    """Requests decided at or after ``since``, by hours that begin there; the newest ``limit`` of them one by one."""
    hours = database.execute(
        "SELECT (decided_at - ?1) / ?2, side, COUNT(*) FROM decision WHERE decided_at >= ?1 "
        "GROUP BY 1, 2 ORDER BY 1, 2",
        (since, HOUR),
    ).fetchall()
    sample = database.execute(
        "SELECT request_id, account_id, side FROM decision WHERE decided_at >= ? ORDER BY sequence DESC LIMIT ?",
        (since, limit),
    ).fetchall()
    return Traffic(
        [Hour(time_of(since + hour * HOUR), side, count) for hour, side, count in hours],
        [Asked(*row) for row in sample],
    )
