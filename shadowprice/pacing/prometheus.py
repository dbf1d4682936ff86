"""Read the spend of a campaign so far from a Prometheus server."""

import json
import re
import urllib.parse
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from shadowprice.calls import fetch, read_line
from shadowprice.errors import InvalidInput, Unavailable
from shadowprice.pacing.spend import (
    LABEL,
    NEEDED,
    OPTIONAL,
    REPEAT,
    REQUESTS,
    SPEND,
    SpendReport,
    report_of,
)

RELEASE = ("namespace", "app_kubernetes_io_instance")
"""Labels that tell releases apart, where the Prometheus operator scrapes them."""


@dataclass(frozen=True)
class PrometheusSpend:
    """Totals read through Prometheus' HTTP API.

    The totals are the counters' current values, not increases: the ledger starts its counters from its database.
    Several replicas of a ledger show the same totals: the largest of each series counts once. Raw series are read, as
    the time of recorded ones hides how old a scrape is. All totals are of one instant of the server's clock, which also
    measures their age.

    Releases that share the server may have campaigns of one name. ``labels`` choose the series of one release, and
    series of several are refused.

    base_url         address of the server, without ``/api``
    labels           that the series must have, as ``namespace=growth,release=spring``
    token_file       with a bearer token that is shown; empty: none
    ca_file          with the authority that signed the server's certificate; empty: the system's
    max_age_seconds  oldest scrape of the spend that is still believed
    timeout          seconds per query
    """

    base_url: str
    labels: str = ""
    token_file: str = ""
    ca_file: str = ""
    max_age_seconds: float = 120.0
    timeout: float = 5.0

    def read(self, campaign: str) -> SpendReport:
        """Totals of a campaign, as :class:`shadowprice.pacing.spend.SpendSource` describes.

        Raises:
            InvalidInput: labels or token file cannot be read.
            Unavailable: the server does not answer, or has no fresh series or those of several releases.
        """
        matchers = ",".join([f'campaign="{campaign}"', *map(_matcher, filter(None, self.labels.split(",")))])
        chosen = f"{{{matchers}}}"
        scraped = self._query(f"min by ({', '.join(RELEASE)}) (timestamp({SPEND}{chosen}))")
        if not scraped:
            raise Unavailable(f"{self.base_url}: no fresh series {SPEND}{chosen}; is its target up?")
        if len(scraped) > 1:
            releases = sorted(
                "/".join(scraped_series["metric"].get(label, "?") for label in RELEASE) for scraped_series in scraped
            )
            raise Unavailable(
                f"{self.base_url}: {SPEND}{chosen} comes from several releases ({', '.join(releases)}); "
                "choose one by prometheus_labels, such as namespace=growth"
            )
        now, value = scraped[0]["value"]
        oldest = float(value)
        if now - oldest > self.max_age_seconds:
            raise Unavailable(
                f"{self.base_url}: {SPEND}{chosen} was last scraped {now - oldest:.0f} s ago, "
                f"more than {self.max_age_seconds:.0f} s"
            )
        totals: dict[tuple[str, str], float] = {}
        decided = f'{REQUESTS}{{{matchers},reason!="{REPEAT}"}}'
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
        token = read_line(self.token_file, "prometheus_token_file")
        body = fetch(url, self.timeout, token=token, ca_file=self.ca_file)
        try:
            answer = json.loads(body)
            if answer["status"] != "success" or answer["data"]["resultType"] != "vector":
                raise Unavailable(f"{self.base_url}: query {query!r} answered {body[:200]!r}")
            return list(answer["data"]["result"])
        except (ValueError, KeyError, TypeError) as error:
            raise Unavailable(f"{self.base_url}: is not a Prometheus server: {error}") from error


def _matcher(text: str) -> str:
    """Matcher of ``name=value``."""
    name, equals, value = text.partition("=")
    if not equals or not re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", name.strip()):
        raise InvalidInput(f"{text!r} is not a label and its value, as namespace=growth", field="prometheus_labels")
    return f"{name.strip()}={json.dumps(value.strip())}"
