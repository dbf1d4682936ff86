"""Space that the ledger uses and has left: metrics of its volumes and of its store."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from serving.ledger.records import Storage


class HeadroomCollector(Collector):
    """Gauges of ``volumes`` (name → folder on the volume) and of a store, read at every scrape.

    The folder of a volume need not exist yet. A volume that cannot be read has no series.
    """

    def __init__(self, campaign: str, storage: Callable[[], Storage], volumes: Mapping[str, Path]) -> None:
        self._campaign = campaign
        self._storage = storage
        self._volumes = volumes

    def collect(self) -> Iterator[Metric]:
        """The families of one scrape."""
        free, size = (
            GaugeMetricFamily(f"shadowprice_disk_{name}_bytes", help, labels=["campaign", "volume"])
            for name, help in (("free", "Bytes that the ledger may still write"), ("size", "Bytes of the volume"))
        )
        for volume, folder in self._volumes.items():
            try:
                space = os.statvfs(_existing(folder))
            except OSError:
                continue
            free.add_metric([self._campaign, volume], space.f_bavail * space.f_frsize)
            size.add_metric([self._campaign, volume], space.f_blocks * space.f_frsize)
        yield free
        yield size
        storage = self._storage()
        for name, help, value in (
            ("bytes", "Bytes of the store: of the sqlite files, or memory of Redis", storage.used_bytes),
            ("limit_bytes", "Bytes that the store may use; 0 without a limit of its own", storage.limit_bytes),
            ("decisions", "Decisions kept in the store", storage.decisions),
            ("outcomes", "Outcomes kept in the store", storage.outcomes),
        ):
            gauge = GaugeMetricFamily(f"shadowprice_store_{name}", help, labels=["campaign"])
            if value is not None:
                gauge.add_metric([self._campaign], value)
            yield gauge


def _existing(folder: Path) -> Path:
    """The folder, or the nearest above it that exists."""
    absolute = folder.absolute()
    return next(place for place in (absolute, *absolute.parents) if place.exists())
