"""Background checks of a store, so that a fault is noticed without a caller."""

from __future__ import annotations

from contextlib import AbstractContextManager

from serving.ledger.background import repeating
from serving.ledger.store import Store


def checking(store: Store, every_seconds: float) -> AbstractContextManager[None]:
    """Check the store now and ``every_seconds``, on a thread of its own, until the context ends."""

    def step() -> bool:
        store.check()
        return False

    return repeating(step, every_seconds, name="ledger-check", meanwhile="the ledger's store fails a check")
