"""Metrics of the watch on the served model, from the verdict that its job keeps in the workspace."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from shadowprice.campaign import Campaign
from shadowprice.errors import ShadowpriceError
from shadowprice.watch.finding import ALL_LEVELS, ALL_SIDES, BY_LEVEL, BY_SIDE, SAMPLE_RATIO
from shadowprice.watch.verdict import Verdict

log = logging.getLogger(__name__)


class WatchCollector(Collector):
    """Gauges of the file of a verdict, read at every scrape.

    Before the first watch, and for a damaged file, no check alarms, and the age counts from the ledger's start.
    """

    def __init__(self, campaign: Campaign, file: Path) -> None:
        self._campaign = campaign
        self._file = file
        self._started = time.time()

    def collect(self) -> Iterator[Metric]:
        """The families of one scrape."""
        verdict = self._verdict()
        name = self._campaign.name
        alarms = (
            set() if verdict is None else {(finding.check, finding.side, finding.level) for finding in verdict.alarms}
        )
        alarm = GaugeMetricFamily(
            "shadowprice_watch_alarm",
            "Whether a check of the model or of the arms alarms; reason is the check, level -1 all levels together",
            labels=["campaign", "side", "level", "reason"],
        )
        for side, terms in self._campaign.sides.items():
            asked = [(check, level) for check in BY_LEVEL for level in range(len(terms.levels))]
            for check, level in [*asked, *((check, ALL_LEVELS) for check in BY_SIDE)]:
                alarm.add_metric([name, side, str(level), check], float((check, side, level) in alarms))
        if self._campaign.experiment is not None:
            found_there = (SAMPLE_RATIO, ALL_SIDES, ALL_LEVELS) in alarms
            alarm.add_metric([name, ALL_SIDES, str(ALL_LEVELS), SAMPLE_RATIO], float(found_there))
        yield alarm
        age = GaugeMetricFamily(
            "shadowprice_watch_age_seconds", "Time since the served model was last checked", labels=["campaign"]
        )
        age.add_metric([name], time.time() - (self._started if verdict is None else verdict.written_at.timestamp()))
        yield age

    def _verdict(self) -> Verdict | None:
        try:
            verdict = Verdict.read(self._file)
        except ShadowpriceError as error:
            log.warning("no verdict of the watch: %s", error)
            return None
        return verdict if verdict is not None and verdict.campaign == self._campaign.name else None
