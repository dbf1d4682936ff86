"""Estimate what the arms of a campaign brought, from its decision log."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from operations.common.job import Job, option, reads, writes
from operations.common.maturity import hours_of, maturity
from operations.common.workspace import read_campaign, read_groups
from shadowprice.errors import InvalidInput, NotCertified
from shadowprice.evaluation.policy.confidence_sequence import ConfidenceSequence
from shadowprice.experiments.analysis import ALARM, Analysis, analyse
from shadowprice.experiments.lifts import Lift
from shadowprice.experiments.served import READ, mature, served_requests, with_units, without_canary
from shadowprice.experiments.spillover import ForAll, effects_for_all
from shadowprice.files import write_whole
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.pacing.decision_log.served import read_log

EFFECTS = ("value", "relative", "cost", "per_money")


@dataclass(frozen=True, kw_only=True)
class LiftJob(Job):
    """Write the lift of each arm, its intervals by day, and the sample ratio."""

    log: Path = reads("folder of the decision log")
    campaign: Path = reads("file of the campaign with its experiment, or the workspace that has it")
    result: Path = writes("file that gets the result as JSON")
    page: Path = writes("file that gets the result as Markdown")
    features: Path | None = reads(
        "parquet file with account_id, numbers of the time before the campaign, and the segment", optional=True
    )
    graph: Path | None = reads(
        "folder of a graph snapshot, such as TRAINING/snapshot-000, for the effect if everybody is in an arm",
        optional=True,
    )
    segment: str = option("", "column of the features whose values get a lift each; empty: none")
    baseline: str = option("", "arm that the others are compared with; empty: the first holdout")
    side: str = option("", "side that is analysed; empty: all together")
    mature_hours: int = maturity()


def run(job: LiftJob) -> Analysis:
    """Write the result.

    Raises:
        InvalidInput: the campaign has no experiment, or the features lack an account's row or a column.
        InvalidTable: the arms of the log are not those of the experiment.
        NotCertified: units are missing in an arm (sample-ratio mismatch); the result is written all the same.
    """
    campaign, log = read_campaign(job.campaign), read_log(job.log, columns=READ)
    if campaign.experiment is None:
        raise InvalidInput("has no experiment; name its arms", field="campaign.experiment")
    asked = served_requests(log, campaign)
    if job.side:
        campaign.terms(job.side)  # type: ignore[arg-type]
        asked = asked[asked["side"] == job.side].reset_index(drop=True)
    groups = read_groups(campaign, job.campaign)
    asked, columns = with_units(asked, campaign.experiment, groups)
    asked = without_canary(asked, campaign.experiment, columns.unit)
    hours = hours_of(job.mature_hours, campaign)
    rows = mature(asked, log, hours)
    if rows.empty:
        raise InvalidInput(f"no decision is {hours:g} hours old; wait, or lower it", field="mature_hours")
    covariates: tuple[str, ...] = ()
    if job.features is not None:
        rows, covariates = _with_features(rows, job.features, job.segment)
    elif job.segment:
        raise InvalidInput("needs the file of features that has it", field="segment")
    found = analyse(
        rows,
        campaign.experiment,
        asked=asked,
        baseline=job.baseline,
        columns=replace(columns, covariates=covariates),
        segment=job.segment,
    )
    everybody: list[ForAll] = []
    if job.graph is not None:
        graph = GraphSnapshot.load(job.graph)
        everybody = effects_for_all(rows, campaign.experiment, graph, baseline=found.baseline, groups=groups)
    content = {"campaign": campaign.name, "mature_hours": hours, "requests": len(asked), "mature": len(rows)}
    told = to_json(found) | {"everybody": [_plain(asdict(each)) for each in everybody]}
    write_whole(job.result, json.dumps(content | told, indent=1))
    lines = chain(_page(campaign.name, found, len(asked) - len(rows)), _everybody(everybody))
    write_whole(job.page, "\n".join(lines) + "\n")
    if found.mismatch:
        raise NotCertified(
            f"sample-ratio mismatch: the units of the arms {dict(found.sample_ratio.observed)} do not have the "
            f"shares of the experiment (always-valid p-value below {ALARM}); find the lost rows before reading the lift"
        )
    return found


def _with_features(rows: pd.DataFrame, file: Path, segment: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    try:
        features = pd.read_parquet(file)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot be read: {error}", field=str(file)) from error
    missing = [name for name in ("account_id", *([segment] if segment else [])) if name not in features]
    if missing:
        raise InvalidInput(f"has no column {missing}; it has {list(features.columns)}", field=str(file))
    features = features.assign(account_id=features["account_id"].astype(str))
    if features["account_id"].duplicated().any():
        raise InvalidInput("must have one row for each account", field=f"{file}.account_id")
    taken = set(features.columns) & set(rows.columns) - {"account_id"}
    if taken:
        raise InvalidInput(f"has columns of the log, {sorted(taken)}; rename them", field=str(file))
    numbers = tuple(name for name in features.select_dtypes("number").columns if name != segment)
    joined = rows.merge(features, on="account_id", how="left")
    if segment:
        joined[segment] = joined[segment].astype(object).where(joined[segment].notna(), "unknown")
    return joined, numbers


def to_json(found: Analysis) -> dict[str, Any]:
    """Return an analysis as plain JSON types; what is not a finite number is null."""
    content = {
        "baseline": found.baseline,
        "level": found.level,
        "arms": [asdict(each) for each in found.arms],
        "sample_ratio": asdict(found.sample_ratio)
        | {"always_valid_p_value": found.ratio_by_day[-1], "mismatch": found.mismatch},
        "lifts": [_lift(each) for each in found.lifts],
        "daily": [
            {"arm": each.arm, "days": list(each.days), "value": _sequence(each.value), "cost": _sequence(each.cost)}
            for each in found.daily
        ],
        "segments": {
            arm: {
                "different_p_value": each.different,
                "segments": [
                    {"segment": one.segment, "adjusted_p_value": one.adjusted} | _lift(one.lift)
                    for one in each.segments
                ],
            }
            for arm, each in found.segments.items()
        },
    }
    return {name: _plain(value) for name, value in content.items()}


def _lift(found: Lift) -> dict[str, Any]:
    effects = {name: asdict(getattr(found, name)) | {"p_value": getattr(found, name).p_value} for name in EFFECTS}
    counts = ("arm", "units", "requests", "baseline_units", "baseline_requests")
    return {name: getattr(found, name) for name in counts} | effects


def _sequence(found: ConfidenceSequence) -> dict[str, list[float]]:
    return {name: getattr(found, name).tolist() for name in ("value", "low", "high")}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _page(campaign: str, found: Analysis, young: int) -> Iterator[str]:
    yield f"# Lift of campaign {campaign}"
    yield ""
    if found.mismatch:
        yield "**Do not read the lift: the units do not have the shares of the experiment.**"
        yield ""
    yield f"Per request, against the arm `{found.baseline}`, with {found.level:.0%} intervals; money in minor units."
    if young:
        yield f"{young:,} requests are left out, because their outcome can still come."
    yield ""
    yield "| arm | units | requests | value | paid |"
    yield "|---|---|---|---|---|"
    for arm in found.arms:
        yield f"| {arm.arm} | {arm.units:,} | {arm.requests:,} | {arm.value:,.6g} | {arm.cost:,} |"
    for lift in found.lifts:
        total = [each * lift.requests for each in (lift.value.value, lift.value.low, lift.value.high)]
        yield ""
        yield f"## {lift.arm}"
        yield ""
        yield f"- Value that would not have come anyway: {total[0]:,.5g} [{total[1]:,.5g}, {total[2]:,.5g}] in all;"
        yield f"  {lift.value} per request, {lift.relative.value:+.2%} of that of `{lift.baseline}`."
        yield f"- Additional money: {lift.cost} per request."
        yield f"- Incremental value per minor unit: {lift.per_money}."
    for daily in found.daily:
        yield ""
        yield f"## {daily.arm} by day"
        yield ""
        yield "The intervals hold on all days together: the trial may be stopped on any of them."
        yield ""
        yield "| day | incremental value | low | high |"
        yield "|---|---|---|---|"
        for day, *row in zip(daily.days, daily.value.value, daily.value.low, daily.value.high, strict=True):
            yield f"| {day} | " + " | ".join(f"{each:.4g}" if math.isfinite(each) else "" for each in row) + " |"
    for name, segments in found.segments.items():
        yield ""
        yield f"## {name} by segment"
        yield ""
        yield f"p-value of no difference between segments: {segments.different:.3g}."
        yield ""
        yield "| segment | incremental value | adjusted p-value |"
        yield "|---|---|---|"
        for one in segments.segments:
            yield f"| {one.segment} | {one.lift.value} | {one.adjusted:.3g} |"
    ratio = found.sample_ratio
    yield ""
    yield "## Sample ratio"
    yield ""
    yield f"p-value {ratio.p_value:.3g}; valid on all days together: {found.ratio_by_day[-1]:.3g}."
    yield ""
    yield "| arm | units | expected |"
    yield "|---|---|---|"
    for name, expected in ratio.expected.items():
        yield f"| {name} | {ratio.observed[name]:,} | {expected:,.0f} |"


def _everybody(found: Sequence[ForAll]) -> Iterator[str]:
    if not found:
        return
    yield ""
    yield "## If everybody were in an arm"
    yield ""
    yield "Per request, against nobody in it: the own arm, and the share of partners in the arm."
    yield ""
    yield "| arm | value | cost | requests |"
    yield "|---|---|---|---|"
    for each in found:
        yield f"| {each.arm} | {each.value} | {each.cost} | {each.requests:,} |"
