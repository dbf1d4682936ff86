"""A replayed campaign day: the report a person reads and the summary a program reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from shadowprice.campaign import Campaign
from shadowprice.currency import Currency
from shadowprice.datasets.registry import Dataset
from shadowprice.errors import PriceRejected
from shadowprice.evaluation.policy.attainable import Attainable
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.learning.outcome_model import truth_note
from shadowprice.learning.training_set import TrainingSet
from shadowprice.pacing.budgets.kept import outcome_remarks
from shadowprice.pacing.exploration import ExplorationReport
from shadowprice.pacing.replay.gains import Gain, Over
from shadowprice.pacing.replay.loop import LoopDay
from shadowprice.pacing.replay.run import Replay
from shadowprice.price import PriceRecord
from shadowprice.reports import run as shown
from shadowprice.reports.budgets import further_budgets
from shadowprice.reports.data import ReportData
from shadowprice.reports.loop import LOOP, loop_facts, loop_sentence, loop_summary
from shadowprice.reports.mix import Mix

ARRIVALS = "drawn at random from the hourly profile of past requests, which the forecast also starts from"
SHOCK = ("spend", "overspend", "value", "value_static", "value_hindsight", "attainable_share", "overspend_static")
"""Figures of the day with twice the requests in one hour that the summary shows."""
PACKAGES = ("shadowprice", "kfp", "kserve", "feast", "ray", "torch", "torch-geometric", "numpy", "pandas")


@dataclass(frozen=True, kw_only=True)
class CampaignDay:
    """Findings of a run.

    evaluation     the report's part that the evaluate step wrote
    runs           policy → the day; needs ``service``, ``hourly``, ``static``, ``hindsight``, ``hindsight_model``
    shocked        the same in process, with twice the requests in the :func:`rush_hour`
    attainable, attainable_shocked  values between which the policies of either day are judged
    gains          what the served day added over the lowest level, and over the best flat mixture
    mix            who got what in the served day
    exploration    cost and benefit of drawn levels
    used           further budget → minor units held and paid in its present period at the end of the served day, or the
                   expected sum of a second outcome
    prices         every price of the day that can be read, oldest first
    damaged        what is wrong with the files of those that cannot
    solve_seconds  price version → how long its solve took
    single_seconds of every call with one request
    call_seconds   of all calls together
    requests, errors  requests answered, and calls that failed and were sent again
    seconds, peak_memory_mb  of each step of the run; the memory is that of all processes of the step, in 10⁶ bytes
    loop           days with retrains beside a frozen model; empty: none
    """

    dataset: Dataset
    training: TrainingSet
    campaign: Campaign
    evaluation: ReportData
    runs: Mapping[str, Replay]
    shocked: Mapping[str, Replay]
    attainable: Attainable
    attainable_shocked: Attainable
    gains: Mapping[Over, Gain]
    mix: Mix
    exploration: ExplorationReport
    prices: Sequence[PriceRecord]
    damaged: Sequence[str]
    solve_seconds: Mapping[int, float]
    single_seconds: Sequence[float]
    call_seconds: float
    requests: int
    errors: int
    seconds: Mapping[str, float]
    peak_memory_mb: Mapping[str, float] = field(default_factory=dict)
    used: Mapping[str, float] = field(default_factory=dict)
    loop: Sequence[LoopDay] = ()

    def __post_init__(self) -> None:
        if not self.prices:
            raise PriceRejected(f"campaign {self.campaign.name!r} has no price that can be read: {list(self.damaged)}")

    @property
    def opening(self) -> PriceRecord:
        """Price of the whole window, before its first request: the one that is served."""
        return next((price for price in reversed(self.prices) if price.slot < 0), self.prices[0])

    @property
    def rows(self) -> dict[str, int]:
        """Rows of each table."""
        return {name: len(table) for name, table in self.dataset.tables.as_dict().items()}

    @property
    def accounts(self) -> int:
        """Accounts of either side, each counted once."""
        return int(self.dataset.tables.account["account_id"].nunique())

    @property
    def graph(self) -> dict[str, int]:
        """Size of the newest graph of accounts, or of the graphs of sessions."""
        snapshots, sessions = self.training.snapshots, self.training.inputs.sessions
        counts = {"accounts": self.accounts}
        if sessions is not None:
            graphs = sessions.graphs
            return counts | {"sessions": graphs.sessions, "nodes of their graphs": int(graphs.row.size)}
        newest = snapshots[-1]
        counts |= {"on both sides": int(newest.is_side.all(axis=0).sum()), "ties": newest.edges}
        return counts | {"snapshots": len(snapshots)}

    @property
    def serving(self) -> dict[str, Any]:
        """The ``serve`` part of summary.json."""
        p50, p99 = shown.percentiles(self.single_seconds)
        return {
            "requests": self.requests,
            "errors": self.errors,
            "p50_ms": p50,
            "p99_ms": p99,
            "throughput_rps": self.requests / self.call_seconds,
        }

    def report(self) -> ReportData:
        """The whole report."""
        outcomes = truth_note(self.dataset)
        serving, rush = self.serving, rush_hour(self.campaign.hours)
        # The gain over the lowest level has the luck of the day; where it may be nothing, a share of it says nothing.
        gained = "lowest" not in self.gains or self.gains["lowest"].whole.responses.low > 0
        return replace(
            self.evaluation,
            title=f"Campaign {self.campaign.name}",
            created_at=datetime.now(UTC),
            facts={
                "tables": {f"{name} rows": rows for name, rows in self.rows.items()},
                **self.evaluation.facts,
                "graph": self.graph,
                **({LOOP: loop_facts(self.loop)} if self.loop else {}),
            },
            scenarios=(
                shown.scenario(
                    "The day",
                    f"Replayed against the running services in accelerated time; arrivals {ARRIVALS}, "
                    f"outcomes {outcomes}.",
                    self.campaign,
                    {name: run for name, run in self.runs.items() if name != "hourly"},
                    self.attainable,
                    self.runs["service"].slots["planned"].to_numpy(dtype=np.float64),
                    shares=gained,
                ),
                shown.scenario(
                    "Twice as many requests in one hour",
                    f"Arrivals doubled from {rush} to {rush + 1} h of the window, unknown to any forecast; in process; "
                    f"outcomes {outcomes}.",
                    self.campaign,
                    self.shocked,
                    self.attainable_shocked,
                    shares=gained,
                ),
            ),
            campaign=self.campaign,
            budgets=further_budgets(self.campaign, self.prices[-1], self.used),
            mix=self.mix,
            solves=shown.solves(self.campaign, self.prices, self.solve_seconds, self.runs["service"].slots),
            serving={
                "requests answered": serving["requests"],
                "one request per call, median ms": round(serving["p50_ms"], 2),
                "one request per call, 99th percentile ms": round(serving["p99_ms"], 2),
                "requests per second, one caller, batches": round(serving["throughput_rps"]),
            },
            steps=dict(self.seconds),
            versions=versions(),
            notes=(
                *shown.exploration_notes(self.exploration, self.campaign),
                *(f"A price is missing in this report: {reason}." for reason in self.damaged),
                *((loop_sentence(loop_summary(self.loop), Currency.of(self.dataset.currency)),) if self.loop else ()),
                *self.evaluation.notes,
                *(f"At the opening price, {remark}." for remark in outcome_remarks(self.opening, self.campaign)),
            ),
        )

    def summary(self) -> dict[str, Any]:
        """summary.json, in JSON types."""
        opening = self.opening
        shock = shown.pacing_summary(
            self.campaign, {**self.shocked, "service": self.shocked["hourly"]}, self.attainable_shocked
        )
        return {
            "dataset": self.dataset.name,
            "currency": self.dataset.currency,
            "rows": self.rows,
            "learned_from": self.evaluation.facts,
            "evidence": {
                trial.side: {"verdict": trial.verdict, "sentence": trial.sentence} for trial in self.evaluation.evidence
            },
            "accounts": self.accounts,
            "edges": self.graph.get("ties", 0),
            "metrics": {
                side.side: {name: _plain(value) for name, value in next(iter(side.metrics.values())).items()}
                for side in self.evaluation.sides
            },
            "solve": shown.solve_summary(opening),
            "serve": self.serving,
            "worth": shown.worth_summary(replace(self.evaluation, campaign=self.campaign)),
            "pacing": shown.pacing_summary(self.campaign, self.runs, self.attainable, self.gains),
            "exploration": shown.exploration_summary(self.exploration),
            "shock": {name: shock[name] for name in SHOCK},
            **({"loop": loop_summary(self.loop)} if self.loop else {}),
            "simulated": True,
            "outcomes": truth_note(self.dataset),
            "arrivals": ARRIVALS,
            "seconds": dict(self.seconds),
            "peak_memory_mb": dict(self.peak_memory_mb),
            "versions": versions(),
        }


def rush_hour(hours: int) -> int:
    """Return the slot of a window whose requests are doubled: the 13th hour, of a shorter window the one in its middle.

    >>> rush_hour(24), rush_hour(168), rush_hour(6), rush_hour(1)
    (12, 12, 3, 0)
    """
    return min(12, hours // 2)


def versions() -> dict[str, str]:
    """Versions of the packages a run depends on."""
    return {package: version(package) for package in PACKAGES}


def _plain(found: float | Estimate) -> Any:
    return {"value": found.value, "low": found.low, "high": found.high} if isinstance(found, Estimate) else found
