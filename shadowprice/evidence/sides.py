"""Evidence of each side of a campaign, read from its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.currency import Currency
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.level_means import LevelMeans
from shadowprice.evaluation.statistics.metric import Array
from shadowprice.evaluation.uplift.balance import Balance, balance
from shadowprice.evaluation.uplift.comparisons import side_evidence
from shadowprice.evaluation.uplift.evidence import SideEvidence, Verdict
from shadowprice.evaluation.uplift.shares import shares
from shadowprice.evaluation.uplift.slope import Slope
from shadowprice.evidence.plan import plan_command
from shadowprice.evidence.rows import Rows, read_features, read_rows
from shadowprice.evidence.sentences import sentence
from shadowprice.learning.identification import slope_within_cells
from shadowprice.tables import Tables, labelled


def evidence_of(
    tables: Tables,
    campaign: Campaign,
    currency: Currency,
    *,
    confounders: Mapping[str, Sequence[str]] | None = None,
    rows: Mapping[Side, Path] | None = None,
    workspace: Path | None = None,
) -> tuple[SideEvidence, ...]:
    """Return what the log shows of each side with several levels, from all requests with a final outcome.

    Args:
        tables: of the data set.
        campaign: with the levels of the sides.
        currency: of the sentences.
        confounders: side → columns of the request whose cells hold the reasons for the level fixed; the verdict is then
            that of the slope within cells over weeks.
        rows: side → labelled rows of a training set, whose balancing weights count where they have any.
        workspace: that has the campaign's file, for the command of a trial.

    Rows are weighted by inverse propensity where a level's propensities differ, and clustered by account and partner.
    O(n log n) for n requests.
    """
    found = []
    for side, terms in campaign.sides.items():
        if terms.segments or len(terms.levels) < 2:
            continue
        reasons = tuple((confounders or {}).get(side, ()))
        read = read_rows(tables, side, (rows or {}).get(side))
        if read.level.size == 0:
            continue
        one = _side(tables, side, np.asarray(terms.incentives), read, reasons)
        if reasons:
            frame = labelled(tables, side)
            at = frame["decided_at"].dt.as_unit("us").astype(np.int64).to_numpy() / 1e6
            slope = slope_within_cells(frame.assign(snapshot_at=at), terms.levels, reasons)
            one = _within_cells(one, slope)
        if one.verdict == "not identified":
            one = replace(one, plan=plan_command(one, campaign, read.response, workspace))
        found.append(replace(one, sentence=sentence(one, currency, reasons, fitted=read.weight is not None)))
    return tuple(found)


def _side(
    tables: Tables,
    side: Side,
    incentives: NDArray[np.int64],
    read: Rows,
    reasons: Sequence[str],
) -> SideEvidence:
    levels = incentives.size
    planned = shares(read.level, read.propensity, levels, read.account)
    weight = read.weight
    if weight is None and planned.drawn and not planned.uniform:
        weight = 1.0 / read.propensity
    if reasons:
        planned = replace(planned, drawn=False, p_value=None)
    elif read.weight is not None:
        planned = replace(planned, drawn=True, p_value=None)
    means = LevelMeans(read.level, levels, weight=weight, account=read.account, partner=read.partner)
    compared = _balance(tables, side, read, weight, levels) if planned.drawn else None
    return side_evidence(
        side,
        incentives,
        means,
        read.response,
        read.cost,
        planned,
        ordered=True,
        balance=compared,
        account=read.account,
        partner=read.partner,
    )


def _balance(tables: Tables, side: Side, read: Rows, weight: Array | None, levels: int) -> Balance | None:
    features = read_features(tables, side)
    if features.empty:
        return None
    place = pd.Index(read.row).get_indexer(features.index)
    features, place = features[place >= 0], place[place >= 0]
    means = LevelMeans(
        read.level[place],
        levels,
        weight=None if weight is None else weight[place],
        account=read.account[place],
        partner=None if read.partner is None else read.partner[place],
    )
    return balance(means, features, int(np.unique(read.account[place]).size))


def _within_cells(found: SideEvidence, slope: Slope | None) -> SideEvidence:
    """The verdict of a log whose levels had reasons: the slope where they are held fixed."""
    if slope is None:
        return found
    verdict: Verdict = "identified" if slope.identified else "wrong way" if slope.high < 0 else "not identified"
    estimate = Estimate(slope.value, slope.low, slope.high, slope.level)
    return replace(found, slope=estimate, trend_p=slope.p_value, verdict=verdict, clusters=slope.clusters)
