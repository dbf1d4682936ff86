"""Estimate the effect of a campaign's arms from its decision log."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from operations.common.accounts import accounts_of, features_of, in_units, read_outcomes, with_features
from operations.common.job import Job, option, reads, write_figures, writes
from operations.common.maturity import hours_of, maturity
from operations.common.workspace import MODEL, read_campaign, read_groups, read_worths
from shadowprice.arms import HOUR
from shadowprice.campaign import Campaign
from shadowprice.currency import Currency
from shadowprice.errors import InvalidInput, NotCertified
from shadowprice.evaluation.uplift.long_term import LongTermFigures
from shadowprice.experiments.analysis import ALARM, Analysis, analyze
from shadowprice.experiments.lifts import Lift
from shadowprice.experiments.periods import in_periods
from shadowprice.experiments.served import READ, check_holdout, served_requests, with_units
from shadowprice.experiments.spillover import ForAll, PassedOn, effects_for_all, passed_on
from shadowprice.experiments.written import (
    as_json,
    everybody_lines,
    influence_json,
    influence_lines,
    limit_lines,
    outcome_lines,
    page,
)
from shadowprice.files import write_whole
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.learning.bundle import LONG_TERM, read_meta
from shadowprice.limits.attributes import INFLUENCE, write_influence
from shadowprice.pacing.decision_log.served import final, read_log

ASKED = "account that asked"
"""Denominator of the lift where there is no list of accounts."""


@dataclass(frozen=True, kw_only=True)
class LiftJob(Job):
    """Write the lift of each arm, its intervals by day, and the sample ratio."""

    log: Path = reads("folder of the decision log")
    campaign: Path = reads("file of the campaign with its experiment, or the workspace that has it")
    result: Path = writes("file that gets the result as JSON")
    page: Path = writes("file that gets the result as Markdown")
    figures: Path | None = writes("file of each arm's gain, its interval and its cost", optional=True)
    accounts: Path | None = reads(
        "parquet file with account_id of all accounts that the campaign can reach, as known before it; without it "
        "those of the model in the workspace, or of the features",
        optional=True,
    )
    features: Path | None = reads(
        "parquet file with account_id, numbers of the time before the campaign, and the segment", optional=True
    )
    graph: Path | None = reads(
        "folder of a graph snapshot, such as TRAINING/snapshot-000, for the effect if everybody is in an arm",
        optional=True,
    )
    influence: Path | None = writes(
        "parquet file that a campaign can name as influence of a side: the value for its partners of a minor unit that "
        "an account is given, where the interval of the effect leaves 0 out; needs the graph",
        optional=True,
    )
    outcomes: Path | None = reads(
        "parquet file with request_id and second outcomes x_…, such as complaints, which get a lift each; a request "
        "that it lacks has 0",
        optional=True,
    )
    segment: str = option("", "column of the features whose values get a lift each; empty: none")
    baseline: str = option("", "arm that the others are compared with; empty: the first holdout")
    side: str = option("", "side that is analyzed; empty: all together")
    mature_hours: int = maturity()


def run(job: LiftJob) -> Analysis:
    """Write the result.

    Raises:
        InvalidInput: the campaign has no experiment, the features lack an account's row or a column, or none of the
            accounts that asked is in the list.
        InvalidTable: the arms of the log are not those of the experiment, or its holdout is not the campaign's.
        NotCertified: the accounts are not divided as the shares state (sample-ratio mismatch); the result is written
            all the same.
    """
    campaign, log = read_campaign(job.campaign), read_log(job.log, columns=READ)
    if campaign.experiment is None:
        raise InvalidInput("has no experiment; name its arms", field="campaign.experiment")
    check_holdout(log, campaign)
    asked = served_requests(log, campaign, read_worths(campaign, job.campaign))
    asked["value"] *= campaign.told_in
    if job.side:
        campaign.terms(job.side)  # type: ignore[arg-type]
        asked = asked[asked["side"] == job.side].reset_index(drop=True)
    groups = read_groups(campaign, job.campaign)
    every, unit = len(asked), campaign.experiment.unit
    asked, columns = with_units(asked, campaign.experiment, groups)
    if every and asked.empty:
        raise InvalidInput(f"no request names a {unit}, which the experiment assigns: none has an arm", field="log")
    alone = every - len(asked)
    hours = hours_of(job.mature_hours, campaign)
    known = final(log, asked["decided_at"], hours)
    if not known.any():
        raise InvalidInput(
            f"no decision is {hours:g} hours old; wait, or give 0 where the outcomes are all there",
            field="mature_hours",
        )
    features, covariates = features_of(job.features, job.segment, set(asked.columns))
    if unit == "hour":
        accounts: pd.DataFrame | None = _hours(asked[known])
    else:
        sides = sorted(set(asked["side"]))
        accounts = accounts_of(job.accounts, job.campaign, sides, partners=unit == "partner", features=features)
    if accounts is not None:
        accounts = in_units(with_features(accounts, features, job.segment), unit, groups)
        if campaign.holdout is not None and unit in ("account", "cluster"):
            accounts = accounts[~campaign.holdout.holds(accounts["account_id"].tolist())].reset_index(drop=True)
    asked = with_features(asked, features, job.segment)
    columns = replace(columns, covariates=covariates)
    how: dict[str, Any] = {"known": known, "accounts": accounts, "baseline": job.baseline}
    analysis = analyze(asked, campaign.experiment, columns=columns, segment=job.segment, **how)
    second = {} if job.outcomes is None else _outcomes(job.outcomes, asked["request_id"])
    outcomes = {
        name: analyze(asked.assign(value=own), campaign.experiment, columns=columns, **how).lifts
        for name, own in second.items()
    }
    everybody: list[ForAll] = []
    partners: list[PassedOn] = []
    if job.influence is not None and job.graph is None:
        raise InvalidInput("needs the graph", field="influence")
    if job.graph is not None:
        graph, rows = GraphSnapshot.load(job.graph), in_periods(asked, campaign.experiment, columns)[0][known]
        held = None if campaign.holdout is None else campaign.holdout.holds(graph.account_id.tolist())
        whom: dict[str, Any] = {"baseline": analysis.baseline, "groups": groups, "held": held}
        everybody = effects_for_all(rows, analysis.periods, graph, **whom)
        if job.influence is not None:
            treated = [arm for arm in campaign.experiment.arms if arm.name != analysis.baseline]
            arm = min(treated, key=lambda each: each.kind != "policy").name
            given = _given(rows, log.decisions, campaign)
            own = rows.assign(value=rows["value"] / campaign.told_in, incentive=given)
            partners = passed_on(own, analysis.periods, graph, arm=arm, **whom)
            _write_influence(job.influence, graph, partners)
    index = _index(campaign, job.campaign)
    if index is not None and index.relative:
        level = _levels(asked, log.decisions)
        of_level = (
            np.where((level == one) & (asked["side"] == "customer"), asked["value"], 0.0)
            for one in range(len(index.relative))
        )
        parts = [analyze(asked.assign(value=own), campaign.experiment, columns=columns, **how) for own in of_level]
        analysis = _with_error(analysis, parts, np.array(index.relative))
    per = ASKED if accounts is None else {"cluster": "account"}.get(unit, unit)
    young = len(asked) - int(known.sum())
    content = {"campaign": campaign.name, "mature_hours": hours, "requests": len(asked), "mature": int(known.sum())}
    content |= {"without_unit": alone} if alone else {}
    content |= {} if index is None else {LONG_TERM: index.to_dict()}
    content |= as_json(analysis, per, everybody, outcomes) | influence_json(partners)
    write_whole(job.result, json.dumps(content, indent=1))
    currency = Currency.of(campaign.currency)
    of_all = chain(everybody_lines(everybody, currency), influence_lines(partners, campaign))
    named = log.decisions.set_index("request_id")["groups"].loc[asked["request_id"]].to_numpy()
    limits = limit_lines(campaign, asked.assign(groups=named), second, np.asarray(known))
    left_out = {"their outcome can still come": young, f"they name no {unit}, and so no arm decides them": alone}
    lines = chain(page(campaign, analysis, per, left_out, index), outcome_lines(outcomes, per), limits, of_all)
    write_whole(job.page, "\n".join(lines) + "\n")
    figures: dict[str, float] = {"sample_ratio_holds": float(not analysis.mismatch)}
    for lift in analysis.lifts:
        effects = {"gain": lift.value, "relative_gain": lift.relative, "cost": lift.cost}
        figures |= {f"{lift.arm}_{name}": effect.value for name, effect in effects.items()}
        figures |= {f"{lift.arm}_gain_low": lift.value.low, f"{lift.arm}_gain_high": lift.value.high}
    write_figures(job.figures, figures)
    if analysis.mismatch:
        _refuse(analysis)
    return analysis


def _index(campaign: Campaign, path: Path) -> LongTermFigures | None:
    """Return the figures of the index that values are predicted by; None where they are not predicted."""
    if campaign.long_term is None:
        return None
    model = ((path if path.is_dir() else path.parent) / MODEL).resolve()
    found = read_meta(model).get(LONG_TERM)
    if found is None:
        raise InvalidInput("of the registered model is missing: train it on the campaign's tables", field=LONG_TERM)
    return LongTermFigures.from_dict(found)


def _outcomes(path: Path, request_id: pd.Series) -> dict[str, NDArray[np.float64]]:
    """Name of each second outcome of a file → its value (n,) of each request; 0 of one that the file lacks."""
    rows = read_outcomes(path, request_id).fillna(0.0)
    return {str(name): rows[name].to_numpy(dtype=np.float64) for name in rows}


def _given(rows: pd.DataFrame, decisions: pd.DataFrame, campaign: Campaign) -> NDArray[np.float64]:
    """Incentive (n,) of each request, minor units; 0 of one that was given nothing."""
    level = _levels(rows, decisions)
    given = np.zeros(len(rows))
    for side, terms in campaign.sides.items():
        own = (rows["side"] == side).to_numpy() & (level >= 0)
        given[own] = np.asarray(terms.incentives)[level[own]]
    return given


def _levels(rows: pd.DataFrame, decisions: pd.DataFrame) -> NDArray[np.int64]:
    """Level (n,) of each request, −1 of one that was given nothing."""
    return decisions.set_index("request_id")["level"].loc[rows["request_id"]].to_numpy(dtype=np.int64)


def _with_error(found: Analysis, parts: Sequence[Analysis], relative: NDArray[np.float64]) -> Analysis:
    """Return an analysis whose lifts have the error of the index too, by the analyses of each level alone."""

    def widened(name: str) -> tuple[Lift, ...]:
        of_levels = zip(*(getattr(part, name) for part in parts), strict=True)
        return tuple(own.widened(levels, relative) for own, levels in zip(getattr(found, name), of_levels, strict=True))

    return replace(found, lifts=widened("lifts"), per_request=widened("per_request"))


def _write_influence(path: Path, graph: GraphSnapshot, found: Sequence[PassedOn]) -> None:
    columns: dict[str, list[Any]] = {"account_id": [], "side": [], INFLUENCE: []}
    for of in found:
        there = np.flatnonzero(of.influence)
        columns["account_id"] += graph.account_id[there].tolist()
        columns["side"] += [of.side] * there.size
        columns[INFLUENCE] += of.influence[there].tolist()
    write_influence(path, columns)


def _refuse(found: Analysis) -> None:
    ratio, who = found.assigned_ratio, "assigned"
    more = "; the list is not that of the campaign, or its salt was used before"
    if ratio is None:
        ratio, who = found.asked_ratio, "that asked"
        more = (
            "; rows are lost, or an incentive brings accounts: give --accounts, a list of all accounts, to judge that"
        )
    raise NotCertified(
        f"sample-ratio mismatch: the units {who}, {dict(ratio.observed)}, do not have the shares of the experiment "
        f"(p-value below {ALARM}){more}"
    )


def _hours(rows: pd.DataFrame) -> pd.DataFrame:
    """Each hour from the first request to the last, with its day."""
    first = rows["decided_at"].min().floor("D")
    hours = pd.date_range(rows["decided_at"].min().floor("h"), rows["decided_at"].max().floor("h"), freq="h")
    return pd.DataFrame(
        {"account_id": "", "hour": hours.strftime(HOUR), "day": (hours - first) // pd.Timedelta(days=1)}
    )
