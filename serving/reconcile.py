"""``python -m serving.reconcile``: compare the totals of the ledger, its log and Prometheus."""

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from operations.measure import MeasureJob
from serving.client.client import LedgerClient
from serving.settings import Settings, setting, setting_of
from shadowprice.pacing.decision_log.served import ServedLog, read_parts
from shadowprice.pacing.prometheus import PrometheusSpend
from shadowprice.pacing.spend import MetricsSpend, SpendReport, SpendSource

WAIT_SECONDS = 45.0
"""Longer than the ledger takes to log and Prometheus to scrape, with room."""
TOLERANCE = 1e-9
"""Relative; responses are sums of fractions, taken in another order."""


LogTotals = Mapping[tuple[str, str], float]
"""(total, side) → its value in the log; the totals are :data:`LOGGED`."""
LOGGED = (
    "requests",
    "authorized_by_side",
    "outcomes",
    "spent_by_side",
    "refunded_by_side",
    "responses",
    "withdrawn_by_side",
    "corrections_by_side",
)


@dataclass(frozen=True)
class Line:
    """One total: its value in ``source``, and the bounds of the ledger."""

    source: str
    total: str
    low: float
    found: float
    high: float

    @property
    def agrees(self) -> bool:
        """Return whether the total lies within its bounds."""
        slack = TOLERANCE * max(abs(self.low), abs(self.high))
        return self.low - slack <= self.found <= self.high + slack

    def __str__(self) -> str:
        beyond = self.found - (self.low if self.found < self.low else self.high)
        words = "agrees" if self.agrees else f"DIFFERS by {beyond:+g}"
        return f"{self.source:10}  {self.total:24}  {self.low:>14g}  {self.found:>14g}  {self.high:>14g}  {words}"


def reconcile(
    before: Mapping[str, Any], log: LogTotals | None, spend: SpendReport, after: Mapping[str, Any]
) -> list[Line]:
    """Every total of the log and of the metrics between the ledger's own of before and after.

    All totals only grow. So what the ledger had ``before`` must have reached the others, which are read
    later, and they cannot have more than it has ``after``: these bounds hold under any load, and are one
    number where nothing happened in between.
    """
    lines = []
    if log is not None:
        lines += [Line("log", *_bounded(name, before, after, value)) for name, value in log.items()]
    lines += [Line("metrics", *_bounded(name, before, after, value)) for name, value in _of_spend(spend)]
    return lines


def _bounded(
    name: tuple[str, str], before: Mapping[str, Any], after: Mapping[str, Any], found: float
) -> tuple[str, float, float, float]:
    # A side that the campaign does not have is 0 everywhere.
    total, side = name
    low, high = ((reading[total].get(side, 0) if side else reading[total]) for reading in (before, after))
    return f"{total} {side}".strip(), float(low), found, float(high)


def log_totals(parts: Iterable[ServedLog]) -> LogTotals:
    """Sums of a log that is given in parts."""
    sums = dict.fromkeys(product(LOGGED, ("customer", "merchant")), 0.0)
    for part in parts:
        for name, value in _of_part(part):
            sums[name] += value
    return sums


def _of_part(log: ServedLog) -> Iterator[tuple[tuple[str, str], float]]:
    decisions, outcomes = log.decisions.groupby("side"), log.outcomes.groupby("side")
    changes = _changes(log).groupby(log.corrections["side"]).sum()
    for total, sums in (
        ("requests", decisions.size()),
        ("authorized_by_side", decisions["incentive"].sum()),
        ("outcomes", outcomes.size()),
        ("spent_by_side", outcomes["cost"].sum().add(changes["dearer"], fill_value=0)),
        ("refunded_by_side", changes["cheaper"]),
        ("responses", outcomes["response"].sum().add(changes["more"], fill_value=0)),
        ("withdrawn_by_side", changes["less"]),
        ("corrections_by_side", changes["count"]),
    ):
        for side in ("customer", "merchant"):
            yield (total, side), float(sums.get(side, 0))


def _changes(log: ServedLog) -> pd.DataFrame:
    rows = log.corrections
    cost, response = rows["cost"] - rows["previous_cost"], rows["response"] - rows["previous_response"]
    columns = {"dearer": cost.clip(0), "cheaper": -cost.clip(upper=0)}
    return pd.DataFrame(columns | {"more": response.clip(0), "less": -response.clip(upper=0), "count": 1})


def _of_spend(spend: SpendReport) -> Iterator[tuple[tuple[str, str], float]]:
    # The counters themselves, which only grow; the report has what is left of them.
    yield ("spent", ""), float(spend.spent + spend.refunded)
    for side, requests in spend.requests.items():
        yield ("requests", side), float(requests)
    for side, responses in spend.responses.items():
        yield ("responses", side), float(responses + spend.withdrawn.get(side, 0.0))
    for side, withdrawn in spend.withdrawn.items():
        yield ("withdrawn_by_side", side), float(withdrawn)


@dataclass(frozen=True, kw_only=True)
class ReconcileSettings(Settings, program="serving.reconcile"):
    """Compare the ledger, its log and Prometheus."""

    campaign: str = setting("name of the campaign")
    ledger_url: str = setting("address of the ledger")
    prometheus_url: str = setting_of(MeasureJob, "prometheus_url")
    prometheus_labels: str = setting_of(MeasureJob, "prometheus_labels")
    prometheus_token_file: str = setting_of(MeasureJob, "prometheus_token_file")
    prometheus_ca_file: str = setting_of(MeasureJob, "prometheus_ca_file")
    log_dir: Path | None = setting("folder of the decision log; empty: not compared", None, variable="LEDGER_LOG_DIR")
    wait_seconds: float = setting("for what is under way to arrive", WAIT_SECONDS)
    json: bool = setting("print the result as JSON", False)


def _compare(given: ReconcileSettings) -> int:
    """Print the table; 0 when all agrees, 1 when something differs."""
    lines = _measure(given)
    agree = all(line.agrees for line in lines)
    if given.json:
        print(json.dumps({"agree": agree, "totals": [asdict(line) | {"agrees": line.agrees} for line in lines]}))
        return 0 if agree else 1
    print(f"{'source':10}  {'total':24}  {'at least':>14}  {'found':>14}  {'at most':>14}")
    print(*lines, sep="\n")
    return 0 if agree else 1


def _measure(given: ReconcileSettings) -> list[Line]:
    page = f"{given.ledger_url.rstrip('/')}/metrics"
    source: SpendSource = MetricsSpend([page])
    if given.prometheus_url:
        asked = (given.prometheus_url, given.prometheus_labels, given.prometheus_token_file, given.prometheus_ca_file)
        source = PrometheusSpend(*asked)
    with LedgerClient(given.ledger_url, given.campaign) as ledger:
        before = ledger.totals()
        time.sleep(given.wait_seconds)
        log = log_totals(read_parts(given.log_dir)) if given.log_dir else None
        spend = source.read(given.campaign)
        return reconcile(before, log, spend, ledger.totals())


main = ReconcileSettings.main_of(_compare, failure="cannot reconcile", failed=2)

if __name__ == "__main__":
    sys.exit(main())
