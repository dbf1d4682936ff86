"""A run's replays as the report and the summary show them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.currency import Currency
from shadowprice.evaluation.policy.attainable import Attainable
from shadowprice.pacing.budgets.kept import remark
from shadowprice.pacing.exploration import Draws, ExplorationReport
from shadowprice.pacing.replay.compare import score
from shadowprice.pacing.replay.gains import Gain, Over
from shadowprice.pacing.replay.run import Replay
from shadowprice.price import PriceRecord
from shadowprice.reports.data import Policy, ReportData, Role, Scenario, Solve
from shadowprice.reports.headline import value_unit, worth_sentence
from shadowprice.reports.wording import money, number, percent
from shadowprice.storage import to_json

SHOWN: dict[str, tuple[Role, str]] = {
    "service": ("resolved", "Solved again every hour (the running service)"),
    "hourly": ("resolved", "Solved again every hour"),
    "static": ("static", "One price for the whole day"),
    "hindsight": ("hindsight", "Best in hindsight"),
}
"""Policies of the report in order, by their name in a comparison."""


CERTIFICATE = ("status", "primal", "dual", "gap", "violation")
"""Fields of a price record that report and summary show as they are."""


def scenario(
    name: str,
    description: str,
    campaign: Campaign,
    runs: Mapping[str, Replay],
    attainable: Attainable,
    planned: NDArray[np.float64] | None = None,
    shares: bool = True,
) -> Scenario:
    """One day under several policies. ``runs`` needs ``hindsight``; values are true means within the budget.

    The value in hindsight is the optimum of ``attainable``, here as in the summary.
    """
    scores = score(campaign, runs)
    first = next(iter(runs.values()))
    policies = []
    for key, (role, label) in SHOWN.items():
        if key not in runs:
            continue
        slots = runs[key].slots
        policies.append(
            Policy(
                role=role,
                name=label,
                value=attainable.best if role == "hindsight" else float(scores["expected_value_within_budget"][key]),
                used=campaign.budget.limit * float(scores["spend"][key]) / max(float(scores["allowance"][key]), 1e-12),
                spend=slots["spend"].to_numpy(dtype=np.float64),
                price=slots["price"].to_numpy(dtype=np.float64),
                mean_cost=float(scores["expected_spend"][key]),
            )
        )
    return Scenario(
        name=name,
        description=description,
        budget=campaign.budget,
        arrivals=first.slots["requests"].to_numpy(dtype=np.float64),
        planned_spend=planned,
        policies=tuple(policies),
        simulated=True,
        attainable=attainable,
        shares=shares,
        weights={side: terms.weight for side, terms in campaign.sides.items()},
    )


def pacing_summary(
    campaign: Campaign,
    runs: Mapping[str, Replay],
    attainable: Attainable,
    gains: Mapping[Over, Gain] | None = None,
) -> dict[str, Any]:
    """The ``pacing`` part of summary.json, from a comparison that holds ``service``, ``static`` and ``hindsight``.

    Values are true means of the decisions, counted while the budget lasts. Incremental values are those above the
    lowest level for every request; a share that is not defined is None. ``measured`` holds what the outcomes as drawn
    added over the lowest level and over the best flat mixture at equal spend, with intervals.
    """
    slots = runs["service"].slots
    scores = {str(name): row for name, row in score(campaign, runs).to_dict("index").items()}
    service, static = scores["service"], scores["static"]
    value = float(service["expected_value_within_budget"])
    share, possible = attainable.share(value), attainable.incremental(attainable.best)
    return {
        "budget": campaign.budget.limit,
        "allowance": float(service["allowance"]),
        "spend": int(service["spend"]),
        "overspend": int(service["overspend"]),
        "hours": len(slots),
        "price_updates": int(slots["updates"].sum()),
        "value": value,
        "value_drawn": float(service["value"]),
        "value_hindsight": attainable.best,
        "value_flat": attainable.flat if np.isfinite(attainable.flat) else None,
        "value_lowest": attainable.lowest,
        "incremental_value": attainable.incremental(value),
        "incremental_value_hindsight": attainable.incremental(attainable.best),
        "incremental_value_flat": attainable.incremental(attainable.flat) if np.isfinite(attainable.flat) else None,
        "incremental_share": attainable.incremental(value) / possible if possible > 0 else None,
        "measured": {over: gain.summary() for over, gain in (gains or {}).items()},
        "attainable_share": share if np.isfinite(share) else None,
        "value_hindsight_model": float(scores["hindsight_model"]["expected_value_within_budget"]),
        "value_static": float(static["expected_value_within_budget"]),
        "overspend_static": int(static["overspend"]),
        "largest_hourly_forecast_error": float(np.nanmax(np.abs(slots["spend"] - slots["planned"]))),
    }


def closing_lines(summary: Mapping[str, Any]) -> list[str]:
    """Outcome of a run in words, from its summary: first the evidence, then the rehearsal or the plan of a delivery."""
    currency = Currency.of(summary["currency"])
    if "plan" in summary:
        value = currency.write(summary["solve"]["primal"])
        sizes = ", ".join(f"{segment['name']} {segment['accounts']:,}" for segment in summary["plan"])
        return [f"a plan of {summary['accounts']:,} accounts, predicted value {value}", f"accounts: {sizes}"]
    pacing = summary["pacing"]
    sentence = (
        f"rehearsal: paid {money(pacing['spend'], currency)} of {money(pacing['allowance'], currency)} in "
        f"{pacing['hours']} hours"
    )
    if pacing["incremental_share"] is not None and gained(pacing):
        sentence += f", {percent(pacing['incremental_share'])} of the extra value possible in hindsight"
    return [summary["worth"]["sentence"], f"{sentence} (simulated outcomes)"]


def gained(pacing: Mapping[str, Any]) -> bool:
    """Return whether the day of a ``pacing`` summary added responses by the lower bound of its interval."""
    measured = pacing["measured"].get("lowest")
    return measured is None or (measured["responses"]["low"] or 0.0) > 0


def worth_summary(data: ReportData) -> dict[str, Any]:
    """The ``worth`` part of summary.json; of a worth that is not claimed only the reason."""
    data = data.told()
    worth = data.worth
    if worth is None or "worth" in data.absent:
        return {"sentence": data.absent.get("worth", "what personalizing is worth was not estimated")}
    return {"sentence": worth_sentence(data), "unit": value_unit(data), **json.loads(to_json(worth))}


def exploration_summary(found: ExplorationReport) -> dict[str, Any]:
    """The ``exploration`` part of summary.json; effective rows are by side, one for each level."""
    draws = {name: {side: asdict(draw) for side, draw in getattr(found, name).items()} for name in ("draws", "uniform")}
    return (
        vars(found) | {"effective_rows": {side: rows.tolist() for side, rows in found.effective_rows.items()}} | draws
    )


def exploration_notes(found: ExplorationReport, campaign: Campaign) -> tuple[str, ...]:
    """Cost and benefit of exploration in sentences; empty where there was none."""
    if not found.share:
        return ()
    rows = min(float(mine.min()) for mine in found.effective_rows.values())
    currency, lost = Currency.of(campaign.currency), campaign.told_in * found.value_lost
    return (
        f"{found.share:.1%} of the requests explore: {found.requests} drew their level, which took "
        f"{money(found.spend, currency)} and costs {lost:.1f} of the value that is possible; the rarest "
        f"level is worth {rows:.0f} rows of a uniform trial.",
        *(_comparison(found, campaign, side, draw) for side, draw in found.draws.items()),
    )


def _comparison(found: ExplorationReport, campaign: Campaign, side: Side, draw: Draws) -> str:
    """Rows that the draws of a side bought for the levels between which the price decides."""
    names = campaign.terms(side).names(Currency.of(campaign.currency))
    low, high = (names[level] for level in draw.levels)
    text = (
        f"Of {side}s the price decides between {low} and {high} most often; {draw.requests:.0f} expected draws lose "
        f"{campaign.told_in * draw.lost:.1f} of value, and the comparison of the two is worth "
        f"{draw.effective_rows:.0f} rows of a trial"
    )
    plain = found.uniform.get(side)
    if plain is None:
        return f"{text}."
    return f"{text}, against {plain.effective_rows:.0f} with uniform draws that lose as much on all sides together."


def solves(
    campaign: Campaign, records: Sequence[PriceRecord], seconds: Mapping[int, float], slots: pd.DataFrame
) -> tuple[Solve, ...]:
    """Published prices with the time that solving took, by version, and the solves that were refused.

    Times are NaN where they were not measured. ``slots`` are those of the replay; their notes hold the refusals.
    """
    nothing = dict.fromkeys(("price", "primal", "dual", "gap", "violation", "seconds"), float("nan"))
    refused = [
        Solve(version=0, slot=int(slot), status="refused", rows=0, certificate=str(note), published=False, **nothing)
        for slot, note in zip(slots["slot"], slots["note"], strict=True)
        if note
    ]
    published = [
        Solve(
            price=record.prices[campaign.priced[0]],
            rows=record.sample_rows,
            seconds=seconds.get(record.version, np.nan),
            certificate=certificate(campaign, record),
            **{name: getattr(record, name) for name in ("version", "slot", *CERTIFICATE)},
        )
        for record in records
    ]
    return tuple(sorted([*published, *refused], key=lambda solve: solve.slot))


def certificate(campaign: Campaign, record: PriceRecord) -> str:
    """Verdict on a price record by the limits of its campaign, in words."""
    broken = [
        f"{name} {number(shown, 3)} above the limit of {number(limit, 3)}"
        for name, shown, limit in (
            ("gap", record.gap, campaign.gap_limit),
            ("violation", record.violation, campaign.violation_limit),
        )
        if not shown <= limit
    ]
    if broken:
        return f"not certified: {' and '.join(broken)}"
    held = ["the price was kept within a step of the last one"] if record.status == "bounded" else []
    return "; ".join(["certified", *held, *filter(None, [remark(record, campaign)])])


def solve_summary(record: PriceRecord) -> dict[str, Any]:
    """The ``solve`` part of summary.json."""
    return {name: getattr(record, name) for name in (*CERTIFICATE, "seconds")} | {"prices": dict(record.prices)}


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """Median and 99th percentile in milliseconds."""
    p50, p99 = np.percentile(pd.Series(seconds, dtype=float), [50, 99]) * 1e3
    return float(p50), float(p99)
