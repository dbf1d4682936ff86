"""The sentences of the report, worked out from its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shadowprice.evaluation.uplift.slope import NOT_IDENTIFIED
from shadowprice.reports.data import Currency, Policy, ReportData, Scenario, SideReport, Solve
from shadowprice.reports.wording import MISSING, incentives, listed, money, number, percent

FLAT = "the best flat mixture of levels"
LIMITS = {"total": "Budget used", "per_account": "Paid per request", "per_response": "Paid per response"}


@dataclass(frozen=True)
class Tile:
    """One number of the headline; ``share`` draws a meter that is full at 1."""

    name: str
    figure: str
    aside: str
    share: float | None = None


@dataclass(frozen=True)
class Headline:
    """Spend and value of a run, in a sentence and in tiles."""

    sentence: str
    tiles: tuple[Tile, ...]
    simulated: bool


def headline(data: ReportData) -> Headline | None:
    """The headline of a run's first scenario, or None when there is none."""
    if not data.scenarios:
        return None
    run = data.scenarios[0]
    ours = run.policies[0]
    static = run.policy("static")
    limit, used = run.budget.limit, run.used(ours)
    tiles = [
        Tile(
            LIMITS[run.budget.form],
            money(used, data.currency),
            f"{percent(used / limit if limit > 0 else np.nan)} of {money(limit, data.currency)}",
            used / limit if limit > 0 else None,
        ),
        Tile("Contributed", number(ours.value), _cost_of_one(ours, data)),
    ]
    sentence = f"{_spent(run, ours, data.currency)} and contributed {number(ours.value)} {data.value_unit}"
    if run.attainable is not None:
        sentence += f", {_above(run.attainable.incremental(ours.value))} the lowest incentive for every request"
    sentence += "."
    if run.attainable is not None and np.isfinite(run.of_gain(ours)):
        share = run.of_gain(ours)
        between = f"best flat mixture: {number(run.attainable.flat)}, optimum: {number(run.attainable.best)}"
        tiles.append(Tile("Of the attainable gain", percent(share), between, share))
        sentence += f" It earned {percent(share)} of the gain that personal incentives can add to {FLAT}."
    if static is not None and static is not ours:
        told, tile = _static(run, ours, static)
        sentence += f" {told}"
        tiles.append(tile)
    return Headline(sentence, tuple(tiles), run.simulated)


def against(scenario: Scenario, policy: Policy) -> str:
    """Distance of a policy below or above its limit, in words."""
    excess = scenario.excess(policy)
    if not np.isfinite(excess):
        return "above zero"
    if abs(excess) < 5e-7:
        return "on the limit"
    return f"{percent(abs(excess), 2)} {'over' if excess > 0 else 'below'}"


def budget_heading(scenario: Scenario) -> str:
    """Heading of the column that holds what the budget limits."""
    return LIMITS[scenario.budget.form]


def effect_sentence(side: SideReport) -> str:
    """State where the data do not identify the effect of the incentive; empty where they do or none was estimated."""
    if side.slope is None or side.slope.identified:
        return ""
    return f"{NOT_IDENTIFIED.capitalize()}: the interval of the slope does not lie above 0. The gate names a trial."


def change_sentence(side: SideReport, currency: Currency) -> str:
    """Changes of the hazard rate of a side, in words."""
    found = side.hazard
    if found is None:
        return ""
    if found.at.size == 0:
        return "The hazard rate shows no change point: one rate fits all incentives."
    edges, unit = incentives(found.segments.edges, currency)
    rates = found.segments.hazard
    turns = [
        f"{number(at)} {unit} (rate {_times(before, after)})"
        for at, before, after in zip(edges[1:-1], rates[:-1], rates[1:], strict=True)
    ]
    noun = "a change point" if len(turns) == 1 else f"{len(turns)} change points"
    return f"The hazard rate shows {noun}: {listed(turns)}."


def solve_sentence(solves: Sequence[Solve]) -> str:
    """Number of solves made and published, and the quality of the worst, in words."""
    if not solves:
        return ""
    published = [solve for solve in solves if solve.published]
    told = f"{len(solves)} solves, {len(published)} published."
    if published:
        gap, excess = max(solve.gap for solve in published), max(solve.violation for solve in published)
        told += (
            f" Largest relative gap between what was reached and the upper bound: {number(gap, 3)};"
            f" largest excess over a limit: {number(excess, 3)} (≤ 0 is within)."
        )
    return told


def _spent(run: Scenario, ours: Policy, currency: Currency) -> str:
    limit = money(run.budget.limit, currency)
    if run.budget.form == "total":
        return f"The campaign paid {money(ours.total, currency)} of its budget of {limit}"
    what = "request" if run.budget.form == "per_account" else "response"
    used = money(run.used(ours), currency)
    return f"The campaign paid {money(ours.total, currency)}, {used} per {what} against a limit of {limit},"


def _above(value: float) -> str:
    return f"{number(abs(value))} {'fewer' if value < 0 else 'more'} than"


def _cost_of_one(ours: Policy, data: ReportData) -> str:
    if ours.value <= 0:
        return data.value_unit
    return f"{data.value_unit}, {money(ours.total / ours.value, data.currency)} each"


def _static(run: Scenario, ours: Policy, static: Policy) -> tuple[str, Tile]:
    """Outcome of a price kept from the start, as a sentence and as a tile."""
    kept, name = "a price kept from the start", "Against a static price"
    if run.overspent(static):
        over = percent(run.excess(static))
        tile = Tile(name, f"{over} over", "what the static price overspends")
        return f"{kept.capitalize()} would have overspent by {over}.", tile
    aside = f"static: {number(static.value)}"
    if static.value <= 0:
        return f"{kept.capitalize()} would have contributed nothing.", Tile(name, MISSING, aside)
    gain = ours.value / static.value - 1
    told = f"The value is {percent(abs(gain))} {'lower' if gain < 0 else 'higher'} than with {kept}."
    return told, Tile(name, f"{'+' if gain > 0 else ''}{percent(gain)}", aside)


def _times(before: float, after: float) -> str:
    return f"×{number(after / before, 2)}" if before > 0 else "from zero"
