"""Reading the ledger's sqlite file on a connection of one's own."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import TypeVar

from serving.ledger.sqlite.database import open_for_reading
from serving.ledger.sqlite.health import STEPS, Health
from shadowprice.errors import Unavailable

Result = TypeVar("Result")


class Reader:
    """One connection that reads, for one caller at a time; it waits for no other reader and not for the writer.

    seconds  longest time that a caller waits for the others, and again that its own reading takes; None: no limit
    """

    def __init__(self, path: Path, health: Health, seconds: float | None = None) -> None:
        self._health = health
        self._seconds = seconds
        self._database = open_for_reading(path)
        self._turn = Lock()

    def read(self, query: Callable[[sqlite3.Connection], Result]) -> Result:
        """Return what ``query`` reads in one transaction, so that all of it belongs together.

        Raises:
            Unavailable: the file is damaged or cannot be read, or reading took too long.
        """
        self._health.check()
        if not self._turn.acquire(timeout=-1 if self._seconds is None else self._seconds):
            raise Unavailable(f"others read for longer than {self._seconds:g} s; send the call again later")
        try:
            return self._in_time(query)
        finally:
            self._turn.release()

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def _in_time(self, query: Callable[[sqlite3.Connection], Result]) -> Result:
        if self._seconds is not None:
            deadline = time.monotonic() + self._seconds
            self._database.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
        try:
            self._database.execute("BEGIN")
            try:
                return query(self._database)
            finally:
                self._database.execute("ROLLBACK")
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
                raise Unavailable(f"reading took longer than {self._seconds:g} s; ask for less") from error
            self._health.note(error)
            raise Unavailable(f"the ledger cannot be read: {error}") from error
