"""The one writer: jobs of many callers, as many as wait, in one durable transaction."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from serving.ledger.database import open_for_writing
from shadowprice.errors import ShadowpriceError, Unavailable

logger = logging.getLogger("serving")
Result = TypeVar("Result")
Job = Callable[[sqlite3.Connection], Result]
GROUP = 64
"""Most jobs in one transaction."""


class Writer:
    """Runs jobs on a thread of its own, one after the other.

    Bringing a commit to disk costs far more than the statements in it, so jobs that wait share one.
    Each is a savepoint: one that fails leaves no trace and does not disturb the others. A result is
    given out only after the commit.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._jobs: SimpleQueue[tuple[Job[Any], Future[Any]] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="ledger-writer", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether jobs are still run."""
        return self._thread.is_alive()

    def submit(self, job: Job[Result]) -> Future[Result]:
        """Run a job in a transaction; its errors, or :class:`Unavailable` for the disk's, come by the future."""
        future: Future[Result] = Future()
        self._jobs.put((job, future))
        return future

    def close(self) -> None:
        """Finish what was submitted, then stop."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        database = open_for_writing(self._path)
        try:
            going = True
            while going:
                group, going = self._next_group()
                if group:
                    self._commit(database, group)
        finally:
            database.close()

    def _next_group(self) -> tuple[list[tuple[Job[Any], Future[Any]]], bool]:
        """The jobs that wait, at least one; and whether more may come."""
        group: list[tuple[Job[Any], Future[Any]]] = []
        entry = self._jobs.get()
        while entry is not None:
            group.append(entry)
            if len(group) == GROUP:
                return group, True
            try:
                entry = self._jobs.get_nowait()
            except Empty:
                return group, True
        return group, False

    def _commit(self, database: sqlite3.Connection, group: list[tuple[Job[Any], Future[Any]]]) -> None:
        # From here on a caller who goes away can no longer cancel what is done for him.
        running = [(job, future) for job, future in group if future.set_running_or_notify_cancel()]
        done: list[tuple[Future[Any], Any]] = []
        refused: list[tuple[Future[Any], Exception]] = []
        try:
            database.execute("BEGIN IMMEDIATE")
            for job, future in running:
                database.execute("SAVEPOINT job")
                try:
                    done.append((future, job(database)))
                except sqlite3.Error:
                    raise
                except Exception as error:
                    database.execute("ROLLBACK TO job")
                    refused.append((future, error))
                    if not isinstance(error, ShadowpriceError):
                        logger.exception("a job of the ledger failed")
                database.execute("RELEASE job")
            database.execute("COMMIT")
        except sqlite3.Error as error:
            logger.exception("the ledger cannot write; nothing of %d jobs was kept", len(running))
            if database.in_transaction:
                database.execute("ROLLBACK")
            failure = Unavailable(f"the ledger cannot write: {error}; nothing was recorded")
            for _, future in running:
                future.set_exception(failure)
            return
        for future, result in done:
            future.set_result(result)
        for future, reason in refused:
            future.set_exception(reason)
