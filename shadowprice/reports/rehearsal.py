"""Sentences and tiles of the rehearsal: a simulated day, which shows pacing and the service."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shadowprice.currency import Currency
from shadowprice.reports.data import Policy, ReportData, Scenario, Solve
from shadowprice.reports.headline import ONE, UNITS, Headline, Tile
from shadowprice.reports.wording import MISSING, money, number, percent

LIMITS = {"total": "Budget used", "per_account": "Paid per request", "per_response": "Paid per response"}


def rehearsal(data: ReportData) -> Headline | None:
    """Spend and price of the first scenario, or None when there is none.

    The value of the day is not among them: its outcomes are drawn. The evidence for the value is in the headline of the
    page.
    """
    if not data.scenarios:
        return None
    run = data.scenarios[0]
    ours, static = run.policies[0], run.policy("static")
    limit, used = run.budget.limit, run.used(ours)
    of = money(limit, data.currency)
    if limit > 0:
        of = f"{percent(used / limit)} of {of}"
    tiles = [Tile(LIMITS[run.budget.form], money(used, data.currency), of, used / limit if limit > 0 else None)]
    sentence = f"{_spent(run, ours, data.currency)}."
    best = run.of_best(ours)
    if np.isfinite(best):
        why = run.why_above(ours)
        sentence += f" It reached {percent(best)} of the extra value possible in hindsight{f' ({why})' if why else ''}."
        tiles.append(Tile("Of the possible", percent(best), why or "of the extra value possible in hindsight", best))
    tiles += _marginal(run, ours, data.currency)
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
    paid = "paid" if currency.symbol else "gave"
    if run.budget.form == "total":
        return f"The campaign {paid} {money(ours.total, currency)} of its budget of {limit}"
    what = "request" if run.budget.form == "per_account" else "response"
    used = money(run.used(ours), currency)
    return f"The campaign {paid} {money(ours.total, currency)}, {used} per {what} against a limit of {limit},"


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
    return [Tile(f"One more {currency.one} brings", " or ".join(brings), f"{'; '.join(costs)} (λ, mean of the day)")]


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
