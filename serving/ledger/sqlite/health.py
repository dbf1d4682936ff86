"""Faults of the file: writes that fail, pages that are damaged, a file that is not in its place any more."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from serving.ledger.sqlite.claim import Claim
from serving.ledger.sqlite.database import open_for_reading, open_for_writing
from shadowprice.errors import Unavailable

DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
OPEN_BYTES = 256 * 2**20
"""Largest file that is checked as a whole before the ledger starts."""
OPEN_SECONDS = 20.0
PORTION_SECONDS = 10.0
"""Longest check of one table while the ledger serves: the write-ahead log cannot be emptied meanwhile."""
REST = 20
"""Rest between two portions, in lengths of the first: checks take at most 5 % of a core."""
STEPS = 100_000
"""Steps of SQLite between two looks at the time."""


class Health:
    """The state of one file, for its writer and its readers.

    damage  why the file must not be used any more; it holds until the ledger is restarted on a sound file
    failed  why the newest write failed, None after one that succeeded
    """

    def __init__(self, path: Path, claim: Claim | None = None) -> None:
        self._path = path
        self._claim = claim
        self.damage: str | None = None
        self.failed: str | None = None
        self._portions: Iterator[str] = iter(())
        self._rest_until = 0.0

    @property
    def trouble(self) -> str | None:
        """The reason why writes fail, or would."""
        return self.damage or self.failed

    def check(self) -> None:
        """Raise :class:`Unavailable` where the file is damaged, or not in its place any more."""
        if self.damage is None and self._claim is not None:
            try:
                self._claim.check()
            except Unavailable as error:
                self.damage = str(error)
        if self.damage is not None:
            raise Unavailable(self.damage)

    def note(self, error: sqlite3.Error) -> None:
        """Remember an error that tells of damage."""
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGED:
            self._damaged(str(error))

    def check_whole(self) -> None:
        """Check a file that is small enough before it is used; raises :class:`Unavailable` where it is damaged."""
        if self._path.stat().st_size <= OPEN_BYTES:
            self._inspect(open_for_writing, "PRAGMA quick_check(1)", OPEN_SECONDS)
            self.check()

    def check_portion(self) -> None:
        """Check the next table, unless the last check was a short time ago; raises as :meth:`check`."""
        self.check()
        start = time.monotonic()
        if start < self._rest_until:
            return
        table = next(self._portions, None)
        if table is None:
            self._portions = iter(self._tables())
            table = next(self._portions)
        self._inspect(open_for_reading, f"PRAGMA quick_check({table})", PORTION_SECONDS)
        end = time.monotonic()
        self._rest_until = end + REST * (end - start)
        self.check()

    def _tables(self) -> list[str]:
        with closing(open_for_reading(self._path)) as database:
            return [name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]

    def _inspect(self, opened: Callable[[Path], sqlite3.Connection], check: str, seconds: float) -> None:
        """Note what a check finds. One that takes longer than ``seconds`` finds nothing."""
        deadline = time.monotonic() + seconds
        try:
            # A new connection, so that pages are read from the file.
            with closing(opened(self._path)) as database:
                database.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
                (verdict,) = database.execute(check).fetchone()
        except sqlite3.Error as error:
            self.note(error)
            return
        if verdict != "ok":
            self._damaged(verdict)

    def _damaged(self, found: str) -> None:
        self.damage = (
            f"the ledger's file {self._path} is damaged: {' '.join(found.split())}; "
            "stop the ledger, and restore and recover the file (docs/how-to/restore.md)"
        )
