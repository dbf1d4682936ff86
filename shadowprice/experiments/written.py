"""Result of an experiment as JSON and as a page in Markdown."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.arms import WHOLE
from shadowprice.campaign import Campaign
from shadowprice.currency import Currency
from shadowprice.evaluation.policy.confidence_sequence import ConfidenceSequence
from shadowprice.evaluation.uplift.long_term import LongTermFigures
from shadowprice.experiments.analysis import Analysis
from shadowprice.experiments.effects import Effect
from shadowprice.experiments.lifts import LEAST_UNITS, Lift
from shadowprice.experiments.sample_ratio import SampleRatio
from shadowprice.experiments.spillover import ForAll, PassedOn
from shadowprice.limits import Asked

EFFECTS = ("value", "relative", "cost", "per_money", "total")
COUNTS = ("arm", "units", "requests", "baseline_units", "baseline_requests")
Outcomes = Mapping[str, Sequence[Lift]]
"""Name of a second outcome → its lift by arm."""
ASKED = (
    "The arms differ in how many of their units asked. Either the incentive brings units, and the lift counts that; or "
    "rows of an arm are lost, and no figure here holds. Find out which before you read the lift."
)
"""Warning where the units that asked do not have the shares."""


def as_json(
    found: Analysis, per: str, everybody: Sequence[ForAll], outcomes: Outcomes = MappingProxyType({})
) -> dict[str, Any]:
    """Return an analysis as plain JSON types; what is not a finite number is null.

    Args:
        found: result.
        per: what the lifts are of, such as ``account``.
        everybody: effects if everybody were in an arm.
        outcomes: lifts of second outcomes.
    """
    content = {
        "per": per,
        "baseline": found.baseline,
        "level": found.level,
        "arms": [asdict(totals) for totals in found.arms],
        "unlisted": found.unlisted,
        "periods": [
            {"shares": period.experiment.shares, "first": str(period.first), "last": str(period.last)}
            | {"requests": period.requests}
            for period in found.periods
        ],
        "sample_ratio": {
            "mismatch": found.mismatch,
            "assigned": None if found.assigned_ratio is None else asdict(found.assigned_ratio),
            "asked": asdict(found.asked_ratio)
            | {"always_valid_p_value": found.ratio_by_day[-1], "differs": found.asked_differs},
        },
        "lifts": [lift_json(lift) for lift in found.lifts],
        "per_request": [lift_json(measured) for measured in found.per_request],
        "daily": [
            {
                "arm": series.arm,
                "days": list(series.days),
                "value": _sequence(series.value),
                "cost": _sequence(series.cost),
            }
            for series in found.daily
        ],
        "segments": {
            arm: {
                "different_p_value": segment.different,
                "segments": [
                    {"segment": one.segment, "adjusted_p_value": one.adjusted} | lift_json(one.lift)
                    for one in segment.segments
                ],
            }
            for arm, segment in found.segments.items()
        },
        "everybody": [asdict(effect) for effect in everybody],
    }
    if outcomes:
        content["outcomes"] = {name: [lift_json(lift) for lift in lifts] for name, lifts in outcomes.items()}
    return {name: _plain(value) for name, value in content.items()}


def page(
    campaign: Campaign,
    found: Analysis,
    per: str,
    left_out: Mapping[str, int],
    index: LongTermFigures | None = None,
) -> Iterator[str]:
    """Return the lines of a page about an analysis.

    Args:
        campaign: whose experiment it is; money is written in its currency.
        found: result.
        per: what the lifts are of.
        left_out: reason → number of requests that are left out for it.
        index: that the values of customers are predicted by, if they are.
    """
    currency = Currency.of(campaign.currency)
    yield f"# Lift of campaign {campaign.name}"
    yield ""
    if found.mismatch:
        yield "**Do not read the lift: the units do not have the shares of the experiment.**"
        yield ""
    elif found.asked_differs:
        yield f"**{ASKED}**"
        yield ""
    yield f"Per {per}, against the arm `{found.baseline}`, with {found.level:.0%} intervals."
    if campaign.in_money:
        yield f"Values are in {currency.major} of {campaign.earned}."
    if index is not None:
        yield from index.sentences(campaign.terms("customer").names(currency), currency)
        some = (
            "Intervals relative to the baseline, by day and by segment"
            if index.relative
            else "The intervals of the lift"
        )
        yield f"{some} leave out the error of the index{'; the others include it' if index.relative else ''}."
    if found.unlisted is None:
        yield "There is no list of the accounts: their numbers follow from the shares, which widens the intervals."
    else:
        yield "Those that never asked count as no response and no cost."
        if found.unlisted:
            yield f"{found.unlisted:,} that asked are not in the list; their value counts in the sums of their arms."
    for reason, count in left_out.items():
        if count:
            yield f"{count:,} requests are left out, because {reason}."
    yield ""
    yield from _table("arm", "assigned", "asked", "requests", "value", "paid")
    for arm in found.arms:
        assigned = "" if arm.assigned is None else f"{arm.assigned:,}"
        paid = currency.write(arm.cost)
        yield f"| {arm.arm} | {assigned} | {arm.units:,} | {arm.requests:,} | {arm.value:,.6g} | {paid} |"
    for lift, request in zip(found.lifts, found.per_request, strict=True):
        yield from _arm(lift, request, per, currency)
    yield from _by_day(found, per)
    for name, segments in found.segments.items():
        yield from _section(f"{name} by segment")
        sound = math.isfinite(segments.different)
        different = f"{segments.different:.3g}" if sound else "not known: fewer than two have an error"
        yield f"p-value of no difference between segments: {different}."
        yield ""
        yield from _table("segment", f"incremental value per {per}", "adjusted p-value")
        for one in segments.segments:
            adjusted = f"{one.adjusted:.3g}" if math.isfinite(one.adjusted) else "not known: no error"
            yield f"| {one.segment} | {one.lift.value} | {adjusted} |"
    if len(found.periods) > 1:
        yield from _periods(found)
    yield from _ratios(found)


def outcome_lines(outcomes: Outcomes, per: str) -> Iterator[str]:
    """Return the lines about second outcomes."""
    if not outcomes:
        return
    yield from _section("Second outcomes")
    yield from _table("outcome", "arm", f"incremental per {per}", "relative")
    for name, lifts in outcomes.items():
        for lift in lifts:
            relative = lift.relative.told(f"`{lift.baseline}` has none")
            yield f"| {name} | {lift.arm} | {lift.value} | {relative} |"


def limit_lines(
    campaign: Campaign, rows: pd.DataFrame, outcomes: Mapping[str, NDArray[np.float64]], known: NDArray[np.bool_]
) -> Iterator[str]:
    """Return the lines about what came of second outcomes that the campaign limits; of a period the largest sum.

    Args:
        campaign: with the limits.
        rows: requests with ``account_id``, ``side``, ``partner_id``, ``arm``, ``decided_at`` and ``groups``, the limits
            with a condition that counted each when it was decided.
        outcomes: name → (n,), second outcome of each.
        known: (n,), the requests whose outcomes are there.
    """
    limits = [each for each in campaign.limits.budgets if each.outcome]
    measured = [each for each in limits if each.outcome in outcomes]
    if measured:
        yield ""
        yield from _table("limit", "of", "requests", "came", "allowed")
        names = ("account_id", "side", "partner_id", "arm")
        columns = zip(*(rows[name] for name in names), rows["groups"].str.split(","), strict=True)
        asked = [Asked(*values) for values in columns]
    for limit in measured:
        mine = known & np.fromiter(map(limit.covers, asked), dtype=np.bool_, count=len(asked))
        period = [campaign.limits.calendar.name(limit.period, at) for at in rows.loc[mine, "decided_at"]]
        found = pd.Series(outcomes[limit.outcome][mine]).groupby(period)
        each = "request" if limit.form == "per_account" else limit.period
        came = f"{(found.mean() if limit.form == 'per_account' else found.sum()).max():.4g}" if period else "not known"
        yield f"| {limit.name} | {limit.outcome} a {each} | {len(period):,} | {came} | {limit.limit:g} |"
    for limit in limits:
        if limit not in measured:
            yield from ("", f"Limit {limit.name} is left out: the second outcomes have no column `{limit.outcome}`.")
    if any(limit.where for limit in measured):
        yield from ("", "A condition of a limit counts the requests for which it held when they were decided.")


def everybody_lines(found: Sequence[ForAll], currency: Currency) -> Iterator[str]:
    """Return the lines about the effect if everybody were in an arm."""
    if not found:
        return
    yield from _section("If everybody were in an arm")
    yield "Per account of the graph, against nobody in it: the own arm, and the share of partners in the arm."
    yield "It holds where a share of partners moves the response by a line. Use it to check a trial."
    yield ""
    yield from _table("arm", "value", "cost", "accounts")
    for effect in found:
        yield f"| {effect.arm} | {effect.value} | {_money(effect.cost, currency)} | {effect.accounts:,} |"


def influence_json(found: Sequence[PassedOn]) -> dict[str, Any]:
    """Return the effects of partners' incentives as plain JSON types, in minor units; {} where there is none."""
    sides = {of.side: {"effect": _plain(asdict(of.effect)), "counts": of.counts} for of in found}
    return {"influence": sides} if found else {}


def influence_lines(found: Sequence[PassedOn], campaign: Campaign) -> Iterator[str]:
    """Return the lines about the effects of partners' incentives."""
    if not found:
        return
    # Values in money are told in major units, and so is the incentive.
    times = 1.0 if campaign.in_money else Currency.of(campaign.currency).unit
    yield from _section("If partners are given more")
    symbol = Currency.of(campaign.currency).symbol
    yield f"Value of an account for {symbol}1 more that each of its partners is given."
    yield ""
    yield from _table("partners", "value", "in the price")
    for of in found:
        counted = "yes, once the campaign names the file" if of.counts else "no: the interval includes 0"
        yield f"| {of.side} | {of.effect.times(times)} | {counted} |"


def _section(title: str) -> tuple[str, ...]:
    return "", f"## {title}", ""


def _table(*columns: str) -> tuple[str, ...]:
    """Return the lines above the rows of a table."""
    return f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"


def _arm(lift: Lift, request: Lift, per: str, currency: Currency) -> Iterator[str]:
    total = lift.total
    yield from _section(lift.arm)
    yield f"- Value that would not have come anyway: {total.told(form=',.5g')} in all;"
    base = f"of that of `{lift.baseline}`" if math.isfinite(lift.relative.value) else f"`{lift.baseline}` has no value"
    yield f"  {lift.value} per {per}, {_percent(lift.relative)}{base}."
    yield f"- Additional money: {_money(lift.cost, currency)} per {per}."
    yield f"- Incremental value per {currency.one}: {rate(lift, currency.unit)}."
    yield f"- Per request: {request.value}. This compares the units that asked, and an incentive may change which do."


def rate(found: Lift, times: float) -> str:
    """Return the incremental value per money as text, or why there is none.

    Args:
        found: lift.
        times: minor units of the money, in the unit of the value.
    """
    effect = found.per_money.times(times)
    if math.isinf(effect.low) and math.isfinite(effect.error):
        return f"{effect.value:.4g}, without limits: the additional money may be 0"
    return effect.told("no additional money was paid")


def _percent(effect: Effect) -> str:
    if not math.isfinite(effect.value):
        return ""
    if not math.isfinite(effect.low):
        return f"{effect.value:+.2%} [no limits] "
    return f"{effect.value:+.2%} [{effect.low:+.2%}, {effect.high:+.2%}] "


def _money(effect: Effect, currency: Currency) -> str:
    if not math.isfinite(effect.low):
        return f"{currency.write_mean(effect.value)} [no interval: an arm has too few units]"
    value, low, high = map(currency.write_mean, (effect.value, effect.low, effect.high))
    return f"{value} [{low}, {high}]"


def _by_day(found: Analysis, per: str) -> Iterator[str]:
    for daily in found.daily:
        yield from _section(f"{daily.arm} by day")
        yield f"Per {per} and day, mean of the days so far. The intervals hold on all days together: the trial may be"
        yield "stopped on any of them."
        yield ""
        yield from _table("day", "incremental value", "low", "high")
        for day, *row in zip(daily.days, daily.value.value, daily.value.low, daily.value.high, strict=True):
            yield f"| {day} | " + " | ".join(f"{figure:.4g}" if math.isfinite(figure) else "" for figure in row) + " |"
        if not np.isfinite(daily.value.low).all():
            yield ""
            yield f"A day without figures has an arm of fewer than {LEAST_UNITS} units so far."


def _periods(found: Analysis) -> Iterator[str]:
    yield from _section("Periods of constant shares")
    yield "Shares were raised: arms are compared within each period, and the differences are added."
    yield ""
    yield from _table("from", "to", "requests", "shares")
    for period in found.periods:
        shares = ", ".join(f"{arm} {share / WHOLE:.1%}" for arm, share in period.experiment.shares.items() if share)
        yield f"| {_time(period.first)} | {_time(period.last)} | {period.requests:,} | {shares} |"


def _time(at: Any) -> str:
    return f"{at:%Y-%m-%d %H:%M}" if hasattr(at, "strftime") else f"day {at}"


def _ratios(found: Analysis) -> Iterator[str]:
    yield from _section("Sample ratio")
    if found.assigned_ratio is not None:
        yield f"Assigned, by the list: p-value {found.assigned_ratio.p_value:.3g}."
    valid = found.ratio_by_day[-1]
    yield f"Asked: p-value {found.asked_ratio.p_value:.3g}; valid on all days together: {valid:.3g}."
    for title, ratio in (("assigned", found.assigned_ratio), ("asked", found.asked_ratio)):
        if ratio is not None:
            yield from _counts(title, ratio)


def _counts(title: str, ratio: SampleRatio) -> Iterator[str]:
    yield ""
    yield from _table("arm", title, "expected")
    for name, expected in ratio.expected.items():
        yield f"| {name} | {ratio.observed[name]:,} | {expected:,.0f} |"


def lift_json(found: Lift) -> dict[str, Any]:
    """Return a lift as plain JSON types; what is not a finite number is null."""
    effects = {name: _plain(asdict(getattr(found, name))) for name in EFFECTS}
    return {name: getattr(found, name) for name in COUNTS} | effects


def _sequence(found: ConfidenceSequence) -> dict[str, list[float]]:
    return {name: getattr(found, name).tolist() for name in ("value", "low", "high")}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
