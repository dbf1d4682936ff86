"""The one writer: jobs of many callers, as many as wait, in one durable transaction."""

import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from serving.ledger.groups import Group, Groups
from serving.ledger.sqlite.database import open_for_writing
from serving.ledger.sqlite.health import Health
from shadowprice.errors import ShadowpriceError, Unavailable

logger = logging.getLogger("serving")
Result = TypeVar("Result")
Job = Callable[[sqlite3.Connection], Result]


class Writer:
    """Runs jobs on a thread of its own, one after the other.

    Bringing a commit to disk costs far more than the statements in it, so jobs that wait share one.
    Each is a savepoint: one that fails leaves no trace and does not disturb the others. A result is
    given out only after the commit.

    turn  held from the start of a transaction to the end of its commit
    """

    def __init__(
        self, path: Path, health: Health | None = None, turn: AbstractContextManager[object] | None = None
    ) -> None:
        self._turn = nullcontext() if turn is None else turn
        self._health = health or Health(path)
        self._database = open_for_writing(path)
        self._groups = Groups("ledger-writer", self._commit)

    @property
    def alive(self) -> bool:
        """Return whether jobs are still run."""
        return self._groups.alive

    def submit(self, job: Job[Result]) -> Future[Result]:
        """Run a job in a transaction; its errors, or :class:`Unavailable` for the disk's, come by the future."""
        return self._groups.submit(job)

    def close(self) -> None:
        """Finish what was submitted, then stop."""
        self._groups.close()
        self._database.close()

    def _commit(self, group: Group) -> None:
        with self._turn:
            self._commit_in_turn(group)

    def _commit_in_turn(self, group: Group) -> None:
        database = self._database
        done: list[tuple[Future[Any], Any]] = []
        refused: list[tuple[Future[Any], Exception]] = []
        try:
            self._health.check()
            database.execute("BEGIN IMMEDIATE")
            for job, future in group:
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
            self._health.failed = None
        except Unavailable as error:
            for _, future in group:
                future.set_exception(error)
            return
        except sqlite3.Error as error:
            logger.exception("the ledger cannot write; nothing of %d jobs was kept", len(group))
            if database.in_transaction:
                database.execute("ROLLBACK")
            failure = Unavailable(f"the ledger cannot write: {error}; nothing was recorded")
            self._health.note(error)
            self._health.failed = str(failure)
            for _, future in group:
                future.set_exception(failure)
            return
        for future, result in done:
            future.set_result(result)
        for future, reason in refused:
            future.set_exception(reason)
