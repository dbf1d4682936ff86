"""The ledger's metrics, read from its database at every scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from serving.ledger.store import CAUSES
from serving.ledger.totals import Totals
from serving.protocol import REASONS
from shadowprice.campaign import Campaign, Side
from shadowprice.decision import NOTHING


class LedgerCollector(Collector):
    """Every series of the campaign, present from the start with the value 0.

    The totals are the database's, so they survive a restart and can be summed over services. Only
    decisions with the reason ``repeat`` are counted since the start: they are not recorded, being
    answers that were given before.
    """

    def __init__(self, campaign: Campaign, totals: Callable[[], Totals]) -> None:
        self._campaign = campaign
        self._totals = totals
        self._repeats: dict[tuple[Side, int], int] = {}

    def count_repeat(self, side: Side, level: int) -> None:
        """Count an answer that was given before."""
        self._repeats[side, level] = self._repeats.get((side, level), 0) + 1

    def collect(self) -> Iterator[Metric]:
        """The families of one scrape."""
        totals = self._totals()
        name, budget = self._campaign.name, self._campaign.budget.name
        yield self._decisions(totals)
        for metric, help, values in (
            ("authorized_minor_units", "Money promised, at face value", totals.authorised),
            ("spend_minor_units", "Money paid", totals.spent),
            ("redemptions", "Units of response: redemptions of customers, share ratios of merchants", totals.responses),
        ):
            counter = CounterMetricFamily(f"shadowprice_{metric}", help, labels=["campaign", "side"])
            for side, value in values.items():
                counter.add_metric([name, side], value)
            yield counter
        late = CounterMetricFamily(
            "shadowprice_late_minor_units", "Money paid on promises released before", labels=["campaign", "side"]
        )
        released = CounterMetricFamily(
            "shadowprice_released_minor_units",
            "Money reserved for promises that expired or were given back",
            labels=["campaign", "side", "reason"],
        )
        for side in self._campaign.sides:
            late.add_metric([name, side], totals.late.get(side, 0))
            for cause in CAUSES:
                released.add_metric([name, side, cause], totals.released.get((side, cause), 0))
        yield late
        yield released
        outstanding = GaugeMetricFamily(
            "shadowprice_outstanding_minor_units", "Money promised and still reserved", labels=["campaign", "side"]
        )
        for side, value in totals.outstanding.items():
            outstanding.add_metric([name, side], value)
        yield outstanding
        left = totals.money_left(self._campaign, datetime.now(UTC))
        for metric, help, value in (
            (
                "budget_minor_units",
                "What may be spent: the limit, or the limit times what earned it so far",
                left + sum(totals.spent.values()),
            ),
            ("overspend_minor_units", "What was spent beyond the budget", max(0.0, -left)),
        ):
            gauge = GaugeMetricFamily(f"shadowprice_{metric}", help, labels=["campaign", "budget"])
            gauge.add_metric([name, budget], value)
            yield gauge

    def _decisions(self, totals: Totals) -> Metric:
        family = CounterMetricFamily(
            "shadowprice_decisions",
            "Requests decided; level is the index of the incentive, -1 for nothing",
            labels=["campaign", "side", "level", "reason"],
        )
        for side, terms in self._campaign.sides.items():
            for level in (NOTHING, *range(len(terms.levels))):
                for reason in REASONS:
                    count = (
                        self._repeats.get((side, level), 0)
                        if reason == "repeat"
                        else totals.decisions.get((side, level, reason), 0)
                    )
                    family.add_metric([self._campaign.name, side, str(level), reason], count)
        return family
