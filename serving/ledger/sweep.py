"""The sweep: promises that expired are released though nobody asks."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Event, Thread

from serving.ledger.store import SWEEP, Store, microseconds
from shadowprice.errors import Unavailable

logger = logging.getLogger("serving")


@contextmanager
def sweeping(store: Store, every_seconds: float) -> Iterator[None]:
    """Release what is due, now and ``every_seconds``, on a thread of its own, until the context ends."""
    stop = Event()
    thread = Thread(target=_sweep, args=(store, every_seconds, stop), name="ledger-sweep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _sweep(store: Store, every_seconds: float, stop: Event) -> None:
    while not stop.is_set():
        try:
            freed = store.expire(microseconds(datetime.now(UTC))).result()
        except Unavailable as error:
            logger.warning("promises that expired stay reserved for now: %s", error)
            freed = 0
        if freed < SWEEP:
            stop.wait(every_seconds)
