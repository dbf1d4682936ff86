"""Serving a run, replaying its campaign day against the services, and writing what came of it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from feature_repo.featurize import CAMPAIGN
from feature_repo.resolve import Solver
from serving.launch import Deployment, launch
from serving.measure import SAMPLE_ROWS
from serving.replay import ServiceDay
from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.datasets.package import load_dataset
from shadowprice.datasets.registry import Dataset
from shadowprice.files import write_whole
from shadowprice.learning.evaluate import true_curves
from shadowprice.learning.outcome_model import fit_outcome_model
from shadowprice.learning.training_set import TrainingSet
from shadowprice.pacing.compare import Setting, run_policies
from shadowprice.pacing.day import draw_day
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.outcomes import OutcomeModel, Population
from shadowprice.pacing.policies import past_traffic
from shadowprice.pacing.replay import Replay, replay
from shadowprice.pacing.spend import MetricsSpend
from shadowprice.price import PriceRecord
from shadowprice.reports import run as shown
from shadowprice.reports.data import ReportData
from shadowprice.reports.report import write_report
from shadowprice.reports.storage import from_json
from shadowprice.responses.training import TrainingConfig

NOON = 12
ARRIVALS = "drawn at random from the hourly profile of past requests, which the forecast also starts from"
PACKAGES = ("shadowprice", "kfp", "kserve", "feast", "ray", "torch", "torch-geometric", "numpy", "pandas")


def play(folder: Path, seconds: dict[str, float], started: float, *, seed: int) -> None:
    """Replay the campaign day of the run in ``folder`` and write summary.json, price.json and report.html.

    Args:
        folder: a run whose train and resolve pipelines went through.
        seconds: of the steps so far; the later ones are added.
        started: ``perf_counter`` at the start of the run.
        seed: of the day and of the luck of its requests.
    """

    def timed(step: str, since: float) -> None:
        seconds[step] = time.perf_counter() - since
        print(f"  {step} in {seconds[step]:.1f} s", flush=True)

    training_run = _training_run(folder)
    dataset = load_dataset(training_run / "prepare" / "tables")
    training = TrainingSet.load(training_run / "featurize" / "training")
    solver, traffic = Solver(folder), Traffic.load(folder)
    campaign = solver.campaign

    since = time.perf_counter()
    truth = _truth(dataset, training, traffic, seed)
    setting = _setting(campaign, solver, traffic, truth, seed)
    timed("outcomes", since)

    since = time.perf_counter()
    with launch(Deployment.of_run(folder, folder / CAMPAIGN, ledger="replay-ledger.db")) as services:
        timed("serve", since)
        since = time.perf_counter()
        service = ServiceDay(services, solver, traffic, MetricsSpend(services.metrics_urls))
        played = replay(setting.day, campaign, setting.outcomes, service.decide, service.settle, service.resolve)
        timed("replay", since)

    since = time.perf_counter()
    runs: dict[str, Replay] = {"service": played, **run_policies(setting)}
    shocked = run_policies(replace(setting, day=_day(campaign, traffic, seed, shock={NOON: 2.0})))
    timed("compare", since)

    since = time.perf_counter()
    prices = [solver.prices.read(campaign.name, number) for number in solver.prices.versions(campaign.name)]
    p50, p99 = shown.percentiles(service.single_seconds)
    serving: dict[str, Any] = {
        "requests": service.requests,
        "errors": service.errors,
        "p50_ms": p50,
        "p99_ms": p99,
        "throughput_rps": service.requests / service.call_seconds,
    }
    updated = played.slots[played.slots["updated"]]
    solve_seconds = {int(row["version"]): float(row["resolve_seconds"]) for _, row in updated.iterrows()}
    report = _report(training_run, dataset, training, campaign, runs, shocked, prices, solve_seconds, serving)
    write_report(replace(report, steps=dict(seconds)), folder / "report.html")
    timed("report", since)
    seconds["total"] = time.perf_counter() - started
    write_whole(folder / "price.json", prices[-1].to_json())
    summary = {
        "dataset": dataset.name,
        "rows": {name: len(table) for name, table in dataset.tables.as_dict().items()},
        "accounts": int(dataset.tables.account["account_id"].nunique()),
        "edges": training.snapshots[-1].edges,
        "metrics": {
            side.side: {name: _plain(found) for name, found in next(iter(side.metrics.values())).items()}
            for side in report.sides
        },
        "solve": shown.solve_summary(prices[-1], solve_seconds.get(prices[-1].version, float("nan"))),
        "serve": serving,
        "pacing": shown.pacing_summary(campaign, runs),
        "shock": {
            name: shown.pacing_summary(campaign, {**shocked, "service": shocked["hourly"]})[name]
            for name in ("spend", "overspend", "value", "value_static", "value_hindsight", "overspend_static")
        },
        "simulated": True,
        "outcomes": _outcomes_note(dataset),
        "arrivals": ARRIVALS,
        "seconds": seconds,
        "versions": _versions(),
    }
    write_whole(folder / "summary.json", json.dumps(summary, indent=1))


def why_not(folder: Path) -> tuple[str, ...]:
    """The rules of the gate that the model of a run breaks."""
    gate = _evaluation(_training_run(folder)).gate
    return gate.reasons if gate else ()


def _truth(dataset: Dataset, training: TrainingSet, traffic: Traffic, seed: int) -> dict[Side, Population]:
    """The response curves that outcomes are drawn from: the generator's, or a fitted outcome model's."""
    populations: dict[Side, Population] = {}
    fitted = None if dataset.truth is not None else fit_outcome_model(training, TrainingConfig(seed=seed))
    for side in traffic.accounts:
        if dataset.truth is not None:
            accounts = training.serving[side]["account_id"]
            known = true_curves(dataset.truth, side, accounts, len(training.levels[side]))
            curves = Curves(np.asarray(training.levels[side]), known.astype(np.float32))
        else:
            assert fitted is not None
            accounts, curves = training.serving[side]["account_id"], fitted[side]
        populations[side] = Population(accounts.to_numpy(dtype=str), curves)
    return populations


def _setting(
    campaign: Campaign, solver: Solver, traffic: Traffic, truth: Mapping[Side, Population], seed: int
) -> Setting:
    asking = {side: accounts.account_id for side, accounts in traffic.accounts.items()}
    return Setting(
        campaign=campaign,
        day=_day(campaign, traffic, seed),
        outcomes=OutcomeModel(campaign, truth, seed=seed),
        model={side: Population(accounts, solver.curves(side, accounts)) for side, accounts in asking.items()},
        forecast=traffic.forecast(campaign),
        history=past_traffic(traffic.accounts, SAMPLE_ROWS, seed=seed),
    )


def _day(campaign: Campaign, traffic: Traffic, seed: int, shock: Mapping[int, float] | None = None) -> Any:
    return draw_day(traffic.forecast(campaign).expected, traffic.accounts, seed=seed, name=campaign.name, shock=shock)


def _report(
    training_run: Path,
    dataset: Dataset,
    training: TrainingSet,
    campaign: Campaign,
    runs: Mapping[str, Replay],
    shocked: Mapping[str, Replay],
    prices: list[PriceRecord],
    solve_seconds: Mapping[int, float],
    serving: Mapping[str, Any],
) -> ReportData:
    evaluation = _evaluation(training_run)
    outcomes = _outcomes_note(dataset)
    tables = {f"{name} rows": len(table) for name, table in dataset.tables.as_dict().items()}
    graph = {
        "accounts": int(dataset.tables.account["account_id"].nunique()),
        "on both sides": int(training.snapshots[-1].is_side.all(axis=0).sum()),
        "ties": training.snapshots[-1].edges,
        "snapshots": len(training.snapshots),
    }
    planned = runs["service"].slots["planned"].to_numpy(dtype=np.float64)
    return replace(
        evaluation,
        title=f"Campaign {campaign.name}",
        created_at=datetime.now(UTC),
        facts={"tables": tables, "graph": graph},
        scenarios=(
            shown.scenario(
                "The day",
                f"Replayed against the running services in accelerated time; arrivals {ARRIVALS}, outcomes {outcomes}.",
                campaign,
                {name: run for name, run in runs.items() if name != "hourly"},
                planned,
            ),
            shown.scenario(
                "Twice as many requests at noon",
                f"Arrivals doubled from 12 to 13 h, unknown to any forecast; in process; outcomes {outcomes}.",
                campaign,
                shocked,
            ),
        ),
        solves=shown.solves(prices, solve_seconds),
        serving={
            "requests answered": serving["requests"],
            "one request per call, median ms": round(serving["p50_ms"], 2),
            "one request per call, 99th percentile ms": round(serving["p99_ms"], 2),
            "requests per second, one caller, batches": round(serving["throughput_rps"]),
        },
        versions=_versions(),
        notes=(f"The replay is simulated: arrivals {ARRIVALS}; outcomes {outcomes}.", *evaluation.notes),
    )


def _outcomes_note(dataset: Dataset) -> str:
    if dataset.truth is not None:
        return "drawn from the generator's known truth"
    return "drawn from a fitted outcome model (another recipe and seed, calibrated on the last labelled rows)"


def _plain(found: Any) -> Any:
    return found if isinstance(found, float) else {"value": found.value, "low": found.low, "high": found.high}


def _versions() -> dict[str, str]:
    return {package: version(package) for package in PACKAGES}


def _training_run(folder: Path) -> Path:
    return sorted((folder / "pipeline").glob("shadowprice-train-*"))[-1]


def _evaluation(training_run: Path) -> ReportData:
    return from_json(ReportData, (training_run / "evaluate" / "evaluation").read_text())
