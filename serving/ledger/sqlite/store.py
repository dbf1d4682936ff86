"""The sqlite store: one writer on a thread of its own, one connection that reads."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Lock
from typing import TypeVar

from serving.ledger.sqlite import rows
from serving.ledger.sqlite.database import claim, create, open_for_reading
from serving.ledger.sqlite.promises import Authorise, Expire, Release, Settle
from serving.ledger.sqlite.sums import read_totals, read_traffic
from serving.ledger.sqlite.writer import Writer
from serving.ledger.store import Counted, Decision, Entry, Outcome, OutcomeRow, Recorded
from serving.ledger.totals import Totals
from serving.ledger.traffic import Traffic
from shadowprice.campaign import Campaign
from shadowprice.errors import Unavailable

Result = TypeVar("Result")


class SqliteStore:
    """A :class:`serving.ledger.store.Store` in the file ``path``, made where there is none.

    Raises:
        Conflict: the file belongs to another campaign, or another process has it.
        Unavailable: the file cannot be used.
    """

    def __init__(self, path: Path, campaign: Campaign) -> None:
        self._campaign = campaign
        self._claim = claim(path)
        try:
            create(path, campaign)
            self._database = open_for_reading(path)
        except BaseException:
            os.close(self._claim)
            raise
        self._writer = Writer(path)
        self._reading = Lock()

    @property
    def alive(self) -> bool:
        """Whether the writer runs."""
        return self._writer.alive

    def authorise(self, entries: Sequence[Entry], ceiling: int | None, at: int) -> Future[list[Recorded]]:
        """As :class:`~serving.ledger.store.Store` says; so are the others."""
        return self._writer.submit(Authorise(entries, ceiling, at))

    def settle(self, outcomes: Sequence[Outcome], at: int) -> Future[Counted]:
        """Capture."""
        return self._writer.submit(Settle(outcomes, at))

    def release(self, request_ids: Sequence[str], at: int) -> Future[Counted]:
        """Release what was not made use of."""
        return self._writer.submit(Release(request_ids, at))

    def expire(self, at: int) -> Future[int]:
        """Release what is due."""
        return self._writer.submit(Expire(at))

    def find(self, request_ids: Sequence[str]) -> dict[str, Decision]:
        """Decisions of the requests that are known."""
        return self._read(lambda database: rows.find(database, request_ids))

    def totals(self) -> Totals:
        """All sums, of one moment."""
        return self._read(lambda database: read_totals(database, self._campaign))

    def traffic(self, since: int, limit: int) -> Traffic:
        """Requests by hour, and the newest."""
        return self._read(lambda database: read_traffic(database, since, limit))

    def decisions_after(self, sequence: int, limit: int) -> list[Decision]:
        """Decisions in the order of their recording."""
        return self._read(lambda database: rows.decisions_after(database, sequence, limit))

    def outcomes_after(self, sequence: int, limit: int) -> list[OutcomeRow]:
        """Outcomes in the order of their recording."""
        return self._read(lambda database: rows.outcomes_after(database, sequence, limit))

    def close(self) -> None:
        """Finish writing and let go of the file."""
        self._writer.close()
        self._database.close()
        os.close(self._claim)

    def _read(self, query: Callable[[sqlite3.Connection], Result]) -> Result:
        with self._reading:
            try:
                # One transaction, so that all that is read belongs together.
                self._database.execute("BEGIN")
                try:
                    return query(self._database)
                finally:
                    self._database.execute("ROLLBACK")
            except sqlite3.Error as error:
                raise Unavailable(f"the ledger cannot be read: {error}") from error
