"""Read the spend of a campaign so far from a Prometheus server."""

from __future__ import annotations

import json
import urllib.parse
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from shadowprice.errors import Unavailable
from shadowprice.pacing.spend import (
    LABEL,
    NEEDED,
    OPTIONAL,
    REPEAT,
    REQUESTS,
    SPEND,
    SpendReport,
    fetch,
    report_of,
)


@dataclass(frozen=True)
class PrometheusSpend:
    """Totals read through Prometheus' HTTP API.

    The totals are the counters' current values, not increases: the ledger starts its counters from its database.
    Several replicas of a ledger show the same totals: the largest of each series counts once. Raw series are read, as
    the time of recorded ones hides how old a scrape is. All totals are of one instant of the server's clock, which also
    measures their age.

    base_url         address of the server, without ``/api``
    max_age_seconds  oldest scrape of the spend that is still believed
    timeout          seconds per query
    """

    base_url: str
    max_age_seconds: float = 120.0
    timeout: float = 5.0

    def read(self, campaign: str) -> SpendReport:
        """Totals of a campaign, as :class:`shadowprice.pacing.spend.SpendSource` describes."""
        chosen = f'{{campaign="{campaign}"}}'
        scraped = self._query(f"min(timestamp({SPEND}{chosen}))")
        if not scraped:
            raise Unavailable(f"{self.base_url}: no fresh series {SPEND}{chosen}; is its target up?")
        now, value = scraped[0]["value"]
        oldest = float(value)
        if now - oldest > self.max_age_seconds:
            raise Unavailable(
                f"{self.base_url}: {SPEND}{chosen} was last scraped {now - oldest:.0f} s ago, "
                f"more than {self.max_age_seconds:.0f} s"
            )
        totals: dict[tuple[str, str], float] = {}
        decided = f'{REQUESTS}{{campaign="{campaign}",reason!="{REPEAT}"}}'
        for name in NEEDED + OPTIONAL:
            label = LABEL.get(name, "side")
            query = f"max by ({label}) ({name}{chosen})"
            if name == REQUESTS:
                query = f"sum by (side) (max by (side, level, reason) ({decided}))"
            for series in self._query(query, at=now):
                totals[name, series["metric"].get(label, "")] = float(series["value"][1])
        return report_of(totals, campaign, datetime.fromtimestamp(oldest, UTC))

    def _query(self, query: str, at: float | None = None) -> list[dict[str, Any]]:
        parameters = {"query": query} | ({} if at is None else {"time": repr(at)})
        url = f"{self.base_url.rstrip('/')}/api/v1/query?{urllib.parse.urlencode(parameters)}"
        body = fetch(url, self.timeout)
        try:
            answer = json.loads(body)
            if answer["status"] != "success" or answer["data"]["resultType"] != "vector":
                raise Unavailable(f"{self.base_url}: query {query!r} answered {body[:200]!r}")
            return list(answer["data"]["result"])
        except (ValueError, KeyError, TypeError) as error:
            raise Unavailable(f"{self.base_url}: is not a Prometheus server: {error}") from error
