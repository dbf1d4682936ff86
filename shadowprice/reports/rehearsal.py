"""Sentences of the rehearsal: a simulated day, which shows pacing and the service."""

from collections.abc import Sequence

import numpy as np

from shadowprice.reports.data import Policy, ReportData, Scenario, Solve
from shadowprice.reports.headline import ONE, UNITS, return_sentence
from shadowprice.reports.wording import listed, money, number, percent

LIMITS = {"total": "Budget used", "per_account": "Paid per request", "per_response": "Paid per response"}


def price_sentence(data: ReportData) -> str:
    """The mean price of money of the first scenario in words; empty where there was none."""
    run = data.scenarios[0] if data.scenarios else None
    price = mean_price(run, run.policies[0]) if run is not None else float("nan")
    if run is None or not price > 0 or not run.weights:
        return ""
    if data.campaign is not None and data.campaign.in_money:
        return f"{return_sentence(data.campaign, data.currency.unit * price)} (λ, mean of the day)."
    one = data.currency.one
    brings = " or ".join(
        f"{number(data.currency.unit * price / weight, 3)} {UNITS[side]}" for side, weight in run.weights.items()
    )
    costs = listed(
        f"one extra {ONE[side]} costs {money(weight / price, data.currency)}" for side, weight in run.weights.items()
    )
    return f"One more {one} brings {brings}: {costs} (λ, mean of the day)."


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
    sentence = f"{len(solves)} solves, {len(published)} published."
    if published:
        gap, excess = max(solve.gap for solve in published), max(solve.violation for solve in published)
        sentence += (
            f" Largest relative gap between what was reached and the upper bound: {number(gap, 3)};"
            f" largest excess over a limit: {number(excess, 3)} (≤ 0 is within)."
        )
    return sentence


def mean_price(run: Scenario, policy: Policy) -> float:
    """Mean price of money over the requests of the window, in weighted responses per minor unit; NaN without one."""
    if policy.price is None:
        return float("nan")
    known = np.isfinite(policy.price)
    requests = float(run.arrivals[known].sum())
    return float(policy.price[known] @ run.arrivals[known]) / requests if requests > 0 else float("nan")
