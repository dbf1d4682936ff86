"""The price in force: read from the store, verified, swapped without a restart."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread

from shadowprice.errors import PriceRejected, ShadowpriceError
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord

logger = logging.getLogger("serving")


class PriceWatcher:
    """Follows the newest sound price of a campaign.

    A version is never gone back on. A record that fails its checksum, belongs to another campaign
    or version, or lacks the campaign's budget is ignored; ``on_rejected`` hears of each such version
    once. The price in force is one reference: a reader takes :attr:`current` once per call.

    Args:
        store, campaign, budget: where to look, and the name of the budget a price must hold.
        on_swap: called with every price that comes into force.
        on_rejected: called once for each version that may not be used.
        poll_seconds: how often the store is looked at.
    """

    def __init__(
        self,
        store: PriceStore,
        campaign: str,
        budget: str,
        *,
        on_swap: Callable[[PriceRecord], None],
        on_rejected: Callable[[], None],
        poll_seconds: float,
    ) -> None:
        self.current: PriceRecord | None = None
        self._store = store
        self._campaign = campaign
        self._budget = budget
        self._on_swap = on_swap
        self._on_rejected = on_rejected
        self._poll_seconds = poll_seconds
        self._rejected: set[int] = set()
        self._complaint = ""
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="price-watcher", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; the price in force stays."""
        self._stopping.set()
        self._thread.join()

    def poll(self) -> None:
        """Look once. Whatever is wrong with the store, the price in force stays."""
        try:
            versions = self._store.versions(self._campaign)
        except (ShadowpriceError, OSError) as error:
            self._complain(str(error))
            return
        in_force = 0 if self.current is None else self.current.version
        if versions and versions[-1] < in_force:
            self._reject(versions[-1], f"the store went back to version {versions[-1]}; {in_force} stays in force")
        for version in reversed([version for version in versions if version > in_force]):
            try:
                record = self._store.read(self._campaign, version)
                if self._budget not in record.prices:
                    raise PriceRejected(f"version {version} holds no price of budget {self._budget!r}")
            except PriceRejected as error:
                self._reject(version, str(error))
            except ShadowpriceError as error:
                self._complain(str(error))
            else:
                self.current = record
                self._on_swap(record)
                logger.info("price version %d of slot %d is in force", record.version, record.slot)
                return

    def _reject(self, version: int, reason: str) -> None:
        if version not in self._rejected:
            self._rejected.add(version)
            self._on_rejected()
            logger.error("price rejected: %s", reason)

    def _complain(self, reason: str) -> None:
        if reason != self._complaint:
            self._complaint = reason
            logger.error("price store: %s", reason)

    def _run(self) -> None:
        while True:
            try:
                self.poll()
            except Exception:  # the watcher must outlive any single look
                logger.exception("looking for a new price failed")
            if self._stopping.wait(self._poll_seconds):
                return
