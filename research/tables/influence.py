"""Price that counts the influence of merchants' incentives on their customers, at equal spend."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from research.table import Primary, Rows, Summary, Table
from shadowprice.arms import Arm, Experiment
from shadowprice.campaign import Budget, Campaign, Side, Terms
from shadowprice.datasets.world import (
    CUSTOMER_LEVELS,
    MERCHANT_LEVELS,
    WorldOptions,
    generator,
    merchant_response,
    spilled,
)
from shadowprice.datasets.world.graph import WorldGraph, draw_graph
from shadowprice.experiments.columns import PERIOD
from shadowprice.experiments.periods import Period
from shadowprice.experiments.spillover import passed_on
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.policy import Choices

OWN, COUNTED = "own response", "influence in the price"
KNOWN, NET = "known influence in the price", "influence net of the partners' costs"
LINEAR, CURVED, NONE = "linear influence", "influence on the hazard", "no influence"
VALUE, USED = "value at equal spend, % of that by own response", "trials that count it, %"
PRICE, REQUESTS, DRAWS, STEPS = 0.004, 8, 20, 40
SLOPE = 0.003
"""Probability of a response more for a minor unit more that a customer's merchants are given in the mean."""
AT = datetime(2026, 1, 1, tzinfo=UTC)
CAMPAIGN = Campaign(
    name="world",
    sides={"customer": Terms(levels=CUSTOMER_LEVELS), "merchant": Terms(levels=MERCHANT_LEVELS, cost_basis="on_grant")},
    budget=Budget(limit=1),
    starts_at=AT,
    hours=24,
)
TRIAL = Experiment(
    arms=(Arm(name="holdout", kind="holdout", share=5000), Arm(name="policy", kind="policy", share=5000)), salt="trial"
)
Reals = NDArray[np.float64]
Levels = dict[Side, NDArray[np.integer]]


@dataclass(frozen=True, eq=False)
class Market:
    """Accounts with true curves (J, n) of their own responses, and the rule by which merchants move customers."""

    graph: WorldGraph
    curves: dict[Side, NDArray[np.float32]]
    world: str

    @classmethod
    def of(cls, seed: int, world: str, quick: bool) -> Market:
        """Draw the graph and the curves; those of one seed are the same in all worlds."""
        options = WorldOptions(both=0)
        if quick:
            options = replace(options, customers=800, merchants=200)
        graph = draw_graph(options, generator(seed))
        strength = graph.influence(options.rho)
        curves: dict[Side, Reals] = {
            "customer": options.respond(strength[graph.customers]),
            "merchant": merchant_response(strength[graph.merchants]),
        }
        return cls(graph, {side: curve.astype(np.float32) for side, curve in curves.items()}, world)

    def chance(self, level: Levels) -> Reals:
        """Probability of each customer at the levels of all accounts."""
        mean = _at(self.curves["customer"], level["customer"])
        offered = np.full(len(self.graph.ids), float(MERCHANT_LEVELS[0]))
        offered[self.graph.merchants] = np.array(MERCHANT_LEVELS)[level["merchant"]]
        if self.world == CURVED:
            return spilled(mean, self.graph.customers, offered, self.graph)
        if self.world == NONE:
            return mean
        pull = np.bincount(self.graph.tie[0], offered[self.graph.tie[1]], minlength=offered.size)
        ties = np.maximum(np.bincount(self.graph.tie[0], minlength=offered.size), 1)
        more = np.where(pull > 0, pull / ties - MERCHANT_LEVELS[0], 0.0)
        return np.clip(mean + SLOPE * more[self.graph.customers], 0.0, 1.0)

    def worth(self, level: Levels) -> tuple[float, float]:
        """Value and spend of a request of each account."""
        chance, shares = self.chance(level), _at(self.curves["merchant"], level["merchant"])
        paid = np.array(CUSTOMER_LEVELS)[level["customer"]] @ chance
        return float(chance.sum() + shares.sum()), float(paid + np.array(MERCHANT_LEVELS)[level["merchant"]].sum())

    def net(self, level: Levels) -> float:
        """Share of the value of customers' responses that is left after their coupons, at the price."""
        chance = self.chance(level)
        return 1.0 - PRICE * float(np.array(CUSTOMER_LEVELS)[level["customer"]] @ chance) / float(chance.sum())

    def levels(self, price: float, influence: Reals | None) -> Levels:
        """Levels at a price; ``influence`` (merchants,) is the value for customers of a minor unit."""
        passed: dict[Side, Reals | None] = {"customer": None, "merchant": influence}
        return {
            side: Choices.of(CAMPAIGN, side, curve)
            .counting(CAMPAIGN, side, passed[side])
            .decide([price], 0.0, np.arange(curve.shape[1]))
            .level
            for side, curve in self.curves.items()
        }

    def value_at(self, spend: float, influence: Reals | None) -> float:
        """True value at a true spend: mixed from the two prices around it, as the share of ties does."""
        low, high = 0.0, 1.0
        for _ in range(STEPS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.worth(self.levels(middle, influence))[1] > spend else (low, middle)
        (dear, more), (cheap, less) = (self.worth(self.levels(price, influence)) for price in (low, high))
        share = (spend - less) / (more - less) if more > less else 0.0
        return cheap + min(max(share, 0.0), 1.0) * (dear - cheap)


def run(seed: int, quick: bool) -> Rows:
    rows: dict[str, dict[str, float]] = {}
    for world in (LINEAR, CURVED, NONE):
        market = Market.of(seed, world, quick)
        snapshot, policy = _snapshot(market.graph), market.levels(PRICE, None)
        _, spend = market.worth(policy)
        own = market.value_at(spend, None)
        rows[f"{world}: {OWN}"] = {VALUE: 100.0, USED: 0.0}
        draws = [(seed, draw) for draw in range(DRAWS // 5 if quick else DRAWS)]
        found = [_estimated(market, snapshot, policy, draw) for draw in draws]
        counted = [each is not None for each in found]
        for name, part in ((COUNTED, 1.0), (NET, market.net(policy))):
            values = [own if each is None else market.value_at(spend, part * each) for each in found]
            rows[f"{world}: {name}"] = {VALUE: 100 * float(np.mean(values)) / own, USED: 100 * float(np.mean(counted))}
    market = Market.of(seed, LINEAR, quick)
    reach = _reach(market.graph) * SLOPE
    spent = market.worth(market.levels(PRICE, None))[1]
    known = market.value_at(spent, reach)
    rows[f"{LINEAR}: {KNOWN}"] = {VALUE: 100 * known / market.value_at(spent, None), USED: 100.0}
    return rows


def _estimated(market: Market, snapshot: GraphSnapshot, policy: Levels, draw: tuple[int, int]) -> Reals | None:
    """Influence (merchants,) that a trial by accounts finds; None where its interval includes 0."""
    test = replace(TRIAL, salt=f"trial {draw[0]} {draw[1]}")
    treated = test.arm_of(market.graph.ids.tolist()) == "policy"
    nodes: dict[Side, NDArray[np.intp]] = {"customer": market.graph.customers, "merchant": market.graph.merchants}
    level: Levels = {side: np.where(treated[nodes[side]], of, 0) for side, of in policy.items()}
    random = np.random.default_rng([*draw, 47])
    bought = random.binomial(REQUESTS, market.chance(level)).astype(np.float64)
    shares = random.poisson(REQUESTS * _at(market.curves["merchant"], level["merchant"])).astype(np.float64)
    given: dict[Side, Reals] = {
        "customer": np.array(CUSTOMER_LEVELS, dtype=np.float64)[level["customer"]],
        "merchant": np.array(MERCHANT_LEVELS, dtype=np.float64)[level["merchant"]],
    }
    value = {"customer": bought, "merchant": shares}
    parts = [
        pd.DataFrame(
            {"account_id": market.graph.ids[nodes[side]], "value": value[side], "incentive": REQUESTS * given[side]}
        ).assign(side=side)
        for side in nodes
    ]
    rows = pd.concat(parts, ignore_index=True).assign(**{PERIOD: 0})
    found = passed_on(rows, (Period(0, test, 0, 0, len(rows)),), snapshot, arm="policy", baseline="holdout")
    of = next((each for each in found if each.side == "merchant" and each.counts), None)
    return None if of is None else of.influence[market.graph.merchants]


def _reach(graph: WorldGraph) -> Reals:
    """Sum of the shares of each merchant in what its customers receive."""
    ties = np.bincount(graph.tie[0], minlength=len(graph.ids))
    return np.asarray(np.bincount(graph.tie[1], 1.0 / ties[graph.tie[0]], minlength=len(graph.ids))[graph.merchants])


def _snapshot(graph: WorldGraph) -> GraphSnapshot:
    nodes, ties = len(graph.ids), graph.tie.shape[1]
    is_side = np.zeros((2, nodes), dtype=np.bool_)
    is_side[0, graph.customers], is_side[1, graph.merchants] = True, True
    return GraphSnapshot(
        account_id=graph.ids,
        is_side=is_side,
        names={"customer": (), "merchant": ()},
        features={side: np.zeros((nodes, 0), dtype=np.float32) for side in ("customer", "merchant")},
        edge_index=graph.tie.astype(np.int64),
        edge_names=(),
        edge_features=np.zeros((ties, 0), dtype=np.float32),
        at=AT,
    )


def _at(curve: NDArray[np.floating], level: NDArray[np.integer]) -> Reals:
    return np.asarray(curve[level, np.arange(level.size)], dtype=np.float64)


def reading(found: Summary) -> str:
    curve, none = (found.finding(VALUE, f"{world}: {COUNTED}", f"{world}: {OWN}") for world in (CURVED, NONE))
    return (
        f"Other worlds: {curve}; {none}. All prices decide by the true curves of own responses, all accounts ask "
        "equally often, and the trial's mapping of exposure is that of the world; a real graph misses ties, and a real "
        "influence may differ between partners."
    )


TABLE = Table(
    title="Influence in the price",
    source="S0's prices count own responses alone",
    data=f"`world`, true curves; simulated. Commissions move customers by a line ({SLOPE:g} for a minor unit), by "
    f"their hazard (option `spillover`), or not at all. {DRAWS} trials by accounts a seed, half of them in the "
    "policy; exact expectations, at the true spend of the price by own response",
    run=run,
    reading=reading,
    primary=Primary(VALUE, f"{LINEAR}: {COUNTED}", f"{LINEAR}: {OWN}", effect=1.0, spread=0.8),
    # Whether partners' costs count was chosen on the seeds 100 to 109.
    first_seed=120,
    compare=[
        (VALUE, f"{CURVED}: {COUNTED}", f"{CURVED}: {OWN}"),
        (VALUE, f"{NONE}: {COUNTED}", f"{NONE}: {OWN}"),
        (VALUE, f"{LINEAR}: {KNOWN}", f"{LINEAR}: {COUNTED}"),
        (VALUE, f"{LINEAR}: {COUNTED}", f"{LINEAR}: {NET}"),
        (VALUE, f"{CURVED}: {COUNTED}", f"{CURVED}: {NET}"),
    ],
    also=("trials that count it, %",),
)
