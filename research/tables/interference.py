"""Trials of a policy on a graph where merchants' incentives move their customers: bias and coverage of each design."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.table import Primary, Rows, Summary, Table
from shadowprice.datasets.world import (
    CUSTOMER_LEVELS,
    HOURLY_SHAPE,
    MERCHANT_LEVELS,
    WorldOptions,
    generator,
    merchant_response,
    spilled,
)
from shadowprice.datasets.world.graph import WorldGraph, draw_graph
from shadowprice.experiments.effects import Cells, Effect
from shadowprice.experiments.exposure import effect_of_all, exposed, exposure_of
from shadowprice.graphs.communities import communities

ACCOUNT, ACCOUNT_MAPPED = "by account, difference", "by account, exposure mapping"
PARTNER = "by the request's merchant, difference"
GROUP, GROUP_MAPPED = "by groups of the graph, difference", "by groups of the graph, exposure mapping"
HOUR = "by hour, difference"
BIAS, AWAY = "bias, % of the effect", "absolute bias, % of the effect"
COVERAGE, SPREAD = "coverage of 95 % intervals, %", "root mean squared error, % of the effect"
WORLDS = {"50 communities": 50, "no communities": 1}
PRICE, REQUESTS, DAYS, LARGEST = 0.004, 8, 7, 300
DRAWS = 100
Bools = NDArray[np.bool_]
Reals = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Market:
    """A graph and what each account is given in the arm ``policy``; the lowest level is that of the holdout.

    mean     (2, customers), probability of a customer in the holdout and under the policy, without influence
    offered  (2, N), commission of each account likewise
    group    (N,), of the graph's partition
    """

    graph: WorldGraph
    mean: Reals
    offered: Reals
    group: NDArray[np.int64]

    @classmethod
    def of(cls, seed: int, communities_: int, quick: bool) -> Market:
        """Draw the world and decide every account's level at one price."""
        world = WorldOptions(communities=communities_, both=0)
        if quick:
            world = replace(world, customers=1000, merchants=250)
        graph = draw_graph(world, generator(seed))
        strength = graph.influence(world.rho)
        curve = world.respond(strength[graph.customers])
        level = np.argmax(curve - PRICE * np.array(CUSTOMER_LEVELS)[:, None] * curve, axis=0)
        shares = merchant_response(strength[graph.merchants])
        paid = np.argmax(shares - PRICE * np.array(MERCHANT_LEVELS)[:, None], axis=0)
        offered = np.full((2, len(graph.ids)), float(MERCHANT_LEVELS[0]))
        offered[1, graph.merchants] = np.array(MERCHANT_LEVELS)[paid]
        return cls(
            graph,
            np.stack([curve[0], curve[level, np.arange(level.size)]]),
            offered,
            communities(graph.tie, len(graph.ids), LARGEST // 4 if quick else LARGEST, seed=seed),
        )

    def chance(self, own: Bools, merchants: Bools) -> Reals:
        """Probability of each customer, of those in the policy ``own`` (customers,) and ``merchants`` (N,)."""
        mean = np.where(own, self.mean[1], self.mean[0])
        return spilled(mean, self.graph.customers, np.where(merchants, self.offered[1], self.offered[0]), self.graph)

    @property
    def effect(self) -> float:
        """Mean response if everybody is in the policy, less that if nobody is."""
        nodes = len(self.graph.ids)
        whole, none = (self.chance(np.full(self.customers, arm), np.full(nodes, arm)) for arm in (True, False))
        return float(whole.mean() - none.mean())

    @property
    def customers(self) -> int:
        return int(self.graph.customers.size)


def run(seed: int, quick: bool) -> Rows:
    rows: dict[str, dict[str, float]] = {}
    for world, count in WORLDS.items():
        market, random = Market.of(seed, count, quick), np.random.default_rng([seed, count])
        truth = market.effect
        for name, design in DESIGNS.items():
            found = [design(market, random) for _ in range(DRAWS // 10 if quick else DRAWS)]
            error = np.array([each.value for each in found]) / truth - 1
            covered = [each.low <= truth <= each.high for each in found]
            rows[f"{world}: {name}"] = {
                BIAS: 100 * float(error.mean()),
                AWAY: 100 * abs(float(error.mean())),
                COVERAGE: 100 * float(np.mean(covered)),
                SPREAD: 100 * float(np.sqrt((error**2).mean())),
            }
    return rows


def by_account(market: Market, random: np.random.Generator) -> Effect:
    """Every account by itself."""
    arm = random.random(len(market.graph.ids)) < 0.5
    y, own = _observed(market, arm, random), arm[: market.customers]
    return _difference(y, own, np.arange(own.size))


def by_account_mapped(market: Market, random: np.random.Generator) -> Effect:
    """Every account by itself, with the share of its merchants in the arm."""
    arm = random.random(len(market.graph.ids)) < 0.5
    return _mapped(market, arm, _observed(market, arm, random), np.arange(arm.size))


def by_group(market: Market, random: np.random.Generator) -> Effect:
    """Groups of the graph, customers and merchants together."""
    arm = _of_groups(market, random)
    return _difference(_observed(market, arm, random), arm[: market.customers], market.group[: market.customers])


def by_group_mapped(market: Market, random: np.random.Generator) -> Effect:
    """Groups of the graph, with the share of merchants in the arm, of which some are of other groups."""
    arm = _of_groups(market, random)
    return _mapped(market, arm, _observed(market, arm, random), market.group)


def by_partner(market: Market, random: np.random.Generator) -> Effect:
    """Requests by their merchant; a customer is in both arms, one at a time."""
    graph, arm = market.graph, random.random(len(market.graph.ids)) < 0.5
    tie = random.integers(0, graph.tie.shape[1], size=REQUESTS * market.customers)
    customer, merchant = graph.tie[:, tie]
    own, whole = arm[merchant], np.ones(market.customers, dtype=np.bool_)
    chance = np.where(own, market.chance(whole, arm)[customer], market.chance(~whole, arm)[customer])
    y = (random.random(own.size) < chance).astype(np.float64)
    two = Cells.of(own, merchant, customer)
    return two.effect(two.contrast(y))


def by_hour(market: Market, random: np.random.Generator) -> Effect:
    """All accounts together, a new draw each hour."""
    hours = 24 * DAYS
    arm = random.random(hours) < 0.5
    if arm.all() or not arm.any():
        arm[0] = not arm[0]
    at = np.tile(HOURLY_SHAPE / HOURLY_SHAPE.sum() / DAYS, DAYS)
    when = random.choice(hours, size=REQUESTS * market.customers, p=at)
    customer = np.tile(np.arange(market.customers), REQUESTS)
    nodes, every = len(market.graph.ids), np.ones(market.customers, dtype=np.bool_)
    on, off = (market.chance(every == value, np.full(nodes, value)) for value in (True, False))
    y = (random.random(when.size) < np.where(arm[when], on[customer], off[customer])).astype(np.float64)
    return _difference(y, arm[when], when)


DESIGNS: dict[str, Callable[[Market, np.random.Generator], Effect]] = {
    ACCOUNT: by_account,
    ACCOUNT_MAPPED: by_account_mapped,
    PARTNER: by_partner,
    GROUP: by_group,
    GROUP_MAPPED: by_group_mapped,
    HOUR: by_hour,
}


def _of_groups(market: Market, random: np.random.Generator) -> Bools:
    return np.asarray((random.random(int(market.group.max()) + 1) < 0.5)[market.group])


def _observed(market: Market, arm: Bools, random: np.random.Generator) -> Reals:
    """Mean response of each customer's requests."""
    chance = market.chance(arm[: market.customers], arm)
    return np.asarray(random.binomial(REQUESTS, chance) / REQUESTS)


def _difference(y: Reals, own: Bools, unit: NDArray[Any]) -> Effect:
    two = Cells.of(own, unit)
    return two.effect(two.contrast(y))


def _mapped(market: Market, arm: Bools, y: Reals, unit: NDArray[Any]) -> Effect:
    share = exposure_of(market.graph.tie, arm, 0)[: market.customers]
    found = exposed(y, arm[: market.customers], share)
    return effect_of_all([found], unit[: market.customers], np.stack([market.graph.tie[0], unit[market.graph.tie[1]]]))


def reading(found: Summary) -> str:
    _, far = WORLDS
    return (
        f"With {found.finding(AWAY, f'{far}: {GROUP}', f'{far}: {ACCOUNT}')}. "
        "This world favors two designs: an incentive of one hour moves nobody in the next, and the exposure mapping "
        "knows the world's rule but for its curvature."
    )


TABLE = Table(
    title="Trials where incentives spill over",
    source="all five papers report A/B tests by account",
    data="`world` with spill-over: commissions of a customer's merchants move its response. The effect: everybody "
    f"in the policy instead of nobody. {DRAWS} assignments a seed, groups of at most {LARGEST} accounts, {DAYS} "
    "days by hour; simulated",
    run=run,
    reading=reading,
    primary=Primary(AWAY, f"50 communities: {GROUP}", f"50 communities: {ACCOUNT}", effect=10.0, spread=8.0),
    compare=[
        (AWAY, f"50 communities: {GROUP_MAPPED}", f"50 communities: {GROUP}"),
        (AWAY, f"50 communities: {ACCOUNT_MAPPED}", f"50 communities: {ACCOUNT}"),
        (AWAY, f"no communities: {GROUP}", f"no communities: {ACCOUNT}"),
        (AWAY, f"no communities: {HOUR}", f"no communities: {ACCOUNT}"),
    ],
    fewer_is_better=(AWAY, SPREAD),
    also=(COVERAGE, *(f"{world}: {way}" for world in WORLDS for way in (ACCOUNT_MAPPED, HOUR))),
)
