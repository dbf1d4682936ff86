"""Evidence of each side of a campaign, read from its tables."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import special

from shadowprice.arms import WHOLE
from shadowprice.campaign import Campaign, Side, Terms
from shadowprice.currency import Currency
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.level_means import LevelMeans
from shadowprice.evaluation.statistics.metric import Array
from shadowprice.evaluation.uplift.balance import Balance, balance
from shadowprice.evaluation.uplift.comparisons import side_evidence
from shadowprice.evaluation.uplift.evidence import SideEvidence, Verdict
from shadowprice.evaluation.uplift.shares import shares
from shadowprice.evaluation.uplift.slope import Slope
from shadowprice.evidence.rows import Rows, at_all_levels, drawn_by, read_features, read_rows, time_of_draw
from shadowprice.evidence.sentences import TIME, claim, figures
from shadowprice.learning.identification import slope_within_cells
from shadowprice.tables import Tables, labeled

WORTH_FINDING = 0.25
"""Rise of the response from the lowest level to the highest, as a share of the lowest's, that a trial finds."""
POWER = 0.8
SPARE = 1.1
"""Accounts of the trial, in multiples of those that draw their level at random."""
MOST_RESPONSE = 0.99
"""Largest response that is believed of a probability."""


def worth_finding(found: SideEvidence) -> float:
    """Rise of the response that a trial should find: a quarter, or half of what the log leaves open if that is less.

    The log leaves open what the interval of the slope, or of a level's difference to the lowest one, reaches.
    """
    base = found.lowest.response.value
    rise = WORTH_FINDING * base if base > 0 else math.inf
    open_ = [level.difference.high for level in found.levels if level.difference is not None]
    if found.slope is not None:
        open_.append(found.slope.high * (found.levels[-1].incentive - found.levels[0].incentive))
    largest = max(open_, default=math.inf)
    rise = min(rise, largest / 2) if largest > 0 else rise
    return rise if math.isfinite(rise) and rise > 0 else 0.0


def plan_command(found: SideEvidence, campaign: Campaign, response: Array, workspace: Path | None) -> str:
    """Return the ``shadowprice plan`` command of a trial that finds :func:`worth_finding` with a power of 80 %.

    Each level gets n = (z_0.975 + z_power)²·(V_lowest + V_highest) / rise² accounts, so that the difference of the
    highest level to the lowest is found. The mean response of a level then has a 95 % interval of ±z_0.975·√(V / n).
    Empty where no response was ever seen.
    """
    rise = worth_finding(found)
    terms = campaign.terms(found.side)
    if not rise:
        return ""
    base = max(found.lowest.response.value, 0.0)
    # Offers without an order are believed to bring alike, and more than the control.
    place = np.asarray(terms.levels, dtype=np.float64) if terms.ordered else np.minimum(terms.levels, 1.0)
    believed = base + rise * (place - place[0]) / (place[-1] - place[0])
    probability = bool(np.isin(response, (0.0, 1.0)).all())
    if probability:
        believed = np.minimum(believed, MOST_RESPONSE)
    variance = believed * (1 - believed) if probability else np.full(believed.size, max(float(response.var()), 1e-12))
    z, power = float(special.ndtri(0.975)), float(special.ndtri(POWER))
    per_level = math.ceil((z + power) ** 2 * float(variance[0] + variance[-1]) / rise**2)
    width = z * math.sqrt(float(variance.max()) / per_level)
    money = float(replace(terms, percent=()).cost(believed[:, None])[:, 0].mean()) / Currency.of(campaign.currency).unit
    treated = 1.0 if campaign.holdout is None else WHOLE / (WHOLE - campaign.holdout.share)
    where = "WORKSPACE" if workspace is None else shlex.quote(str(workspace))
    command = [
        f"shadowprice plan {where}",
        f"--accounts {math.ceil((SPARE * per_level * believed.size + 2) * treated)}",
        f"--response {','.join(f'{belief:.4g}' for belief in believed)}",
        f"--money {np.format_float_positional(money, precision=4, fractional=False, trim='-')}",
        f"--curve {width:.3g}",
    ]
    if found.side != "customer":
        command.append(f"--side {found.side}")
    if not probability:
        command.append(f"--variance {variance[0]:.4g}")
    return " ".join(command)


def evidence_of(
    tables: Tables,
    campaign: Campaign,
    currency: Currency,
    *,
    confounders: Mapping[str, Sequence[str]] | None = None,
    rows: Mapping[Side, Path] | None = None,
    workspace: Path | None = None,
) -> tuple[SideEvidence, ...]:
    """Return what the log shows of each side with a control and other levels, from requests with a final outcome.

    Args:
        tables: of the data set.
        campaign: with the levels of the sides.
        currency: of the sentences.
        confounders: side → columns of the request whose cells hold the reasons for the level fixed; the verdict is then
            that of the slope within cells over weeks.
        rows: side → labeled rows of a training set, whose balancing weights count where they have any.
        workspace: that has the campaign's file, for the command of a trial.

    Rows are weighted by inverse propensity where a level's propensities differ, and clustered by account and partner.
    Accounts of one cluster count as one. O(n log n) for n requests.
    """
    evidence = []
    for side, terms in campaign.sides.items():
        if terms.segments or not terms.control or len(terms.levels) < 2:
            continue
        reasons = tuple((confounders or {}).get(side, ()))
        read = read_rows(tables, side, (rows or {}).get(side))
        if read.level.size == 0:
            continue
        whole, read = read, _drawn_together(read, len(terms.levels))
        one = _side(tables, side, terms, read, reasons, currency)
        if reasons:
            frame = labeled(tables, side)
            at = frame["decided_at"].dt.as_unit("us").astype(np.int64).to_numpy() / 1e6
            slope = slope_within_cells(frame.assign(snapshot_at=at), terms.levels, reasons)
            one = _within_cells(one, slope)
        if one.verdict == "not identified":
            one = replace(one, plan=plan_command(one, campaign, read.response, workspace))
        group = drawn_by(tables, side) if one.drawn and not read.clustered else ""
        one = replace(one, unit="clusters" if read.clustered else "accounts", drawn_by=group)
        claimed = claim(one, currency, reasons, fitted=read.weight is not None)
        if read is not whole:
            first, last = (datetime.fromtimestamp(at, UTC) for at in (read.at.min(), read.at.max()))
            claimed += (
                f" Every level was drawn from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC alone: this is from "
                f"{read.at.size:,} of {whole.at.size:,} requests. Keep only those for a model too (`where` of a "
                "mapping)."
            )
        evidence.append(replace(one, claim=claimed, figures="" if reasons else figures(one, currency)))
    return tuple(evidence)


def _drawn_together(read: Rows, levels: int) -> Rows:
    """Return the requests from the time at which all levels were drawn, where a level was drawn at a part of the times.

    Its mean would else be compared with means of other times. All rows are returned where this does not mend it.
    """
    if read.weight is not None or not shares(read.level, read.propensity, levels, read.account).partial:
        return read
    together = at_all_levels(read)
    mended = together.at.size > 1 and not shares(together.level, together.propensity, levels, together.account).partial
    return together if mended else read


def _side(
    tables: Tables,
    side: Side,
    terms: Terms,
    read: Rows,
    reasons: Sequence[str],
    currency: Currency,
) -> SideEvidence:
    levels = len(terms.levels)
    planned = shares(read.level, read.propensity, levels, read.account)
    weight = read.weight
    if weight is None and planned.drawn and not planned.uniform:
        weight = 1.0 / read.propensity
    if reasons:
        planned = replace(planned, drawn=False, p_value=None)
    elif read.weight is not None:
        planned = replace(planned, drawn=True, p_value=None)
    compared = _balance(tables, side, read, weight, levels) if planned.drawn else None
    if weight is not None and planned.partial and compared is not None and compared.unlike:
        # A level of some requests alone cannot be compared with the mean of all; the other levels can.
        kept = ~np.isin(read.level, planned.partial)
        if np.unique(read.level[kept]).size > 1:
            read, weight = read.only(kept), weight[kept]
            compared = _balance(tables, side, read, weight, levels)
    means = LevelMeans(read.level, levels, weight=weight, account=read.account, partner=read.partner)
    evidence = side_evidence(
        side,
        np.asarray(terms.levels),
        means,
        read.response,
        read.cost,
        planned,
        ordered=terms.ordered,
        names=terms.names(currency) if terms.amounts else (),
    )
    evidence = replace(evidence, balance=compared)
    return replace(evidence, verdict="not identified") if evidence.unlike else evidence


def _balance(tables: Tables, side: Side, read: Rows, weight: Array | None, levels: int) -> Balance | None:
    """Compare the features of the accounts, and the times of the draws, between levels."""
    features = read_features(tables, side)
    own = len(features.columns)
    features = features.assign(**{TIME: time_of_draw(read).reindex(features.index)})
    place = pd.Index(read.row).get_indexer(features.index)
    features, place = features[place >= 0], place[place >= 0]
    means = LevelMeans(
        read.level[place],
        levels,
        weight=None if weight is None else weight[place],
        account=read.account[place],
        partner=None if read.partner is None else read.partner[place],
    )
    found = balance(means, features, int(np.unique(read.account[place]).size))
    # Times alone are of interest where they differ.
    return replace(found, features=own) if found is not None and (own or found.unlike) else None


def _within_cells(found: SideEvidence, slope: Slope | None) -> SideEvidence:
    """The verdict of a log whose levels had reasons: the slope where they are held fixed."""
    if slope is None:
        return found
    verdict: Verdict = "identified" if slope.identified else "wrong way" if slope.high < 0 else "not identified"
    estimate = Estimate(slope.value, slope.low, slope.high, slope.level)
    return replace(found, slope=estimate, trend_p=slope.p_value, verdict=verdict, clusters=slope.clusters)
