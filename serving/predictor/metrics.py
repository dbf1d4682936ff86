"""The predictor's metrics, on KServe's own ``/metrics`` page.

Decisions are counted by the ledger, which knows them all after a restart and with any number of
predictors; here is what only a predictor knows. Labels are bounded: names of the campaign, its
sides and budget, stages and reasons.
"""

import time
from collections import Counter as Counted
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from itertools import product
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from serving.protocol import UNRECORDED_REASONS, UnrecordedReason
from shadowprice.arms import CANARY
from shadowprice.campaign import Campaign, Side
from shadowprice.price import PriceRecord

STAGES = ("decode", "features", "curve", "decide", "authorize", "encode", "total")
DEGRADED = ("features", "stale_price", "unauthorized", "rule")
REJECTED = ("unsound", "older", "model")
Metric = TypeVar("Metric", Counter, Gauge, Histogram)
Key = TypeVar("Key", str, tuple[str, ...])
BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5)


_MADE: WeakKeyDictionary[CollectorRegistry, dict[str, Any]] = WeakKeyDictionary()
"""Families of each registry, by name."""


class _Timed(AbstractContextManager[None]):
    """Timer of a stage, at a third of the cost of a generator: a call has eight of them."""

    def __init__(self, seconds: Histogram) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._seconds.observe(time.perf_counter() - self._started)


OF_RECORD = {
    "version": ("price_version", "Version of the active price"),
    "gap": ("solve_gap_ratio", "Relative duality gap of the active price"),
    "violation": ("solve_violation_ratio", "Relative excess over the budget of the active price"),
    "seconds": ("solve_seconds", "Time the solve of the active price took"),
    "spend_ratio": (
        "spend_ratio",
        "Minor units paid per minor unit that the model's curves expect, as the active price has learned it",
    ),
}
"""Field of a price record → name and meaning of the gauge that shows it."""


class PredictorMetrics:
    """Every series of one campaign, present from the start with the value 0."""

    def __init__(self, campaign: Campaign, registry: CollectorRegistry = REGISTRY) -> None:
        sides = list(campaign.sides)

        def family_of(make: Callable[..., Metric], name: str, text: str, labels: str) -> Metric:
            """The family of this name, which the predictors of several campaigns share."""
            made = _MADE.setdefault(registry, {})
            if name not in made:
                made[name] = make(f"shadowprice_{name}", text, ["campaign", *labels.split()], registry=registry)
            known_metric: Metric = made[name]
            return known_metric

        def series(
            make: Callable[..., Metric], name: str, text: str, labels: str, keys: Iterable[Key]
        ) -> dict[Key, Metric]:
            """One series for each key: its label, or a tuple of them."""
            family = family_of(make, name, text, labels)
            return {k: family.labels(campaign.name, *(k if isinstance(k, tuple) else [k])) for k in keys}

        seconds = partial(Histogram, buckets=BUCKETS)
        self._seconds = series(seconds, "decision_seconds", "Time of one call by stage", "stage", STAGES)
        self._cold = series(Counter, "cold_start_total", "Requests of accounts without an embedding", "side", sides)
        self._unrecorded = series(
            Counter,
            "unrecorded_answers_total",
            "Requests answered without an authorization, since the answer costs nothing",
            "side reason",
            product(sides, UNRECORDED_REASONS),
        )
        by_arm = product(sides, [*campaign.arms, CANARY])
        self._arms = series(
            Counter, "arm_decisions_total", "New decisions by the arm of the account", "side arm", by_arm
        )
        share = "Share of the units that the model on trial decides for; 0 without one"
        (self._canary,) = series(Gauge, "canary_share_ratio", share, "", [()]).values()
        self._feature_age = series(
            Gauge, "feature_age_seconds", "Age of the oldest embedding used in the latest call", "side", sides
        )
        self._degraded = series(
            Counter, "degraded_total", "Calls answered without something they needed", "reason", DEGRADED
        )
        self._rejected = series(
            Counter,
            "price_rejected_total",
            "Prices ignored: unsound, older than the active one, or without a model to go with",
            "reason",
            REJECTED,
        )
        self._passed_over = series(
            Gauge,
            "price_passed_over",
            "Files of the price store that are passed over now: the active price is not the newest",
            "reason",
            REJECTED,
        )
        self._prices = series(
            Gauge,
            "price",
            "Active price: of money, response per minor unit; of a delivery, value of a seat of each segment",
            "budget",
            campaign.priced,
        )
        self._budget = campaign.budget.name
        self._pacing = series(
            Gauge,
            "pacing_error_ratio",
            "What was paid when the active price was solved over what had been planned by then, less one",
            "budget",
            [
                self._budget,
                *(group_budget.name for group_budget in campaign.group_budgets if group_budget.form == "total"),
            ],
        )
        self._of_record = {
            field: series(Gauge, metric, text, "", [()])[()] for field, (metric, text) in OF_RECORD.items()
        }
        self._age = series(Gauge, "price_age_seconds", "Time since the active price was solved", "", [()])[()]
        # Its label is the version of the model, which is not known in advance.
        self._model = family_of(Gauge, "model_info", "1 for the model of the active price", "model_version")
        self._campaign = campaign.name
        self._shown: str | None = None

    def stage(self, stage: str) -> AbstractContextManager[None]:
        """Time a stage of a call."""
        return _Timed(self._seconds[stage])

    def active_price(self, record: PriceRecord) -> None:
        """Show a new price; its age grows by itself from now on."""
        solved_at = record.solved_at.timestamp()
        for priced, gauge in self._prices.items():
            gauge.set(record.prices.get(priced, 0.0))
        for budget, gauge in self._pacing.items():
            gauge.set(record.pacing_error if budget == self._budget else record.pacing_errors.get(budget, 0.0))
        for field, gauge in self._of_record.items():
            gauge.set(getattr(record, field))
        if self._shown not in (None, record.model_version):
            self._model.remove(self._campaign, self._shown)
        self._shown = record.model_version
        self._model.labels(self._campaign, self._shown).set(1)
        self._age.set_function(lambda: time.time() - solved_at)

    def canary_share(self, share: float) -> None:
        """Show the share in [0, 1] of the units that a model on trial decides for."""
        self._canary.set(share)

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
