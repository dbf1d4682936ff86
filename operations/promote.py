"""Put a model on trial beside the served one, raise its share by its gain, and promote it or roll it back."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from operations.common.job import option, reads, required, writes
from operations.common.journal import note, notes
from operations.common.maturity import hours_of, maturity
from operations.common.model_registry import Publishing
from operations.common.workspace import (
    CANARY_LOG,
    MODEL,
    PRICES,
    VERSIONS,
    log_of,
    read_campaign,
    read_groups,
    read_worths,
    watch_alarms,
)
from operations.register import RegisterJob
from operations.register import run as register
from shadowprice.arms import CANARY, UNASSIGNED, WHOLE
from shadowprice.campaign import Campaign
from shadowprice.currency import Currency
from shadowprice.errors import Conflict, InvalidInput, NotFound
from shadowprice.experiments.columns import Columns
from shadowprice.experiments.served import LATE, READ, mature, served_requests, with_units
from shadowprice.experiments.trial_stage import Stage, StageVerdict, judge_stage
from shadowprice.files import write_whole
from shadowprice.learning.bundle import read_meta
from shadowprice.pacing.canary import FILE, Canary
from shadowprice.pacing.decision_log.served import read_log
from shadowprice.pacing.price_store import PriceStore

STAGES = ((100, -0.2), (1000, 0.0))
"""Share in basis points and margin of each stage before everybody is served."""


@dataclass(frozen=True, kw_only=True)
class PromoteJob(Publishing):
    """Start a canary with ``model``, or take the next step of the one that runs: grow, wait, promote or roll back.

    Run it daily. The steps depend only on the log and the canary's file, so an additional run changes nothing.
    """

    workspace: Path = required("folder with campaign, model and prices")
    model: Path | None = reads("bundle that goes on trial; empty: the next step of the canary that runs", optional=True)
    evaluation: Path | None = reads("JSON that the job evaluate wrote; its verdict goes into the model", optional=True)
    log: Path | None = option(None, "folder of the decision log; that of a run on one machine if left out")
    page: Path | None = writes("file that gets the step as Markdown", optional=True)
    stages: tuple[str, ...] = option(
        tuple(f"{share}:{margin:g}" for share, margin in STAGES),
        "basis points of the units and margin of each stage, before everybody: -0.2 rules out a loss of a fifth",
    )
    rate: float = option(0.05, "probability that a canary is rolled back although it is not worse, over all stages")
    most_days: int = option(28, "days of a stage after which the incumbent stays")
    back_on_alarm: bool = option(True, "serve the incumbent again when the watch alarms on the promoted model")
    mature_hours: int = maturity()


def run(job: PromoteJob) -> str:
    """Take a step and return it: ``start``, ``wait``, ``grow``, ``promote``, ``roll back``, ``back``, or ``none``.

    ``back`` serves the incumbent again, because the watch alarms on the model that was promoted last.

    Raises:
        Conflict: another model is on trial, or the gate refuses the model.
        NotFound: there is no price yet, or no log.
        InvalidInput: a stage, a rate, or the canary's file.
    """
    stages = _stages(job)
    campaign = read_campaign(job.workspace)
    canary = Canary.read(job.workspace, campaign.name)
    if job.model is not None:
        return _start(job, campaign, canary, stages[0])
    if canary is None:
        return _back_to_incumbent(job, campaign) if job.back_on_alarm else "none"
    if canary.promoted:
        return _settle(job, campaign, canary)
    verdict = _judge(job, campaign, canary, stages)
    if verdict.step == "roll back":
        (job.workspace / FILE).unlink(missing_ok=True)
        return _log(job, campaign, "roll back", replace(canary, share=0), verdict, verdict.reason)
    if verdict.step == "wait":
        return _log(job, campaign, "wait", canary, verdict, verdict.reason)
    if canary.stage + 1 < len(stages):
        following = stages[canary.stage + 1].share
        grown = replace(canary, stage=canary.stage + 1, share=following, since=datetime.now(UTC))
        grown.write(job.workspace)
        return _log(job, campaign, "grow", grown, verdict, verdict.reason)
    # The canary decides for everybody until the first price of the model that is now registered.
    promoted = replace(canary, stage=canary.stage + 1, share=WHOLE, since=datetime.now(UTC))
    promoted.write(job.workspace)
    return _promote(job, campaign, promoted, verdict, verdict.reason)


def _promote(job: PromoteJob, campaign: Campaign, canary: Canary, verdict: StageVerdict | None, reason: str) -> str:
    """Register the model of a canary that decides for everybody, and record the step."""
    model = job.workspace / VERSIONS / canary.model_version
    register(RegisterJob(model=model, workspace=job.workspace, **job.publishing))
    return _log(job, campaign, "promote", canary, verdict, reason)


def _stages(job: PromoteJob) -> list[Stage]:
    stages = []
    for text in job.stages:
        share, _, margin = text.partition(":")
        try:
            stages.append(Stage(int(share), float(margin)))
        except ValueError:
            raise InvalidInput(f"must look like 100:-0.2, got {text!r}", field="stages") from None
    shares = [0, *(stage.share for stage in stages), WHOLE]
    if not stages or any(later <= earlier for earlier, later in pairwise(shares)):
        raise InvalidInput("shares must rise, from 1 to 9,999 basis points", field="stages")
    if not all(-1.0 <= stage.margin < 1.0 for stage in stages):
        raise InvalidInput("margins must lie in [-1, 1)", field="stages")
    if not 0 < job.rate < 0.5:
        raise InvalidInput("must lie between 0 and 0.5", field="rate")
    return stages


def _start(job: PromoteJob, campaign: Campaign, canary: Canary | None, stage: Stage) -> str:
    assert job.model is not None
    version = str(read_meta(job.model)["model_version"])
    if canary is not None and canary.model_version == version:
        return "wait"
    if canary is not None:
        raise Conflict(f"model {canary.model_version} is on trial; wait for its verdict, or remove {FILE}")
    incumbent = str(read_meta((job.workspace / MODEL).resolve())["model_version"])
    if version == incumbent:
        raise Conflict(f"model {version} is served already")
    newest = PriceStore(job.workspace / PRICES).latest(campaign.name, verified_only=True)
    if newest is None:
        raise NotFound(f"campaign {campaign.name!r} has no price yet; solve one before a canary")
    register(
        RegisterJob(model=job.model, workspace=job.workspace, evaluation=job.evaluation, serve=False, **job.publishing)
    )
    started = Canary(
        campaign=campaign.name,
        model_version=version,
        incumbent=incumbent,
        stage=0,
        share=stage.share,
        since=datetime.now(UTC),
        prices=dict(newest.prices),
    )
    started.write(job.workspace)
    return _log(job, campaign, "start", started, None, "the gate is passed")


def _settle(job: PromoteJob, campaign: Campaign, canary: Canary) -> str:
    """End a canary that was promoted, once the served model's own price has taken over.

    A promotion that was interrupted before its model was registered goes on. A model that was registered after the
    promotion ends the canary at once.
    """
    last = next(reversed(notes(job.workspace / CANARY_LOG)), None)
    if last is None or (last["step"], last["model_version"]) != ("promote", canary.model_version):
        return _promote(job, campaign, canary, None, "the promotion was interrupted and goes on")
    served = str(read_meta((job.workspace / MODEL).resolve())["model_version"])
    if served != canary.model_version:
        (job.workspace / FILE).unlink(missing_ok=True)
        return "none"
    newest = PriceStore(job.workspace / PRICES).latest(campaign.name, verified_only=True)
    if newest is None or newest.model_version != canary.model_version:
        return "wait"
    (job.workspace / FILE).unlink(missing_ok=True)
    return "none"


def _back_to_incumbent(job: PromoteJob, campaign: Campaign) -> str:
    """Serve the model before the one that was promoted last, if the watch alarms on that one."""
    steps = notes(job.workspace / CANARY_LOG)
    version = str(read_meta((job.workspace / MODEL).resolve())["model_version"])
    last = next((step for step in reversed(steps) if step["step"] in ("promote", "back")), None)
    promoted = last is not None and (last["step"], last["model_version"]) == ("promote", version)
    if last is None or not promoted or not watch_alarms(job.workspace, campaign.name, version):
        return "none"
    model = job.workspace / VERSIONS / last["incumbent"]
    register(RegisterJob(model=model, workspace=job.workspace, **job.publishing))
    names = ("model_version", "incumbent", "stage")
    ended = Canary(
        campaign=campaign.name, share=0, since=datetime.now(UTC), prices={}, **{name: last[name] for name in names}
    )
    return _log(job, campaign, "back", ended, None, "the watch alarms on the promoted model")


def _judge(job: PromoteJob, campaign: Campaign, canary: Canary, stages: list[Stage]) -> StageVerdict:
    stays = pc.field("arm").isin(sorted(_arms(campaign))) & (pc.field("decided_at") >= canary.since + LATE)
    log = read_log(job.log or log_of(job.workspace), columns=READ, where=stays)
    hours = hours_of(job.mature_hours, campaign)
    rows, columns = stage_rows(
        mature(served_requests(log, campaign, read_worths(campaign, job.workspace)), log, hours),
        campaign,
        canary,
        groups_from=job.workspace,
    )
    # A list of stages that is shorter now ends with the stage that runs.
    level = 1.0 - job.rate / max(len(stages), canary.stage + 1)
    stage = stages[min(canary.stage, len(stages) - 1)]
    return judge_stage(rows, stage, level=level, most_days=job.most_days, columns=columns)


def stage_rows(
    requests: pd.DataFrame, campaign: Campaign, canary: Canary, *, groups_from: Path
) -> tuple[pd.DataFrame, Columns]:
    """Return the requests of a canary's stage that it could have decided, with ``net`` and the day of the stage."""
    # A predictor takes the new share over a moment after the file is written.
    stays = requests["arm"].isin(_arms(campaign)) & (requests["decided_at"] >= canary.since + LATE)
    rows = requests[stays].reset_index(drop=True)
    rows, columns = with_units(rows, campaign.experiment, read_groups(campaign, groups_from))
    charge = np.zeros(len(rows))
    for side, terms in campaign.sides.items():
        own = (rows["side"] == side).to_numpy()
        cost = rows.loc[own, "cost"].to_numpy(dtype=np.float64)
        budget = campaign.budget
        earned = np.zeros(cost.size)
        if budget.form == "per_response" and terms.cost_basis == "on_response":
            earned = budget.limit * rows.loc[own, "response"].to_numpy(dtype=np.float64)
        charge[own] = canary.prices.get(budget.name, 0.0) * (cost - earned)
        # A budget of some requests alone is left out: the log does not tell which it counted.
        for group_budget in campaign.group_budgets:
            of_money = group_budget.form == "total" and not group_budget.outcome
            plain = of_money and not (group_budget.partners or group_budget.where)
            if plain and group_budget.side in (None, side):
                charge[own] += canary.prices.get(group_budget.name, 0.0) * cost
    day = (rows["decided_at"] - canary.since) // pd.Timedelta(days=1)
    return rows.assign(net=rows["value"] - charge, day=day.astype(np.int64)), columns


def _arms(campaign: Campaign) -> set[str]:
    """Return the arms in which a canary decides, and its own."""
    test = campaign.experiment
    return {UNASSIGNED, CANARY, *(arm.name for arm in (test.arms if test else ()) if arm.kind == "policy")}


def _log(
    job: PromoteJob, campaign: Campaign, step: str, canary: Canary, verdict: StageVerdict | None, reason: str
) -> str:
    """Add a step to the workspace's history and write its page; return the step."""
    budget, newest = campaign.budget, PriceStore(job.workspace / PRICES).latest(campaign.name, verified_only=True)
    # The newest solve has read the limit from the ledger, as moves of a portfolio have left it.
    limit = budget.limit if newest is None else newest.spent + newest.remaining
    at_risk = round(limit * canary.share / WHOLE) if budget.form == "total" else None
    entry = {
        "step": step,
        "reason": reason,
        "model_version": canary.model_version,
        "incumbent": canary.incumbent,
        "stage": canary.stage,
        "share": canary.share,
        "money_at_risk": at_risk,
        "verdict": None if verdict is None else _plain(asdict(verdict)),
    }
    note(job.workspace / CANARY_LOG, **entry)
    text = "\n".join(_page(entry, verdict, Currency.of(campaign.currency))) + "\n"
    print(text, flush=True)
    if job.page is not None:
        write_whole(job.page, text)
    return step


def _plain(values: dict[str, object]) -> dict[str, object]:
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value for name, value in values.items()
    }


def _page(told: dict[str, Any], verdict: StageVerdict | None, currency: Currency) -> Iterator[str]:
    yield f"# Canary {told['model_version']}: {told['step']}"
    yield ""
    yield f"{str(told['reason']).capitalize()}. Model {told['incumbent']} decides for everybody else."
    share = told["share"]
    assert isinstance(share, int)
    yield f"The canary decides for {share / WHOLE:.2%} of the units from now on."
    if told["money_at_risk"] is not None:
        yield f"Money at risk, its share of the budget: {currency.write(told['money_at_risk'])}."
    if verdict is not None:
        yield ""
        yield "| days | requests of the canary | of the incumbent | relative gain | always-valid interval |"
        yield "|---|---|---|---|---|"
        counts = f"{verdict.days} | {verdict.canary_requests:,} | {verdict.incumbent_requests:,}"
        yield f"| {counts} | {verdict.gain:+.2%} | [{verdict.low:+.2%}, {verdict.high:+.2%}] |"
