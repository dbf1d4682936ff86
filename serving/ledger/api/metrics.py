"""The ledger's metrics, read from its database at every scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from serving.ledger.api.usage import ReadUsage, limits_now
from serving.ledger.records import CAUSES
from serving.ledger.totals import Totals
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

    def __init__(
        self, campaign: Campaign, totals: Callable[[], Totals], usage: ReadUsage, skew: Callable[[], float]
    ) -> None:
        self._campaign = campaign
        self._totals = totals
        self._usage = usage
        self._skew = skew
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
            ("authorized_minor_units", "Money authorized, at face value", totals.authorised),
            ("spend_minor_units", "Money paid", totals.spent),
            ("redemptions", "Units of response: redemptions of customers, share ratios of merchants", totals.responses),
        ):
            counter = CounterMetricFamily(f"shadowprice_{metric}", help, labels=["campaign", "side"])
            for side, value in values.items():
                counter.add_metric([name, side], value)
            yield counter
        late = CounterMetricFamily(
            "shadowprice_late_minor_units", "Money paid on authorizations released before", labels=["campaign", "side"]
        )
        released = CounterMetricFamily(
            "shadowprice_released_minor_units",
            "Money held for authorizations that expired or were given back",
            labels=["campaign", "side", "reason"],
        )
        refunded = CounterMetricFamily(
            "shadowprice_refunded_minor_units", "Money paid that corrections took back", labels=["campaign", "side"]
        )
        withdrawn = CounterMetricFamily(
            "shadowprice_withdrawn_responses",
            "Units of response that corrections took away",
            labels=["campaign", "side"],
        )
        overridden = CounterMetricFamily(
            "shadowprice_overridden_minor_units",
            "Money that corrections with override booked, whatever the limit",
            labels=["campaign", "side"],
        )
        corrections = CounterMetricFamily(
            "shadowprice_corrections",
            "Corrections recorded; reason is their kind",
            labels=["campaign", "side", "reason"],
        )
        misdated = CounterMetricFamily(
            "shadowprice_misdated_outcomes", "Outcomes whose date cannot be right", labels=["campaign", "side"]
        )
        for side in self._campaign.sides:
            misdated.add_metric([name, side], totals.misdated.get(side, 0))
            refunded.add_metric([name, side], totals.refunded.get(side, 0))
            withdrawn.add_metric([name, side], totals.withdrawn.get(side, 0))
            overridden.add_metric([name, side], totals.overridden.get(side, 0))
            for kind in CORRECTION_KINDS:
                corrections.add_metric([name, side, kind], totals.corrections.get((side, kind), 0))
            late.add_metric([name, side], totals.late.get(side, 0))
            for cause in CAUSES:
                released.add_metric([name, side, cause], totals.released.get((side, cause), 0))
        yield from (refunded, withdrawn, overridden, corrections)
        yield late
        yield released
        yield misdated
        outstanding = GaugeMetricFamily(
            "shadowprice_outstanding_minor_units", "Money held for open authorizations", labels=["campaign", "side"]
        )
        for side, value in totals.outstanding.items():
            outstanding.add_metric([name, side], value)
        yield outstanding
        skew = GaugeMetricFamily(
            "shadowprice_clock_skew_seconds",
            "Difference of the ledger's wall clock from its other sources of time; positive when it is ahead",
            labels=["campaign"],
        )
        skew.add_metric([name], self._skew())
        yield skew
        now = datetime.now(UTC)
        yield from self._limits(now)
        left = totals.money_left(self._campaign, now)
        for metric, help, value in (
            (
                "budget_minor_units",
                "What may be spent: the limit, or the limit times what earned it so far",
                left + totals.net_spent,
            ),
            ("overspend_minor_units", "What was spent beyond the budget", max(0.0, -left)),
        ):
            gauge = GaugeMetricFamily(f"shadowprice_{metric}", help, labels=["campaign", "budget"])
            gauge.add_metric([name, budget], value)
            yield gauge

    def _limits(self, now: datetime) -> Iterator[Metric]:
        # Apart from the main budget's metrics: limits overlap, so a sum over them has no meaning.
        limit = GaugeMetricFamily(
            "shadowprice_limit_minor_units", "Limit of a further budget in a period", labels=["campaign", "budget"]
        )
        used = GaugeMetricFamily(
            "shadowprice_limit_used_minor_units",
            "Money held and spent of a further budget in its current period",
            labels=["campaign", "budget"],
        )
        for each in limits_now(self._campaign, self._usage, now):
            limit.add_metric([self._campaign.name, each.budget], each.limit)
            used.add_metric([self._campaign.name, each.budget], each.used)
        yield limit
        yield used

    def _decisions(self, totals: Totals) -> Metric:
        family = CounterMetricFamily(
            "shadowprice_decisions",
            "Requests decided; level is the index of the incentive, -1 for nothing",
            labels=["campaign", "side", "level", "reason"],
        )
        for side, terms in self._campaign.sides.items():
            for level in (NOTHING, *range(len(terms.levels))):
                for reason in (*RECORDED_REASONS, REPEAT):
                    count = (
                        self._repeats.get((side, level), 0)
                        if reason == REPEAT
                        else totals.decisions.get((side, level, reason), 0)
                    )
                    family.add_metric([self._campaign.name, side, str(level), reason], count)
        return family
