"""The ledger's metrics, read from its database at every scrape."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from serving.ledger.api.usage import limits_now
from serving.ledger.clock import time_of
from serving.ledger.records import CAUSES
from serving.ledger.store import Store
from serving.ledger.totals import LedgerTotals
from serving.protocol import RECORDED_REASONS
from shadowprice.campaign import Campaign, Side
from shadowprice.decision import NOTHING
from shadowprice.pacing.decision_log.records import CORRECTION_KINDS
from shadowprice.pacing.spend import REPEAT


class LedgerCollector(Collector):
    """Every series of the campaign, present from the start with the value 0.

    The totals are the database's, so they survive a restart and can be summed over services. Only
    repeated answers, under the label value ``repeat`` of the reason, are counted since the start: the
    store records a decision once.
    """

    def __init__(self, campaign: Campaign, store: Store, skew: Callable[[], float]) -> None:
        self._campaign = campaign
        self._store = store
        self._skew = skew
        self._repeats: dict[tuple[Side, int], int] = {}

    def count_repeat(self, side: Side, level: int) -> None:
        """Count an answer that was given before."""
        self._repeats[side, level] = self._repeats.get((side, level), 0) + 1

    def collect(self) -> Iterator[Metric]:
        """The families of one scrape."""
        totals, now = self._store.totals(), time_of(self._store.date())
        sides, budget = list(self._campaign.sides), self._campaign.budget.name
        counter, gauge = CounterMetricFamily, GaugeMetricFamily
        yield self._family(
            counter,
            "decisions",
            "Requests decided; level is the index of the incentive, -1 for nothing",
            "side level reason",
            self._decisions(totals),
        )
        for metric, text, values in (
            ("authorized_minor_units", "Money authorized, at face value", totals.authorized),
            ("spend_minor_units", "Money paid", totals.spent),
            ("redemptions", "Units of response: redemptions of customers, share ratios of merchants", totals.responses),
        ):
            yield self._family(counter, metric, text, "side", values)
        by_cause, by_kind = list(product(sides, CAUSES)), list(product(sides, CORRECTION_KINDS))
        per_side: tuple[tuple[str, str, str, Mapping[Any, float], Iterable[Any]], ...] = (
            ("refunded_minor_units", "Money paid that corrections took back", "side", totals.refunded, sides),
            ("withdrawn_responses", "Units of response that corrections took away", "side", totals.withdrawn, sides),
            (
                "overridden_minor_units",
                "Money that corrections with override booked, whatever the limit",
                "side",
                totals.overridden,
                sides,
            ),
            ("corrections", "Corrections recorded; reason is their kind", "side reason", totals.corrections, by_kind),
            ("late_minor_units", "Money paid on authorizations released before", "side", totals.late, sides),
            (
                "released_minor_units",
                "Money held for authorizations that expired or were given back",
                "side reason",
                totals.released,
                by_cause,
            ),
            ("misdated_outcomes", "Outcomes whose date cannot be right", "side", totals.misdated, sides),
        )
        for metric, text, labels, counts, keys in per_side:
            yield self._family(counter, metric, text, labels, {key: counts.get(key, 0) for key in keys})
        yield self._family(
            gauge, "outstanding_minor_units", "Money held for open authorizations", "side", totals.outstanding
        )
        yield self._family(
            gauge,
            "clock_skew_seconds",
            "Difference of the ledger's wall clock from its other sources of time; positive when it is ahead",
            "",
            {(): self._skew()},
        )
        # Apart from the main budget's metrics: limits overlap, so a sum over them has no meaning.
        limits = limits_now(self._campaign, self._store.usage, now)
        yield self._family(
            gauge,
            "limit_minor_units",
            "Limit of a further budget in a period",
            "budget",
            {limit.budget: limit.limit for limit in limits},
        )
        yield self._family(
            gauge,
            "limit_used_minor_units",
            "Money held and spent of a further budget in its current period",
            "budget",
            {limit.budget: limit.used for limit in limits},
        )
        for metric, text, amount in (
            ("given_minor_units", "Money that moves of a portfolio took off the budget", totals.given),
            ("received_minor_units", "Money that moves of a portfolio added to the budget", totals.received),
        ):
            yield self._family(counter, metric, text, "budget", {budget: amount})
        left = totals.money_left(self._campaign, now)
        yield self._family(
            gauge,
            "budget_minor_units",
            "What may be spent: the limit, or the limit times what earned it so far",
            "budget",
            {budget: left + totals.net_spent},
        )
        yield self._family(
            gauge, "overspend_minor_units", "What was spent beyond the budget", "budget", {budget: max(0.0, -left)}
        )

    def _family(
        self,
        kind: type[CounterMetricFamily | GaugeMetricFamily],
        metric: str,
        text: str,
        labels: str,
        values: Mapping[Any, float],
    ) -> Metric:
        """Return a family with one series for each key: its label, or a tuple of them."""
        family = kind(f"shadowprice_{metric}", text, labels=["campaign", *labels.split()])
        for key, value in values.items():
            family.add_metric([self._campaign.name, *(map(str, key) if isinstance(key, tuple) else [key])], value)
        return family

    def _decisions(self, totals: LedgerTotals) -> dict[tuple[Side, int, str], int]:
        return {
            (side, level, reason): self._repeats.get((side, level), 0)
            if reason == REPEAT
            else totals.decisions.get((side, level, reason), 0)
            for side, terms in self._campaign.sides.items()
            for level in (NOTHING, *range(len(terms.levels)))
            for reason in (*RECORDED_REASONS, REPEAT)
        }
