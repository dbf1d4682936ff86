"""``python -m serving.recover``: bring a restored ledger up to the end of the decision log.

A backup of the ledger holds the log up to some row. The command records the later rows again, with their own
dates: all decisions, then all outcomes, then all corrections, each kind in its own order. The ledger then holds
what it held before, and the log continues where it ends. Rows that the log lacks are not recovered: decisions and
captures of the seconds before it was last written, and releases and expiries of authorizations without an outcome.
Those are open again, and expire a whole time to live after the recovery: dates of a wall clock do not prove that it
has passed.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast

import orjson
import pandas as pd

from operations.common.workspace import read_campaign
from operations.erasure.files import Parquet
from operations.erasure.record import Erasures
from serving.ledger.api.authorize import asked_by
from serving.ledger.clock import time_of
from serving.ledger.opening import hold_back
from serving.ledger.records import Correction, Entry, ReportedOutcome, lone
from serving.ledger.settings import StoreSettings
from serving.ledger.store import Store
from serving.settings import setting
from shadowprice.campaign import Campaign, place_sums
from shadowprice.errors import Conflict
from shadowprice.pacing.decision_log.records import CorrectionRow, Decision, OutcomeRow
from shadowprice.pacing.decision_log.segments import SCHEMAS, RowKind
from shadowprice.pacing.decision_log.served import ServedLog, read_log

SOURCE = "decision-log"
"""Source of the outcomes that are recorded again; the event itself, sent again, is then a repeat."""
Row = Decision | OutcomeRow | CorrectionRow
WINDOW = 500
"""Rows under way at once; they share commits."""


def recover(store: Store, campaign: Campaign, log: ServedLog) -> tuple[int, int, int]:
    """Record the rows of the log that the ledger lacks. Recovering again does nothing. O(rows of ``log``).

    ``log`` may lack the rows that the ledger has, up to the one before the last (:func:`recorded`).

    Returns:
        How many decisions, outcomes and corrections were recorded.

    Raises:
        Conflict: the ledger does not begin as the log does: it is of another log, or was used since it was restored.
        Unavailable: the ledger cannot be used; recover again.
    """
    counts = recorded(store)
    skipped = [log.skipped.get(kind, 0) for kind in SCHEMAS]
    had = [counts[kind] - left_out for kind, left_out in zip(SCHEMAS, skipped, strict=True)]
    _check_beginning(store.decisions_after, log.decisions, had[0], skipped[0])
    _check_beginning(store.outcomes_after, log.outcomes, had[1], skipped[1])
    _check_beginning(store.corrections_after, log.corrections, had[2], skipped[2])
    decisions = [_decision(row) for row in _rows(log.decisions.iloc[had[0] :], "features_at", "decided_at")]
    outcomes = [OutcomeRow(**row) for row in _rows(log.outcomes.iloc[had[1] :], "observed_at", "recorded_at")]
    corrections = [CorrectionRow(**row) for row in _rows(log.corrections.iloc[had[2] :], "observed_at", "recorded_at")]
    # Each kind keeps its own order, which numbers the rows. The dates do not order the kinds: a clock that was set back
    # puts an outcome before its decision. Without a ceiling, and with lateness from the log, the sums are the same.
    steps: Iterator[Row] = chain(decisions, outcomes, corrections)
    ttl = timedelta(hours=campaign.authorization_ttl_hours) // timedelta(microseconds=1)
    while window := list(islice(steps, WINDOW)):
        under_way = [future for step in window for future in _submit(store, campaign, step, ttl)]
        for future in under_way:
            done = future.result()
            if isinstance(done, list):
                lone(done)
    return len(decisions), len(outcomes), len(corrections)


def recorded(store: Store) -> dict[RowKind, int]:
    """Rows of each kind that were ever recorded in the store."""
    totals = store.totals()
    counts = totals.requests, totals.outcomes, totals.corrected
    return {kind: sum(count.values()) for kind, count in zip(SCHEMAS, counts, strict=True)}


def _read_rest(folder: Path, store: Store) -> ServedLog:
    """Return the log from the last row of the ledger on: the part of a long log that a recovery needs."""
    return read_log(folder, {kind: max(count - 1, 0) for kind, count in recorded(store).items()})


def _submit(store: Store, campaign: Campaign, row: Row, ttl: int) -> Iterator[Future[Any]]:
    if isinstance(row, Decision):
        # What was answered is recorded, whether or not the money is there: no ceiling.
        asked, at = asked_by(row), time_of(row.decided_at)
        sums, by_level = campaign.limits.sums(asked, at), campaign.limits.sums_by_level(asked, at)
        places = place_sums(campaign.terms(row.side), row.level, row.account_id)
        entry = Entry(row, row, (), ttl, sums, places, by_level=by_level)
        yield store.authorize([[entry]], None, row.decided_at)
        return
    if isinstance(row, CorrectionRow):
        event = row.source, row.event_id, row.request_id, row.side, row.response, row.cost
        outcome = ReportedOutcome(row.request_id, *event, row.observed_at, row.content, row.misdated)
        outcome = replace(outcome, caller=row.caller, amount=row.amount)
        yield store.correct([Correction(outcome, row.kind, row.override, replayed=True)], None, row.recorded_at)
        return
    content = orjson.dumps([row.request_id, row.response, row.cost, row.observed_at]).decode()
    values = (row.request_id, SOURCE, row.request_id, row.request_id, row.side, row.response, row.cost)
    outcome = ReportedOutcome(*values, row.observed_at, content, row.misdated, row.late, row.caller, row.amount)
    # It was captured, so it is captured again: no ceiling, no refusal.
    yield store.settle([outcome], None, row.recorded_at)


def _check_beginning(after: Callable[[int, int], Sequence[Row]], logged: pd.DataFrame, had: int, skipped: int) -> None:
    if skipped and had < 1:
        raise Conflict(f"the log was read without its first {skipped} rows, and the ledger has {skipped + had}")
    if not 0 < had <= len(logged):
        return
    number = skipped + had
    first, expected = after(number - 1, 1)[0].request_id, logged["request_id"].iloc[had - 1]
    if first != expected:
        raise Conflict(
            f"row {number} of the ledger is {first!r}, that of the log {expected!r}: the ledger does not begin as the "
            "log does; restore the backup again and recover before the ledger is started"
        )


def _rows(frame: pd.DataFrame, *times: str) -> Iterator[dict[str, Any]]:
    """Rows as the ledger has them: times in microseconds, None where there is none."""
    for row in cast("list[dict[str, Any]]", frame.to_dict("records")):
        for name in times:
            row[name] = None if pd.isna(row[name]) else int(row[name].as_unit("us").asm8.view("i8"))
        if "amount" in row:
            row["amount"] = None if pd.isna(row["amount"]) else int(row["amount"])
        yield row


def _decision(row: dict[str, Any]) -> Decision:
    row["propensities"] = tuple(float(share) for share in row["propensities"])
    return Decision(**{name: row[name] for name in Decision._fields})


@dataclass(frozen=True, kw_only=True)
class RecoverSettings(StoreSettings, program="serving.recover"):
    """Bring a restored ledger up to the log's end, and delete the witness: the next start notes them anew."""

    log_dir: Path = setting("folder of the log", variable="LEDGER_LOG_DIR")
    json: bool = setting("print the result as JSON", False)


def _recover(given: RecoverSettings) -> int:
    campaign = read_campaign(given.campaign_file)
    erasures = Erasures(given.campaign_file.parent)
    for path in given.log_dir.glob("*.parquet") if erasures.every else ():
        # A damaged segment is told of when the log is read.
        with suppress(ValueError):
            Parquet(path).erase(erasures)
    # Without replicas and witness, which refuse a store that lost records.
    store = given.open(campaign)
    try:
        held = hold_back(store, campaign)
        counts = recover(store, campaign, _read_rest(given.log_dir, store))
    finally:
        store.close()
    if given.witness:
        given.witness.unlink(missing_ok=True)
    if given.json:
        print(orjson.dumps(dict(zip(("decisions", "outcomes", "corrections"), counts, strict=True))).decode())
    else:
        print("recorded again: {} decisions, {} outcomes, {} corrections".format(*counts))
    if held:
        print(
            "what is above the campaign's floor is held back: its moves are not in the log; start all ledgers and run "
            "`shadowprice portfolio move --restore`",
            file=sys.stderr,
        )
    return 0


main = RecoverSettings.main_of(_recover, failure="cannot recover", failed=2)

if __name__ == "__main__":
    sys.exit(main())
