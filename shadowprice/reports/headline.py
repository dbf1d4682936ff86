"""Sentences of the report, made from its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shadowprice.campaign import Campaign, Side
from shadowprice.currency import Currency
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.uplift.slope import NOT_IDENTIFIED
from shadowprice.pacing.replay.gains import Gain, Over
from shadowprice.reports.data import Policy, ReportData, Scenario, SideReport, Solve
from shadowprice.reports.wording import MISSING, interval, listed, money, number, percent, rounded, signed

LOWEST = "the lowest incentive for every request"
FLAT = "the best flat incentive at equal spend"
UNITS: dict[Side, str] = {"customer": "redemptions", "merchant": "share ratios"}
"""Unit of the responses of a side; a share ratio of 1 is as many shares as in the period before."""
ONE: dict[Side, str] = {"customer": "redemption", "merchant": "unit of share ratio"}
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
        *_extra(run, data.currency),
    ]
    sentence = f"{_spent(run, ours, data.currency)}"
    if run.gains:
        sentence += f" and added {'; '.join(_added(gain, over) for over, gain in run.gains.items())}"
    elif run.attainable is not None:
        sentence += f" and added {_above(run.attainable.incremental(ours.value))} {data.value_unit} than {LOWEST}"
    sentence += "."
    if not run.gains and run.attainable is None:
        sentence += f" It brought {number(ours.value)} {data.value_unit}; the number due to incentives is not known."
    best = run.of_best(ours)
    if np.isfinite(best):
        sentence += f" It reached {percent(best)} of the extra value possible in hindsight"
        aside = run.why_above(ours) or "of the extra value possible in hindsight"
        if np.isfinite(run.of_gain(ours)):
            sentence += f", and {percent(run.of_gain(ours))} of the gain over the best flat incentive"
            aside += f"; {percent(run.of_gain(ours))} of the gain over the best flat incentive"
        sentence += f" ({run.why_above(ours)})." if run.why_above(ours) else "."
        tiles.append(Tile("Of the possible", percent(best), aside, best))
    tiles += _marginal(run, ours, data.currency)
    if static is not None and static is not ours:
        told, tile = _static(run, ours, static)
        sentence += f" {told}"
        tiles.append(tile)
    return Headline(sentence, tuple(tiles), run.simulated)


def campaign_facts(campaign: Campaign, currency: Currency) -> dict[str, str]:
    """Dates, budget, levels and terms of a campaign, label → text."""
    budget, limit = campaign.budget, money(campaign.budget.limit, currency)
    forms = {"total": "in all", "per_account": "per request at most", "per_response": "per response at most"}
    facts = {
        "Name": campaign.name,
        "Starts": f"{campaign.starts_at:%Y-%m-%d %H:%M} UTC",
        "Ends": f"{campaign.ends_at:%Y-%m-%d %H:%M} UTC, {campaign.hours} hours",
        f"Budget {budget.name}": f"{limit} {forms[budget.form]}",
    }
    if campaign.late_reserve:
        facts["Set aside for late redemptions"] = money(campaign.late_reserve, currency)
    for side, terms in campaign.sides.items():
        paid = "when the account responds" if terms.cost_basis == "on_response" else "for certain"
        facts[f"Incentives of {side}s"] = listed(money(level, currency) for level in terms.incentives)
        facts[f"Paid to {side}s"] = paid + (f", for {terms.most_units} units at most" if terms.most_units > 1 else "")
        if terms.weight != 1:
            facts[f"Worth of one {ONE[side]}"] = number(terms.weight)
    return facts | {
        "Requests that explore": percent(campaign.exploration),
        "Price is set by": f"pacer {campaign.pacer}",
        "A price is published with": f"gap ≤ {campaign.gap_limit:g}, violation ≤ {campaign.violation_limit:g}",
    }


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
    edges = found.segments.edges
    rates = found.segments.hazard
    turns = [
        f"{money(at, currency)} (rate {_times(before, after)})"
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
    return f"{rounded(abs(value))} {'fewer' if value < 0 else 'more'}"


def _added(gain: Gain, over: Over) -> str:
    """Added responses of each side with their interval, in words."""
    sides = [
        f"{_above(found.responses.value)} {UNITS[side]} {interval(found.responses)}"
        for side, found in gain.sides.items()
    ]
    if over == "lowest":
        return f"{listed(sides)} than {LOWEST}"
    if len(sides) == 1:
        return f"{sides[0]} than {FLAT}"
    # At equal spend one side may get more of the money than in the flat mixture, and the other one less.
    parts = [f"{signed(found.responses.value)} {UNITS[side]}" for side, found in gain.sides.items()]
    whole = gain.whole.responses
    return f"{_above(whole.value)} responses by weight {interval(whole)} than {FLAT} ({listed(parts)})"


def _extra(run: Scenario, currency: Currency) -> list[Tile]:
    """Tiles of what was added: responses of each side and their cost."""
    tiles: list[Tile] = []
    if "lowest" in run.gains:
        flat = run.gains.get("flat")
        for side, found in run.gains["lowest"].sides.items():
            aside = f"over the lowest incentive, 95 % interval {interval(found.responses)}"
            tiles.append(Tile(f"Extra {UNITS[side]}", signed(found.responses.value), aside))
        if flat is not None:
            over = flat.whole.responses
            unit = UNITS[next(iter(flat.sides))] if len(flat.sides) == 1 else "responses by weight"
            aside = f"{unit} at equal spend, 95 % interval {interval(over)}"
            tiles.append(Tile("Over the best flat incentive", signed(over.value), aside))
        for side, found in run.gains["lowest"].sides.items():
            each = found.cost_each
            aside = (
                f"{_bounds(each, currency)}; {money(found.cost.value, currency)} more than the lowest incentive costs"
            )
            tiles.append(Tile(f"Cost per extra {ONE[side]}", money(each.value, currency), aside))
    return tiles


def _bounds(each: Estimate, currency: Currency) -> str:
    if not np.isfinite(each.low):
        return "no interval: nothing may have been added"
    return f"95 % interval [{money(each.low, currency)}, {money(each.high, currency)}]"


def _marginal(run: Scenario, ours: Policy, currency: Currency) -> list[Tile]:
    """The price of money in words: value of one major unit more, and cost of one response more."""
    price = mean_price(run, ours)
    if not price > 0:
        return []
    weights = run.weights or {}
    costs = [f"one extra {ONE[side]} costs {money(weight / price, currency)}" for side, weight in weights.items()]
    brings = [f"{number(currency.unit * price / weight, 3)} {UNITS[side]}" for side, weight in weights.items()]
    if not costs:
        return []
    return [
        Tile(f"One more {currency.symbol}1 brings", " or ".join(brings), f"{'; '.join(costs)} (λ, mean of the day)")
    ]


def mean_price(run: Scenario, policy: Policy) -> float:
    """Mean price of money over the requests of the window, in weighted responses per minor unit; NaN without one."""
    if policy.price is None:
        return float("nan")
    known = np.isfinite(policy.price)
    requests = float(run.arrivals[known].sum())
    return float(policy.price[known] @ run.arrivals[known]) / requests if requests > 0 else float("nan")


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
