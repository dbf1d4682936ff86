"""Read the spend of a campaign so far from the metrics of the services themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from prometheus_client.parser import text_string_to_metric_families

from shadowprice.calls import fetch
from shadowprice.campaign import SIDES, Side
from shadowprice.errors import Unavailable
from shadowprice.groups import hashes
from shadowprice.limits.usage import Usage

SPEND = "shadowprice_spend_minor_units_total"
RESPONSES = "shadowprice_redemptions_total"
REQUESTS = "shadowprice_decisions_total"
OUTSTANDING = "shadowprice_outstanding_minor_units"
REFUNDED = "shadowprice_refunded_minor_units_total"
WITHDRAWN = "shadowprice_withdrawn_responses_total"
LATE = "shadowprice_late_minor_units_total"
USED = "shadowprice_limit_used_minor_units"
GIVEN = "shadowprice_given_minor_units_total"
RECEIVED = "shadowprice_received_minor_units_total"
NEEDED = (SPEND, RESPONSES, REQUESTS, OUTSTANDING)
OPTIONAL = (REFUNDED, WITHDRAWN, LATE, USED, GIVEN, RECEIVED)
"""Series that a service may lack, such as one without corrections or further budgets: 0 then."""
OF_CAMPAIGN = (SPEND, REFUNDED, LATE, GIVEN, RECEIVED)
"""Series that are summed over the sides."""
LABEL = {USED: "budget"}
"""Label by which a series is told apart; ``side`` of all others."""
REPEAT = "repeat"
"""Value of the label ``reason`` that counts answers given before: they are not new requests."""


@dataclass(frozen=True, kw_only=True)
class CapUse:
    """Use of one cap by each account or partner, in the cap's present period; those without any are left out.

    owner              uint64 (n,), ascending hashes of accounts or partners (:func:`shadowprice.groups.hashes`)
    amount             int64 (n,), minor units of open authorizations and net spend in this campaign
    uses               int64 (n,), incentives that are open or captured in this campaign
    amount_elsewhere   int64 (n,), ``amount`` of the other campaigns that share the cap, together
    uses_elsewhere     int64 (n,), ``uses`` of the other campaigns
    hours              hours of the period in which the other campaigns have decided so far; 0 where there is none
    """

    owner: NDArray[np.uint64]
    amount: NDArray[np.int64]
    uses: NDArray[np.int64]
    amount_elsewhere: NDArray[np.int64]
    uses_elsewhere: NDArray[np.int64]
    hours: float = 0.0

    @classmethod
    def of(cls, own: Mapping[str, Usage], elsewhere: Mapping[str, Usage], hours: float = 0.0) -> CapUse:
        """Build it from the sums of owners, by name.

        Example:
            >>> CapUse.of({"ada": Usage(50, 1)}, {}).uses
            array([1])
        """
        names = list(own.keys() | elsewhere.keys())
        owner = hashes(names)
        order = np.argsort(owner, kind="stable")
        rows = [(*own.get(name, Usage()), *elsewhere.get(name, Usage())) for name in names]
        columns = np.array(rows, dtype=np.int64).reshape(len(names), 4)[order].T
        amount, uses, amount_elsewhere, uses_elsewhere = columns
        return cls(
            owner=owner[order],
            amount=amount,
            uses=uses,
            amount_elsewhere=amount_elsewhere,
            uses_elsewhere=uses_elsewhere,
            hours=hours,
        )

    def at(self, owner: NDArray[np.uint64]) -> NDArray[np.int64]:
        """int64 (4, n): amount, uses, amount elsewhere and uses elsewhere of some owners; 0 where none are known."""
        columns = np.stack([self.amount, self.uses, self.amount_elsewhere, self.uses_elsewhere])
        if not self.owner.size:
            return np.zeros((4, owner.size), dtype=np.int64)
        place = np.minimum(np.searchsorted(self.owner, owner), self.owner.size - 1)
        return np.asarray(np.where(self.owner[place] == owner, columns[:, place], 0))


@dataclass(frozen=True, kw_only=True)
class SpendReport:
    """Totals of a campaign since its window opened.

    spent        minor units paid and not taken back
    responses    side → units of response that stand: redemptions of customers, share ratios of merchants
    requests     side → requests decided
    outstanding  side → minor units held for authorizations that are neither captured nor released
    refunded     minor units paid and taken back by corrections; withdrawn likewise, side → units of response
    late         minor units captured after their authorization was closed
    spent_of     side → its part of ``spent``; empty where the source does not tell the sides apart
    used_of      name → minor units held and spent of each further budget in its present period
    caps         name → use of each cap, of each budget that campaigns share, and of each limit of places; of a sum of
                 a second outcome the requests by ``side|level``, as ``uses``
    moved        minor units that moves of a portfolio added to the limit, less those that they took
    observed_at  UTC; the totals are at least as new as this
    """

    spent: int
    responses: Mapping[Side, float]
    requests: Mapping[Side, int]
    outstanding: Mapping[Side, int] = field(default_factory=dict)
    refunded: int = 0
    withdrawn: Mapping[Side, float] = field(default_factory=dict)
    late: int = 0
    spent_of: Mapping[Side, int] = field(default_factory=dict)
    used_of: Mapping[str, int] = field(default_factory=dict)
    caps: Mapping[str, CapUse] = field(default_factory=dict)
    moved: int = 0
    observed_at: datetime


def hours_counted(began: datetime, first: Sequence[datetime | None], now: datetime) -> float:
    """Return the hours of a period that ``began`` since the first decision of other campaigns in it.

    Example:
        >>> now = datetime(2026, 3, 2, 5, tzinfo=UTC)
        >>> hours_counted(now.replace(hour=0), [now - timedelta(days=3), None], now)
        5.0
    """
    since = [max(moment, began) for moment in first if moment is not None]
    return max((now - min(since)) / timedelta(hours=1), 0.0) if since else 0.0


class SpendSource(Protocol):
    """Source of the spend."""

    def read(self, campaign: str) -> SpendReport:
        """Totals of a campaign now.

        Raises:
            Unavailable: the source does not answer, or a total is missing, stale or not a number.
        """
        ...


@dataclass(frozen=True)
class MetricsSpend:
    """Totals read from the ``/metrics`` pages of the services, for when no Prometheus is configured.

    A total is the sum over all series; a series that several pages show counts once, with its largest value:
    ledgers that share a store each export all totals. A counter must hold the campaign's total whenever
    it is read: a service that restarts has to start its counters from its database.

    urls     full addresses of the metrics pages; one that fails makes the whole report fail,
             because a partial sum would show too much remaining budget
    timeout  seconds per page
    """

    urls: Sequence[str]
    timeout: float = 5.0

    def read(self, campaign: str) -> SpendReport:
        """Totals of a campaign, as :class:`SpendSource` describes."""
        observed_at = datetime.now(UTC)
        series: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for url in self.urls:
            for name, labels, value in self._samples(url):
                if name not in NEEDED + OPTIONAL or labels.get("campaign") != campaign:
                    continue
                if name == REQUESTS and labels.get("reason") == REPEAT:
                    continue
                one = (name, frozenset(labels.items()))
                series[one] = _larger(value, series.get(one, value))
        totals: dict[tuple[str, str], float] = {}
        for (name, pairs), value in series.items():
            key = (name, dict(pairs).get(LABEL.get(name, "side"), ""))
            totals[key] = totals.get(key, 0.0) + value
        return report_of(totals, campaign, observed_at)

    def _samples(self, url: str) -> list[tuple[str, Mapping[str, str], float]]:
        text = fetch(url, self.timeout).decode("utf-8", errors="replace")
        try:
            families = list(text_string_to_metric_families(text))
        except (ValueError, KeyError, IndexError) as error:
            raise Unavailable(f"{url}: is not a metrics page: {error}") from error
        return [(sample.name, sample.labels, sample.value) for family in families for sample in family.samples]


def _larger(one: float, other: float) -> float:
    """The larger of two; what is not a number stays, so that it is refused."""
    return one if math.isnan(one) or one > other else other


def report_of(totals: Mapping[tuple[str, str], float], campaign: str, observed_at: datetime) -> SpendReport:
    """The report of summed series, (metric, side or budget) → value; those of :data:`OF_CAMPAIGN` may have no side.

    Raises:
        Unavailable: a metric has no series for the campaign, a side is unknown, or a value is not
            a finite, non-negative number.
    """
    for name in NEEDED:
        if not any(metric == name for metric, _ in totals):
            raise Unavailable(f"no series {name}{{campaign={campaign!r}}}; a service must export it from zero on")
    for (name, side), value in totals.items():
        if name != USED and side not in SIDES and not (name in OF_CAMPAIGN and side == ""):
            raise Unavailable(f"{name}{{campaign={campaign!r}}} has side {side!r}; it must be one of {SIDES}")
        if not (math.isfinite(value) and value >= 0):
            raise Unavailable(f"{name}{{campaign={campaign!r}}} is {value}; it must be finite and not negative")
    refunded = round(_of_all(totals, REFUNDED))
    withdrawn: dict[Side, float] = {side: totals.get((WITHDRAWN, side), 0.0) for side in SIDES}
    return SpendReport(
        spent=round(_of_all(totals, SPEND)) - refunded,
        responses={side: max(totals.get((RESPONSES, side), 0.0) - withdrawn[side], 0.0) for side in SIDES},
        requests={side: round(totals.get((REQUESTS, side), 0.0)) for side in SIDES},
        outstanding={side: round(totals.get((OUTSTANDING, side), 0.0)) for side in SIDES},
        refunded=refunded,
        withdrawn=withdrawn,
        late=round(_of_all(totals, LATE)),
        spent_of={
            side: round(totals[SPEND, side] - totals.get((REFUNDED, side), 0.0))
            for side in SIDES
            if (SPEND, side) in totals
        },
        used_of={budget: round(value) for (name, budget), value in totals.items() if name == USED},
        moved=round(_of_all(totals, RECEIVED)) - round(_of_all(totals, GIVEN)),
        observed_at=observed_at,
    )


def _of_all(totals: Mapping[tuple[str, str], float], name: str) -> float:
    """Sum of a metric over the sides."""
    return sum(value for (metric, _), value in totals.items() if metric == name)
