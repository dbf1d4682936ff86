"""The predictor's metrics, on KServe's own ``/metrics`` page.

Decisions are counted by the ledger, which knows them all after a restart and with any number of
predictors; here is what only a predictor knows. Labels are bounded: names of the campaign, its
sides and budget, stages and reasons.
"""

from __future__ import annotations

import time
from collections import Counter as Counted
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from serving.protocol import UNRECORDED_REASONS, UnrecordedReason
from shadowprice.arms import UNASSIGNED
from shadowprice.campaign import Campaign, Side
from shadowprice.price import PriceRecord

STAGES = ("decode", "features", "curve", "decide", "authorise", "encode", "total")
DEGRADED = ("features", "stale_price", "unauthorised")
REJECTED = ("unsound", "older", "model")
BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5)


class _Timed(AbstractContextManager[None]):
    """Timer of a stage, at a third of the cost of a generator: a call has eight of them."""

    def __init__(self, seconds: Histogram) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._seconds.observe(time.perf_counter() - self._started)


class PredictorMetrics:
    """Every series of one campaign, present from the start with the value 0."""

    def __init__(self, campaign: Campaign, registry: CollectorRegistry = REGISTRY) -> None:
        name = campaign.name
        seconds = Histogram(
            "shadowprice_decision_seconds",
            "Time of one call by stage",
            ["campaign", "stage"],
            buckets=BUCKETS,
            registry=registry,
        )
        self._seconds = {stage: seconds.labels(name, stage) for stage in STAGES}
        cold = Counter(
            "shadowprice_cold_start_total",
            "Requests decided with the default embedding",
            ["campaign", "side"],
            registry=registry,
        )
        self._cold: dict[Side, Counter] = {side: cold.labels(name, side) for side in campaign.sides}
        unrecorded = Counter(
            "shadowprice_unrecorded_answers_total",
            "Requests answered without an authorization, since the answer costs nothing",
            ["campaign", "side", "reason"],
            registry=registry,
        )
        self._unrecorded = {
            (side, reason): unrecorded.labels(name, side, reason)
            for side in campaign.sides
            for reason in UNRECORDED_REASONS
        }
        by_arm = Counter(
            "shadowprice_arm_decisions_total",
            "New decisions by the arm of the account",
            ["campaign", "side", "arm"],
            registry=registry,
        )
        arms = [UNASSIGNED] if campaign.experiment is None else list(campaign.experiment.shares)
        self._arms = {(side, arm): by_arm.labels(name, side, arm) for side in campaign.sides for arm in arms}
        age = Gauge(
            "shadowprice_feature_age_seconds",
            "Age of the oldest embedding used in the latest call",
            ["campaign", "side"],
            registry=registry,
        )
        self._feature_age: dict[Side, Gauge] = {side: age.labels(name, side) for side in campaign.sides}
        degraded = Counter(
            "shadowprice_degraded_total",
            "Calls answered without something they needed",
            ["campaign", "reason"],
            registry=registry,
        )
        self._degraded = {reason: degraded.labels(name, reason) for reason in DEGRADED}
        rejected = Counter(
            "shadowprice_price_rejected_total",
            "Prices ignored: unsound, older than the active one, or without a model to go with",
            ["campaign", "reason"],
            registry=registry,
        )
        self._rejected = {reason: rejected.labels(name, reason) for reason in REJECTED}
        passed_over = Gauge(
            "shadowprice_price_passed_over",
            "Files of the price store that are passed over now: the active price is not the newest",
            ["campaign", "reason"],
            registry=registry,
        )
        self._passed_over = {reason: passed_over.labels(name, reason) for reason in REJECTED}
        price = Gauge(
            "shadowprice_price",
            "Active price: of money, response per minor unit; of a delivery, value of a seat of each segment",
            ["campaign", "budget"],
            registry=registry,
        )
        self._prices = {priced: price.labels(name, priced) for priced in campaign.priced}
        self._version = Gauge(
            "shadowprice_price_version", "Version of the active price", ["campaign"], registry=registry
        ).labels(name)
        self._gap = Gauge(
            "shadowprice_solve_gap_ratio", "Relative duality gap of the active price", ["campaign"], registry=registry
        ).labels(name)
        self._violation = Gauge(
            "shadowprice_solve_violation_ratio",
            "Relative excess over the budget of the active price",
            ["campaign"],
            registry=registry,
        ).labels(name)
        self._solve_seconds = Gauge(
            "shadowprice_solve_seconds", "Time the solve of the active price took", ["campaign"], registry=registry
        ).labels(name)
        self._pacing_error = Gauge(
            "shadowprice_pacing_error_ratio",
            "What was paid when the active price was solved over what had been planned by then, less one",
            ["campaign"],
            registry=registry,
        ).labels(name)
        self._spend_ratio = Gauge(
            "shadowprice_spend_ratio",
            "Minor units paid per minor unit that the model's curves expect, as the active price has learned it",
            ["campaign"],
            registry=registry,
        ).labels(name)
        self._age = Gauge(
            "shadowprice_price_age_seconds", "Time since the active price was solved", ["campaign"], registry=registry
        ).labels(name)

    def stage(self, stage: str) -> AbstractContextManager[None]:
        """Time a stage of a call."""
        return _Timed(self._seconds[stage])

    def active_price(self, record: PriceRecord) -> None:
        """Show a new price; its age grows by itself from now on."""
        solved_at = record.solved_at.timestamp()
        for priced, gauge in self._prices.items():
            gauge.set(record.prices[priced])
        self._version.set(record.version)
        self._gap.set(record.gap)
        self._violation.set(record.violation)
        self._solve_seconds.set(record.seconds)
        self._pacing_error.set(record.pacing_error)
        self._spend_ratio.set(record.spend_ratio)
        self._age.set_function(lambda: time.time() - solved_at)

    def price_rejected(self, reason: str) -> None:
        """Count a price that was ignored, by one of :data:`REJECTED`."""
        self._rejected[reason].inc()

    def prices_passed_over(self, now: Mapping[str, int]) -> None:
        """Show how many files are passed over, by :data:`REJECTED`; a kind that is not named has none."""
        for reason, gauge in self._passed_over.items():
            gauge.set(now.get(reason, 0))

    def features_used(self, side: Side, cold: int, oldest_seconds: float | None) -> None:
        """Count unknown accounts of a call and show the age of its oldest embedding."""
        self._cold[side].inc(cold)
        if oldest_seconds is not None:
            self._feature_age[side].set(oldest_seconds)

    def decided(self, side: Side, arms: Iterable[str]) -> None:
        """Count new decisions, given by the arm of each."""
        for arm, count in Counted(arms).items():
            self._arms[side, arm].inc(count)

    def unrecorded(self, side: Side, reason: UnrecordedReason, answers: int) -> None:
        """Count answers without an authorization, by one of :data:`UNRECORDED_REASONS`."""
        self._unrecorded[side, reason].inc(answers)

    def degraded(self, reason: str, calls: int = 1) -> None:
        """Count calls answered degraded."""
        self._degraded[reason].inc(calls)
