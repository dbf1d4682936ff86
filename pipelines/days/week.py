"""Days of a population that drifts: the pipeline ``retrain`` closes the loop, beside a frozen model and the truth."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from operations.common.ledger_reads import SAMPLE_ROWS
from operations.common.solver import Solver
from operations.common.workspace import CAMPAIGN, MODEL, SERVED, VERSIONS, read_campaign
from pipelines.local import PipelineFailed, run
from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.datasets.truth import true_curves
from shadowprice.datasets.world import drifted_truth
from shadowprice.errors import InvalidInput
from shadowprice.files import write_whole
from shadowprice.learning.bundle import read_meta
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.replay.compare import Setting
from shadowprice.pacing.replay.day import draw_day
from shadowprice.pacing.replay.loop import LoopDay, run_loop
from shadowprice.pacing.replay.outcomes import NamedCurves, OutcomeModel
from shadowprice.pacing.replay.policies import past_traffic
from shadowprice.pacing.replay.run import Replay
from shadowprice.pacing.replay.served_log import write_replay

WEEK = "week"
"""Workspace of the closed loop in the folder of a run."""
EVERY = 7
"""Days between two retrains. What a week of drift costs a frozen model is less than what exploration and a model of so
few rows cost a loop (table ``closed_loop`` of ``make reproduce``).
"""
LIMITS = {"value_margin": 0.2}
"""Limits of the gate: the rows of a week can rule out a loss of a fifth, and cannot show a gain of 1 %."""
REFUSED = "gate-refused"
"""Step in which a retrain ends whose model the gate refuses."""
EXPLORATION = 0.01
"""Least share of requests that explore; a share that explores brings less than one that does not."""


def check_days(days: int, dataset: str) -> None:
    """Raise for days that a data set cannot have."""
    if days < 1:
        raise InvalidInput("must be at least 1", field="days")
    if days > 1 and dataset != "world":
        raise InvalidInput(
            f"needs a population whose truth is known on every day: --dataset world, got {dataset!r}", field="days"
        )


def play_days(folder: Path, days: int, arguments: Mapping[str, Any]) -> list[LoopDay]:
    """Replay the days of the run in ``folder`` under each way to decide.

    The first day is that of the run. Each has the campaign's budget. Days are replayed in process, with the same rule,
    pacer and hard stop as the services: those stamp real time, in which a week takes a week.

    Args:
        folder: a run whose train pipeline went through.
        days: number of days.
        arguments: of the train pipeline.
    """
    workspace, seed = folder / WEEK, int(arguments["seed"])
    campaign = read_campaign(folder)
    campaign = replace(campaign, exploration=max(campaign.exploration, EXPLORATION))
    # A run that was interrupted on one of the days begins with the first again.
    shutil.rmtree(workspace, ignore_errors=True)
    workspace.mkdir()
    shutil.copytree(folder / VERSIONS, workspace / VERSIONS)
    (workspace / MODEL).symlink_to(Path(VERSIONS) / _version(folder), target_is_directory=True)
    traffic = Traffic.load(folder)
    frozen = _curves(folder, traffic)
    current, trained_on = [frozen], [_version(folder)]

    if days <= EVERY:
        print(
            f"  no model is trained again before day {EVERY + 1}: a loop that is closed sooner does not pay", flush=True
        )

    def setting(day: int) -> Setting:
        today = replace(campaign, starts_at=campaign.starts_at + timedelta(days=day))
        forecast = traffic.forecast(today)
        truth = drifted_truth(day, **dict(arguments["options"]) | {"seed": seed})
        outcomes = {
            side: NamedCurves(
                account.account_id,
                Curves(
                    np.asarray(today.terms(side).levels),
                    true_curves(truth, side, account.account_id, len(today.terms(side).levels)).astype(np.float32),
                ),
            )
            for side, account in traffic.accounts.items()
        }
        return Setting(
            campaign=today,
            day=draw_day(forecast.expected, traffic.accounts, seed=seed, name=f"{campaign.name}-{day}"),
            outcomes=OutcomeModel(today, outcomes, seed=seed),
            model=frozen,
            forecast=forecast,
            history=past_traffic(traffic.accounts, SAMPLE_ROWS, seed=seed),
        )

    def retrain(day: int, played: Replay) -> Mapping[Side, NamedCurves] | None:
        today = replace(campaign, starts_at=campaign.starts_at + timedelta(days=day))
        log = workspace / SERVED / WEEK
        write_replay(log, played, today, current[-1], trained_on[-1])
        if (day + 1) % EVERY:
            return None
        write_whole(workspace / CAMPAIGN, json.dumps(today.to_dict(), indent=1))
        passed_on = ("dataset", "data", "options", "recipe", "epochs", "seed", "workers")
        passed = {name: arguments[name] for name in passed_on}
        more: dict[str, Any] = {"mature_hours": 0, "beat_uniform": False}
        more["limits"] = LIMITS | dict(arguments["limits"])
        try:
            run("retrain", workspace / "pipeline", passed | more | {"workspace": str(workspace), "log": str(log)})
        except PipelineFailed as error:
            if REFUSED not in str(error):
                raise
            print(f"  day {day + 1}: the gate refuses the new model, and the model stays", flush=True)
        if _version(workspace) == trained_on[-1]:
            return None
        trained_on.append(_version(workspace))
        current.append(_curves(workspace, traffic))
        return current[-1]

    days_played = []
    for played_day in run_loop(days, setting, retrain):
        days_played.append(played_day)
        values = ", ".join(f"{way} {value:,.0f}" for way, value in played_day.value.items())
        print(f"  day {played_day.day + 1} of {days}, true value: {values}", flush=True)
    return days_played


def _version(workspace: Path) -> str:
    return str(read_meta((workspace / MODEL).resolve())["model_version"])


def _curves(workspace: Path, traffic: Traffic) -> dict[Side, NamedCurves]:
    """Curves of the registered model for all accounts that ask; those that it did not serve get its default."""
    solver = Solver(workspace)
    return {
        side: NamedCurves(account.account_id, solver.curves(side, account.account_id))
        for side, account in traffic.accounts.items()
    }
