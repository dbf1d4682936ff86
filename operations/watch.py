"""Watch the quality of the served model, from the decision log of its campaign."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.compute as pc
from numpy.typing import NDArray

from operations.common.job import Job, option, reads, required, writes
from operations.common.maturity import hours_of, maturity
from operations.common.workspace import COLUMNS, MODEL, POPULATION, read_campaign, read_groups
from shadowprice.campaign import Campaign
from shadowprice.experiments.served import COLUMNS as COLUMNS_OF_REQUESTS
from shadowprice.experiments.served import asked_requests, with_units
from shadowprice.learning.bundle import read_meta
from shadowprice.limits.attributes import columns_file
from shadowprice.pacing.decision_log.served import ServedLog, read_log
from shadowprice.pacing.population import read_population
from shadowprice.responses.layers.heads import load_heads
from shadowprice.watch.feature_drift import feature_drift
from shadowprice.watch.finding import Finding
from shadowprice.watch.reference import Reference
from shadowprice.watch.registry import CHECKS, check_all
from shadowprice.watch.rows import READ, watched_rows
from shadowprice.watch.sample_ratio import sample_ratio_finding
from shadowprice.watch.verdict import FILE, Verdict


@dataclass(frozen=True, kw_only=True)
class WatchJob(Job):
    """Check the registered model and the sample ratio of the experiment's arms, and keep the verdict."""

    log: Path = reads("folder of the decision log")
    workspace: Path = required("folder with campaign and model; the verdict is kept there")
    result: Path = writes("file that gets the verdict as JSON")
    page: Path = writes("file that gets the verdict as Markdown")
    tolerance: float = option(0.2, "error of predictions and rates that is no alarm, in log odds")
    rate: float = option(0.05, "probability of a false alarm of one check in the life of a model")
    mature_hours: int = maturity()


def run(job: WatchJob) -> Verdict:
    """Write the verdict, also into the workspace, where the ledger's metrics and the next solve read it.

    Raises:
        NotFound: no log, or no model.
        InvalidTable: the log has a side that the campaign does not have.
    """
    campaign = read_campaign(job.workspace)
    # Resolved once, so that version and heads belong together even if the link moves meanwhile.
    model = (job.workspace / MODEL).resolve()
    hours = hours_of(job.mature_hours, campaign)
    version = str(read_meta(model)["model_version"])
    log = read_log(job.log, columns=READ, where=pc.field("model_version") == version)
    rows = watched_rows(log, campaign, hours, version)
    findings = check_all(rows, _reference(job, campaign, model, version))
    findings += _columns(job, log, version)
    if campaign.experiment is not None and log.newest is not None:
        # Arms divide the requests of all models, so the log is read again when that of the model is not needed.
        del log
        asked, columns = with_units(
            asked_requests(read_log(job.log, columns={"decisions": COLUMNS_OF_REQUESTS}), campaign),
            campaign.experiment,
            read_groups(campaign, job.workspace),
        )
        findings.append(sample_ratio_finding(asked, campaign.experiment, columns))
    verdict = Verdict(
        campaign=campaign.name,
        model_version=version,
        requests=len(rows),
        written_at=datetime.now(UTC),
        findings=tuple(findings),
    )
    verdict.write(job.result)
    job.page.write_text("\n".join(_page(verdict, hours)) + "\n")
    verdict.write(job.workspace / FILE)
    return verdict


def _reference(job: WatchJob, campaign: Campaign, model: Path, version: str) -> Reference:
    population = read_population(job.workspace / POPULATION / version, load_heads(model))
    activity: dict[str, NDArray[np.floating]] = {}
    for side, accounts in population.items():
        weight = np.asarray(accounts.curves.weight)
        # Without a past the accounts count alike.
        if weight.any():
            activity[side] = weight
    rates = read_meta(model).get("labels", {})
    return Reference(
        levels={side: len(terms.levels) for side, terms in campaign.sides.items()},
        tolerance=job.tolerance,
        rate=job.rate,
        predicted={side: accounts.curves.response for side, accounts in population.items()},
        activity=activity,
        unordered=[side for side, terms in campaign.sides.items() if not terms.ordered],
        labels={
            (side, level): (int(rows), mean)
            for side, levels in rates.items()
            for level, (rows, mean) in enumerate(levels)
            if rows >= 1
        },
    )


def _columns(job: WatchJob, log: ServedLog, version: str) -> list[Finding]:
    """Compare the raw columns of the accounts that asked the model with those at its registration."""
    file = job.workspace / POPULATION / version / COLUMNS
    findings: list[Finding] = []
    for side, known in (json.loads(file.read_bytes()) if file.exists() else {}).items():
        decisions = log.decisions
        mine = decisions[decisions["side"] == side]
        now = pd.read_parquet(job.workspace / columns_file(side))
        asked = mine[["account_id"]].merge(now, on="account_id")
        findings += feature_drift(asked, side, known["columns"], known["accounts"], rate=job.rate)
    return findings


def _page(found: Verdict, hours: float) -> Iterator[str]:
    yield f"# Watch on model {found.model_version} of campaign {found.campaign}"
    yield ""
    count = len(found.alarms)
    calm = (
        "**No alarm.**" if found.requests else "**Nothing was judged**, so no alarm is no sign that the model is right."
    )
    yield f"**{count} alarms.**" if count else calm
    yield f"{found.requests:,} requests of this model are at least {hours:g} hours old and were judged."
    if idle := sorted({*CHECKS} - {finding.check for finding in found.findings}):
        yield f"Without requests to judge: {', '.join(idle)}."
    yield ""
    yield "| check | side | level | rows | statistic | limit | alarm | verdict |"
    yield "|---|---|---|---|---|---|---|---|"
    for finding in found.findings:
        level = "all" if finding.level < 0 else finding.level
        numbers = f"{finding.rows:,} | {finding.statistic:.3g} | {finding.limit:.3g}"
        alarm = "yes" if finding.alarm else ""
        yield f"| {finding.check} | {finding.side} | {level} | {numbers} | {alarm} | {finding.sentence} |"
