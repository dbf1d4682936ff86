"""The sweep: promises that expired are released though nobody asks."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import UTC, datetime

from serving.ledger.background import repeating
from serving.ledger.store import SWEEP, Store, microseconds


def sweeping(store: Store, every_seconds: float) -> AbstractContextManager[None]:
    """Release what is due, now and ``every_seconds``, on a thread of its own, until the context ends."""

    def step() -> bool:
        return store.expire(microseconds(datetime.now(UTC))).result() >= SWEEP

    meanwhile = "promises that expired stay reserved for now"
    return repeating(step, every_seconds, name="ledger-sweep", meanwhile=meanwhile)
