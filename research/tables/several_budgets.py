"""Four overlapping budgets over a day: priced each by itself, or stopped by the ledger alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.pacing.market import market, market_day
from research.table import Primary, Rows, Summary, Table
from shadowprice.limits import GroupBudget, Limits
from shadowprice.limits.attributes import Attributes
from shadowprice.pacing.pacers import CampaignState, Pacer, make_pacer
from shadowprice.pacing.replay.compare import Setting, run_pacer, solve_day, value_within_budget
from shadowprice.pacing.replay.policies import past_traffic
from shadowprice.pacing.resolve import Resolution

PRICED, STOPPED = "a price for each budget", "the main price; the ledger stops at the others"
SHARE = "value, % of the optimum under the same limits"
OFF = "largest distance of a budget that binds from its limit, %"
REQUESTS, QUICK_REQUESTS = 60_000, 4_000
NORTH = 'account.c_region == "north"'
SHOPS = tuple(f"m{place:05d}" for place in range(4))
BATCH = 16
"""Requests decided together: all of them hold money before the first of them is settled."""
LEFT = 0.8
"""Share of what a group would spend without a budget of its own that its budget allows."""


@dataclass
class Blind(Pacer):
    """The pacer of a campaign without further budgets: their prices are 0."""

    inner: Pacer

    def moments(self, hours: int) -> Sequence[float]:
        return self.inner.moments(hours)

    def price(self, state: CampaignState) -> Resolution | None:
        return self.inner.price(replace(state, campaign=replace(state.campaign, limits=Limits())))


def run(seed: int, quick: bool) -> Rows:
    setting = limited(market_day(seed, QUICK_REQUESTS if quick else REQUESTS), seed)
    best = solve_day(setting)
    limits = {budget.name: budget.limit for budget in setting.campaign.limits.budgets}
    limits["budget"] = setting.campaign.budget.limit
    # A budget without a price is not meant to be used up: the others take its money.
    binding = [name for name in limits if best.prices[name] > 0]
    ways = {PRICED: make_pacer("closing"), STOPPED: Blind(make_pacer("closing"))}
    rows = {}
    for name, pacer in ways.items():
        played = run_pacer(setting, pacer, hard_stop=True, batch=BATCH)
        spent = {each: float(played.outcomes.cost[inside].sum()) for each, inside in groups(setting).items()}
        rows[name] = {
            SHARE: 100 * value_within_budget(played) / best.primal,
            OFF: 100 * max(abs(spent[each] / limits[each] - 1) for each in binding),
        }
    return rows


def limited(free: Setting, seed: int) -> Setting:
    """Give accounts a region and requests a shop, and limit customers, the north and four shops, which overlap.

    The requests before the window are as many as a day has, with their shops: what a platform's log has.
    """
    random = np.random.default_rng([seed, 0xB0])
    names = free.model["customer"].account_id.tolist()
    regions = random.choice(["north", "south", "west"], len(names)).tolist()
    partners = shops_of(len(free.day), random)
    partners[free.day.side == "merchant"] = ""
    history = past_traffic(market(seed)[1], len(free.day) * 2 // 3, seed + 1000)
    setting = replace(
        free,
        attributes={"customer": Attributes.of(names, {"c_region": regions})},
        day=replace(free.day, partner_id=partners),
        history=history,
        partners={"customer": shops_of(len(history["customer"]), random)},
    )
    cost = run_pacer(setting, make_pacer("hourly"), hard_stop=True, batch=BATCH).outcomes.cost
    free_spend = {name: float(cost[inside].sum()) for name, inside in groups(setting).items()}
    budgets = (
        GroupBudget(name="customers", limit=round(0.9 * free_spend["customers"]), side="customer"),
        GroupBudget(name="north", limit=round(LEFT * free_spend["north"]), where=NORTH, side="customer"),
        GroupBudget(name="shops", limit=round(LEFT * free_spend["shops"]), partners=SHOPS),
    )
    return replace(setting, campaign=replace(setting.campaign, limits=Limits(budgets=budgets)))


def shops_of(requests: int, random: np.random.Generator) -> np.ndarray:
    """Return the shop of each request; half of them have none."""
    return np.where(random.random(requests) < 0.5, random.choice(SHOPS, requests), "")


def groups(setting: Setting) -> dict[str, np.ndarray]:
    """Name of a budget → which requests of the day it counts."""
    day = setting.day
    region = np.array(setting.attributes["customer"].read("c_region", day.account_id.tolist()), dtype=object)
    return {
        "budget": np.ones(len(day), dtype=bool),
        "customers": day.side == "customer",
        "north": (day.side == "customer") & (region == "north"),
        "shops": np.isin(day.partners, SHOPS),
    }


def reading(found: Summary) -> str:
    return f"Prices also come nearer to the limits: {found.finding(OFF, PRICED, STOPPED)}."


TABLE = Table(
    title="Four overlapping budgets over a day",
    source="S1, equation 4 (budgets of groups), which has no table",
    data="simulated market, known curves, 60,000 requests a day; a main budget, one of all customers, one of a "
    "region's customers, one of four shops' requests",
    run=run,
    reading=reading,
    primary=Primary(SHARE, PRICED, STOPPED, effect=0.5, spread=0.5),
    compare=[(OFF, PRICED, STOPPED)],
    first_seed=200,
    fewer_is_better=(OFF,),
)
