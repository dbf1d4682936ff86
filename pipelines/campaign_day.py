"""Serve a run, replay its campaign day against the services, and write the results."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import copytree, rmtree

import numpy as np

from operations.common.ledger_reads import SAMPLE_ROWS
from operations.common.solver import Solver
from operations.common.workspace import (
    CAMPAIGN,
    PRICE,
    PRICES,
    REPLAY_LEDGER,
    REPLAY_PRICES,
    SERVED,
    read_campaign,
    read_columns,
    read_groups,
)
from pipelines.run_folder import RunFolder
from serving.local.launch import Deployment, launch
from serving.local.replay import ServiceDay
from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.datasets.package import load_dataset
from shadowprice.datasets.registry import Dataset
from shadowprice.files import write_whole
from shadowprice.learning.outcome_model import populations, truth_of
from shadowprice.learning.training_set import TrainingSet
from shadowprice.pacing.exploration import explored
from shadowprice.pacing.history import Traffic, read_part
from shadowprice.pacing.places import REPORT as PLAN_REPORT
from shadowprice.pacing.price_store import PriceStore
from shadowprice.pacing.replay.compare import Setting, attainable, run_policies
from shadowprice.pacing.replay.day import Day, draw_day
from shadowprice.pacing.replay.gains import gains
from shadowprice.pacing.replay.loop import LoopDay
from shadowprice.pacing.replay.outcomes import NamedCurves, OutcomeModel
from shadowprice.pacing.replay.partners import past_partners, with_partners
from shadowprice.pacing.replay.policies import past_traffic
from shadowprice.pacing.replay.run import System, replay
from shadowprice.pacing.spend import MetricsSpend
from shadowprice.reports.campaign_day import CampaignDay, rush_hour
from shadowprice.reports.data import ReportData
from shadowprice.reports.mix import mix_of, segments_of
from shadowprice.reports.stored import store_report
from shadowprice.storage import from_json

TRAINING = ("shadowprice-train-", "shadowprice-vouchers-", "shadowprice-delivery-")
"""Begins of the folders of pipelines that train."""
LEDGER = "replay-ledger"
"""Ledger of the replayed day."""


def play(run: RunFolder, started: float, *, loop: Sequence[LoopDay] = ()) -> None:
    """Replay the campaign day of a run and write summary.json, price.json and the report.

    Args:
        run: a run whose train and resolve pipelines went through.
        started: ``perf_counter`` at the start of this process's work.
        loop: days with retrains, for the report and the summary; empty: none.

    What an earlier process left of the day is removed first.
    """
    folder, seed = run.folder, int(run.arguments["seed"])
    training_run = _training_run(folder)
    dataset = load_dataset(training_run / "prepare" / "tables")
    training = TrainingSet.load(training_run / "featurize" / "training")
    # The day has ledger, log and prices of its own: those of the run are for the window that is served.
    for path in folder.glob(f"{REPLAY_LEDGER}*"):
        path.unlink()
    for old in (folder / SERVED / Path(REPLAY_LEDGER).stem, folder / REPLAY_PRICES):
        rmtree(old, ignore_errors=True)
    copytree(folder / PRICES, folder / REPLAY_PRICES)
    solver, traffic = Solver(folder, prices=PriceStore(folder / REPLAY_PRICES)), Traffic.load(folder)
    campaign, pairs = solver.campaign, read_part(folder, "pairs")

    def day(shock: Mapping[int, float] | None = None) -> Day:
        expected = traffic.forecast(campaign).expected
        drawn = draw_day(expected, traffic.accounts, seed=seed, name=campaign.name, shock=shock)
        return with_partners(drawn, pairs, campaign)

    epochs = int(run.arguments["epochs"])
    truth = run.step(
        "outcome model", {"seed": seed, "epochs": epochs}, partial(_outcomes, dataset, training, seed, epochs)
    )
    attributes = read_columns(campaign, folder)
    real = populations(training, _curves(training, truth), campaign.coverage(attributes))
    before = past_traffic(traffic.accounts, SAMPLE_ROWS, seed=seed)
    setting = Setting(
        campaign=campaign,
        day=day(),
        outcomes=OutcomeModel(campaign, real, seed=seed),
        model={
            side: NamedCurves(asking.account_id, solver.curves(side, asking.account_id))
            for side, asking in traffic.accounts.items()
        },
        forecast=traffic.forecast(campaign),
        history=before,
        partners=past_partners(pairs, before, seed),
        groups=read_groups(campaign, folder),
        attributes=attributes,
    )
    with (
        run.timed("serve and replay"),
        launch(Deployment.of_run(folder, folder / CAMPAIGN, ledger=REPLAY_LEDGER, prices=REPLAY_PRICES)) as services,
    ):
        service = ServiceDay(services, folder, solver, traffic, MetricsSpend(services.metrics_urls))
        played = replay(
            setting.day,
            campaign,
            setting.outcomes,
            System(service.decide, service.settle, service.resolve),
            moments=service.moments,
        )
        used = service.used()
    with run.timed("compare"):
        runs = {"service": played, **run_policies(setting, progress=True)}
        busier = replace(setting, day=day({rush_hour(campaign.hours): 2.0}))
        shocked = run_policies(busier, progress=True)

    prices, damaged = solver.prices.history(campaign.name)
    for reason in damaged:
        print(f"  passed over: {reason}", flush=True)
    played_day = CampaignDay(
        dataset=dataset,
        training=training,
        campaign=campaign,
        evaluation=_evaluation(training_run),
        runs=runs,
        shocked=shocked,
        attainable=attainable(setting),
        attainable_shocked=attainable(busier),
        gains=gains(setting, played.outcomes),
        mix=mix_of(campaign, played.outcomes, segments_of(dataset.tables.account, setting.model)),
        exploration=explored(setting, played),
        prices=prices,
        damaged=damaged,
        solve_seconds={price.record.version: price.seconds for _, price in played.prices},
        single_seconds=service.single_seconds,
        call_seconds=service.call_seconds,
        requests=service.requests,
        errors=service.errors,
        used=used,
        seconds=run.seconds,
        peak_memory_mb=run.peak_memory_mb,
        loop=loop,
    )
    with run.timed("report"):
        store_report(played_day.report(), folder)
    # Steps of an earlier process count too.
    total = max(time.perf_counter() - started, sum(run.seconds.values()))
    played_day = replace(played_day, seconds=run.seconds | {"total": total}, peak_memory_mb=run.peak_memory_mb)
    write_whole(folder / PRICE, played_day.opening.to_json())
    write_whole(folder / "summary.json", json.dumps(played_day.summary(), indent=1))


def show_plan(run: RunFolder, started: float) -> None:
    """Write summary.json, price.json and the report of a delivery, whose last step is its plan."""
    folder, campaign = run.folder, read_campaign(run.folder)
    price = PriceStore(folder / PRICES).latest(campaign.name)
    assert price is not None
    with run.timed("report"):
        store_report(_evaluation(_training_run(folder)), folder)
    write_whole(folder / PRICE, price.to_json())
    plan = json.loads((folder / PLAN_REPORT).read_text())
    solve = {name: getattr(price, name) for name in ("status", "primal", "dual", "gap", "violation", "prices")}
    summary = {
        "dataset": run.arguments["dataset"],
        "accounts": plan["accounts"],
        "currency": campaign.currency,
        "solve": solve,
        "plan": plan["segments"],
        "seconds": run.seconds | {"total": max(time.perf_counter() - started, sum(run.seconds.values()))},
        "peak_memory_mb": run.peak_memory_mb,
    }
    write_whole(folder / "summary.json", json.dumps(summary, indent=1))


def _outcomes(dataset: Dataset, training: TrainingSet, seed: int, epochs: int, folder: Path) -> None:
    """Write the curves that outcomes are drawn from."""
    for side, curves in truth_of(dataset, training, seed, epochs).items():
        np.save(folder / f"{side}.npy", curves.response)
        if curves.amounts is not None:
            np.save(folder / f"{side}-amounts.npy", curves.amounts)


def _curves(training: TrainingSet, folder: Path) -> dict[Side, Curves]:
    """Read what :func:`_outcomes` wrote."""
    curves: dict[Side, Curves] = {}
    for side in training.serving:
        response = np.load(folder / f"{side}.npy", allow_pickle=False)
        path = folder / f"{side}-amounts.npy"
        amounts = np.load(path, allow_pickle=False) if path.exists() else None
        curves[side] = Curves(np.asarray(training.levels[side]), response, amounts=amounts)
    return curves


def refused(folder: Path) -> tuple[Path, ReportData] | None:
    """Return the training run and the evaluation of a run whose model was refused; None where it was not."""
    try:
        training_run = _training_run(folder)
        data = _evaluation(training_run)
    except (IndexError, FileNotFoundError):
        return None
    return (training_run, data) if data.gate and not data.gate.accepted else None


def warnings(folder: Path) -> tuple[str, ...]:
    """The rules of the gate that the model of a run does not meet and that were not required."""
    gate = _evaluation(_training_run(folder)).gate
    return gate.warnings if gate else ()


def _training_run(folder: Path) -> Path:
    """Artifacts of the newest run of a pipeline that trained."""
    runs = (folder / "pipeline").glob("shadowprice-*")
    return sorted(run for run in runs if run.name.startswith(TRAINING))[-1]


def _evaluation(training_run: Path) -> ReportData:
    return from_json(ReportData, (training_run / "evaluate" / "evaluation").read_text())
