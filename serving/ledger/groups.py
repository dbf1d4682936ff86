"""Calls of many threads, carried out in groups: calls that wait while one group is written form the next."""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from serving.http.limits import MAX_GROUP

logger = logging.getLogger("serving")
Group = list[tuple[Any, "Future[Any]"]]


class Groups:
    """A thread that takes jobs, as many as wait, and hands them to ``commit``.

    ``commit`` resolves every future of its group; one that it leaves open gets what it raised. A call that is
    cancelled before its turn is skipped; later it cannot be cancelled.
    """

    def __init__(self, name: str, commit: Callable[[Group], None]) -> None:
        self._commit = commit
        self._jobs: SimpleQueue[tuple[Any, Future[Any]] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Return whether jobs are still taken."""
        return self._thread.is_alive()

    def submit(self, job: Any) -> Future[Any]:
        """Hand in a job; its result comes by the future."""
        future: Future[Any] = Future()
        self._jobs.put((job, future))
        return future

    def close(self) -> None:
        """Finish what was submitted, then stop."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        going = True
        while going:
            group, going = self._next_group()
            running = [(job, future) for job, future in group if future.set_running_or_notify_cancel()]
            if not running:
                continue
            try:
                self._commit(running)
            except Exception as error:
                logger.exception("a group of the ledger failed")
                for _, future in running:
                    if not future.done():
                        future.set_exception(error)

    def _next_group(self) -> tuple[Group, bool]:
        """The jobs that wait, at least one unless the end was reached; and whether more may come."""
        group: Group = []
        entry = self._jobs.get()
        while entry is not None:
            group.append(entry)
            if len(group) == MAX_GROUP:
                return group, True
            try:
                entry = self._jobs.get_nowait()
            except Empty:
                return group, True
        return group, False
