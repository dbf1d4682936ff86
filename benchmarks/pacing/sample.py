"""Cost of a price that is solved on a sample of the accounts: error of λ and of the spend, value lost.

The accounts are those of the generated world with their true curves; outcomes are expected values. A price is solved
once for a day. Where it spends more than the budget, the last requests get nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.cells import Cells
from benchmarks.markdown import Results, markdown
from shadowprice.campaign import Budget, Campaign, Side, Terms
from shadowprice.curves import Curves
from shadowprice.datasets.world import (
    CUSTOMER_LEVELS,
    MERCHANT_LEVELS,
    TRIAL_START,
    WorldOptions,
    generator,
    merchant_response,
)
from shadowprice.datasets.world.graph import draw_graph
from shadowprice.pacing.window import solve_window

REQUESTS, EACH = 30_000, 24.0
SIZES, DRAWS = (1_000, 4_000, 40_000), 200


def run(cells: Cells, *, quick: bool) -> dict[str, Any]:
    """Measure every size of sample."""
    accounts, draws = (24_000, 5) if quick else (240_000, DRAWS)
    sizes = [size for size in SIZES if size < accounts // 8]
    rows = [cells.of(f"{size} of {accounts}", partial(lost, accounts, size, draws)) for size in sizes]
    return {"accounts": accounts, "draws": draws, "rows": rows}


def world(accounts: int) -> tuple[Campaign, dict[Side, Curves]]:
    """A campaign over ``accounts`` accounts, four fifths of them customers, with their true curves."""
    both = accounts // 100
    options = WorldOptions(customers=accounts * 4 // 5, merchants=accounts // 5 + both, both=both, ties=6.25)
    graph = draw_graph(options, generator(0))
    strength = graph.influence(options.rho)
    campaign = Campaign(
        name="sample",
        sides={
            "customer": Terms(levels=CUSTOMER_LEVELS),
            "merchant": Terms(levels=MERCHANT_LEVELS, cost_basis="on_grant"),
        },
        budget=Budget(form="total", limit=EACH * REQUESTS),
        starts_at=TRIAL_START,
    )
    return campaign, {
        "customer": Curves(np.array(CUSTOMER_LEVELS), options.respond(strength[graph.customers]).astype(np.float32)),
        "merchant": Curves(np.array(MERCHANT_LEVELS), merchant_response(strength[graph.merchants]).astype(np.float32)),
    }


def lost(accounts: int, size: int, draws: int) -> dict[str, Any]:
    """Errors of λ and of the spend, and the share of the value lost, over draws of ``size`` accounts a side."""
    campaign, curves = world(accounts)
    number = sum(curve.accounts for curve in curves.values())
    ahead: dict[Side, float] = {side: REQUESTS * curve.accounts / number for side, curve in curves.items()}
    left = EACH * REQUESTS
    full = solve_window(campaign, curves, ahead, left)
    exact = float(full.allocation.prices[0])
    matrices = {
        side: (campaign.terms(side).value(p), campaign.terms(side).cost(p), ahead[side] / curve.accounts)
        for side, curve in curves.items()
        for p in [curve.response.astype(np.float64)]
    }
    lowest = sum(value[0].sum() * times for value, _, times in matrices.values())
    random, errors = np.random.default_rng(1), []
    for _ in range(draws):
        drawn = {
            side: curve.take(random.choice(curve.accounts, min(size, curve.accounts), replace=False))
            for side, curve in curves.items()
        }
        price = float(solve_window(campaign, drawn, ahead, left).allocation.prices[0])
        value, spend = outcome(matrices, price)
        errors.append((price / exact - 1, spend / left - 1, 1 - value * min(1.0, left / spend) / full.primal))
    price_error, spend_error, share = np.array(errors).T
    of_gain = share * full.primal / (full.primal - lowest)
    return {
        "size": size,
        "price": interval(price_error),
        "spend": interval(spend_error),
        "lost": mean(share),
        "of_gain": mean(of_gain),
    }


def outcome(
    matrices: dict[Side, tuple[NDArray[np.float64], NDArray[np.float64], float]], price: float
) -> tuple[float, float]:
    """Value and spend where every account gets its best level at the price."""
    value = spend = 0.0
    for worth, cost, times in matrices.values():
        level = (worth - price * cost).argmax(axis=0)[None]
        value += float(np.take_along_axis(worth, level, 0).sum()) * times
        spend += float(np.take_along_axis(cost, level, 0).sum()) * times
    return value, spend


def interval(values: NDArray[np.float64]) -> list[float]:
    """Central interval of 95 of 100 draws."""
    return [float(each) for each in np.percentile(values, [2.5, 97.5])]


def mean(values: NDArray[np.float64]) -> list[float]:
    """Mean over the draws, with the ends of its 95 % interval."""
    half = 1.96 * values.std(ddof=1) / np.sqrt(values.size)
    return [float(values.mean()), float(values.mean() - half), float(values.mean() + half)]


def table(results: Results) -> str:
    """One row for each size of sample."""

    def percent(values: list[float]) -> str:
        return " to ".join(f"{100 * value:+.2f}" for value in values) + " %"

    def mean_of(values: list[float]) -> str:
        return f"{100 * values[0]:.2f} % [{100 * values[1]:.2f}, {100 * values[2]:.2f}]"

    found = results["sample"]
    lines = [
        [
            f"{row['size']:,}",
            percent(row["price"]),
            percent(row["spend"]),
            mean_of(row["lost"]),
            mean_of(row["of_gain"]),
        ]
        for row in found["rows"]
    ]
    lines.append([f"all {found['accounts']:,}", "0", "0", "0", "0"])
    return markdown(("accounts a side", "error of λ", "error of the spend", "value lost", "of the gain lost"), lines)
