"""Work that goes on beside the answers, on a thread of its own."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event, Thread

from serving.http.limits import MAX_SWEEP
from serving.ledger.store import Store
from shadowprice.errors import Conflict, Unavailable

logger = logging.getLogger("serving")


@contextmanager
def repeating(step: Callable[[], bool], every_seconds: float, *, name: str, meanwhile: str) -> Iterator[None]:
    """Call ``step`` until the context ends: now, ``every_seconds``, and once more at the end.

    A step that returns True has more to do at once. A failed step is tried again in its next turn, and the log has the
    sentence ``meanwhile``.
    """
    stop = Event()
    thread = Thread(target=_repeat, args=(step, every_seconds, stop, meanwhile), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _repeat(step: Callable[[], bool], every_seconds: float, stop: Event, meanwhile: str) -> None:
    last = False
    while not last:
        last = stop.is_set()
        more = False
        try:
            more = step()
        except (Conflict, Unavailable) as error:
            logger.warning("%s: %s", meanwhile, error)
        except Exception:  # a fault of ours: were the thread to end, nobody would notice for days
            logger.exception(meanwhile)
        if not more:
            stop.wait(every_seconds)


def sweeping(store: Store, every_seconds: float) -> AbstractContextManager[None]:
    """Release what is due, now and ``every_seconds``, on a thread of its own, until the context ends."""

    def step() -> bool:
        return store.expire(store.date()).result() >= MAX_SWEEP

    meanwhile = "expired authorizations are still held for now"
    return repeating(step, every_seconds, name="ledger-sweep", meanwhile=meanwhile)


def checking(store: Store, every_seconds: float) -> AbstractContextManager[None]:
    """Check the store now and ``every_seconds``, on a thread of its own, until the context ends."""

    def step() -> bool:
        store.check()
        return False

    return repeating(step, every_seconds, name="ledger-check", meanwhile="the ledger's store fails a check")
