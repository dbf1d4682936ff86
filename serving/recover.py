"""``python -m serving.recover``: bring restored books up to where the decision log ends.

A backup of the books is what the log says up to some row. The rows after it are recorded again, with their
own times and in their own order, so what is then in the books is what was there, and the log goes on where
it ends. What the log does not have is not recovered: what was decided or captured in the seconds before it
was last written, and promises that were given back and not captured, which stay open until they expire.
"""

from __future__ import annotations

import argparse
import heapq
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any, cast

import orjson
import pandas as pd

from serving.config import add_setting, read_campaign
from serving.ledger.guard import read_secret
from serving.ledger.opening import open_store
from serving.ledger.store import Decision, Entry, Outcome, OutcomeRow, Store
from shadowprice.campaign import Campaign
from shadowprice.errors import Conflict, ShadowpriceError
from shadowprice.pacing.served import ServedLog, read_log

SOURCE = "decision-log"
"""Source of the outcomes that are recorded again; the event itself, sent again, is then a repeat."""
WINDOW = 500
"""Rows under way at once; they share commits."""


def recover(store: Store, campaign: Campaign, log: ServedLog) -> tuple[int, int]:
    """Record what the log has and the books have not. Recovering again does nothing. O(rows).

    Returns:
        How many decisions and outcomes were recorded.

    Raises:
        Conflict: the books are not the log's beginning: of another log, or used since they were restored.
        Unavailable: the books cannot be used; recover again.
    """
    totals = store.totals()
    decided, settled = totals.requests, totals.outcomes
    had = sum(decided.values()), sum(settled.values())
    _check_beginning(store.decisions_after, log.decisions, had[0])
    _check_beginning(store.outcomes_after, log.outcomes, had[1])
    decisions = [_decision(row) for row in _rows(log.decisions.iloc[had[0] :], "features_at", "decided_at")]
    outcomes = [OutcomeRow(**row) for row in _rows(log.outcomes.iloc[had[1] :], "observed_at", "recorded_at")]
    # Each kind keeps its own order, which numbers the rows; the times say how the two fall into each other.
    kinds: list[list[Decision | OutcomeRow]] = [[*decisions], [*outcomes]]
    steps = heapq.merge(*kinds, key=_time)
    ttl = timedelta(hours=campaign.authorisation_ttl_hours) // timedelta(microseconds=1)
    while window := list(islice(steps, WINDOW)):
        under_way = [future for step in window for future in _submit(store, step, ttl)]
        for future in under_way:
            future.result()
    return len(decisions), len(outcomes)


def _submit(store: Store, row: Decision | OutcomeRow, ttl: int) -> Iterator[Future[Any]]:
    if isinstance(row, Decision):
        # What was answered is recorded, whether or not the money is there: no ceiling.
        yield store.authorise([Entry(row, row, (), row.decided_at + ttl)], None, row.decided_at)
        return
    if row.late:
        # Expired before; if it is open even so, somebody had given it back.
        yield store.expire(row.recorded_at)
        yield store.release([row.request_id], row.recorded_at)
    content = orjson.dumps([row.request_id, row.response, row.cost, row.observed_at]).decode()
    values = (row.request_id, SOURCE, row.request_id, row.request_id, row.side, row.response, row.cost)
    yield store.settle([Outcome(*values, row.observed_at, content)], row.recorded_at)


def _time(row: Decision | OutcomeRow) -> int:
    return row.decided_at if isinstance(row, Decision) else row.recorded_at


def _check_beginning(
    after: Callable[[int, int], Sequence[Decision] | Sequence[OutcomeRow]], logged: pd.DataFrame, had: int
) -> None:
    if not 0 < had <= len(logged):
        return
    found, expected = after(had - 1, 1)[0].request_id, logged["request_id"].iloc[had - 1]
    if found != expected:
        raise Conflict(
            f"row {had} of the books is {found!r}, that of the log {expected!r}: the books are not the log's "
            "beginning; restore the backup again and recover before the ledger is started"
        )


def _rows(frame: pd.DataFrame, *times: str) -> Iterator[dict[str, Any]]:
    """Rows as the books have them: times in microseconds, None where there is none."""
    for row in cast("list[dict[str, Any]]", frame.to_dict("records")):
        for name in times:
            row[name] = None if pd.isna(row[name]) else row[name].value // 1000
        yield row


def _decision(row: dict[str, Any]) -> Decision:
    row["propensities"] = tuple(float(each) for each in row["propensities"])
    return Decision(**{name: row[name] for name in Decision._fields})


def main() -> int:
    """Recover and say how much; 2 when it cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m serving.recover", description="Books up to the log's end.")
    environment = os.environ
    add_setting(parser, environment, "campaign-file", "campaign as JSON", type=Path)
    add_setting(parser, environment, "db", "restored sqlite file; not used with Redis", type=Path, default="ledger.db")
    add_setting(parser, environment, "redis", "restored Redis", default="", variable="SHADOWPRICE_LEDGER_REDIS")
    add_setting(
        parser,
        environment,
        "redis-password-file",
        "file with its password",
        default="",
        variable="SHADOWPRICE_LEDGER_REDIS_PASSWORD_FILE",
    )
    add_setting(parser, environment, "log-dir", "folder of the log", variable="SHADOWPRICE_LEDGER_LOG_DIR", type=Path)
    given = parser.parse_args()
    try:
        campaign = read_campaign(given.campaign_file)
        secret = read_secret(Path(given.redis_password_file) if given.redis_password_file else None)
        store = open_store(campaign, given.db, given.redis, secret)
        try:
            decisions, outcomes = recover(store, campaign, read_log(given.log_dir))
        finally:
            store.close()
    except ShadowpriceError as error:
        print(f"cannot recover: {error}", file=sys.stderr)
        return 2
    print(f"recorded again: {decisions} decisions, {outcomes} outcomes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
