"""Budgets of overlapping groups and periods, floors and rules: exact against HiGHS, and kept in a replay."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from scipy import optimize
from scipy.sparse import csr_matrix

from shadowprice.campaign import SIDES, Budget, Campaign, Side, Terms
from shadowprice.curves import Curves
from shadowprice.limits import Cap, GroupBudget, Limits, Rule
from shadowprice.limits.attributes import Attributes
from shadowprice.pacing.budgets.periods import parts_of
from shadowprice.pacing.pacers import make_pacer
from shadowprice.pacing.replay.compare import (
    Setting,
    attainable,
    optimum,
    run_pacer,
    run_policies,
    value_within_budget,
)
from shadowprice.pacing.replay.run import Replay
from shadowprice.pacing.window import solve_window
from shadowprice.price import PriceRecord

NORTH = 'account.c_region == "north"'


def periods(starts_at: datetime, hours: int, *budgets: GroupBudget, at: float = 0.0) -> dict[str, float]:
    """Rows of a campaign's budgets, nothing of which is used, and the shares of the parts that each row counts."""
    campaign = Campaign(
        name="spring",
        sides={"customer": Terms(levels=(0, 50))},
        budget=Budget(limit=1_000_000),
        starts_at=starts_at,
        hours=hours,
        limits=Limits(budgets=budgets),
    )
    left = np.ones(hours - int(at))
    left[0] -= at - int(at)
    in_hand = {each.name: float(each.limit) for each in budgets}
    parts, rows = parts_of(campaign, {"customer": left}, int(at), in_hand, at=at)
    hours_of = {
        row.name: sum(each.shares["customer"] * left.sum() for each in parts if row.name in each.rows) for row in rows
    }
    assert sum(each.shares["customer"] for each in parts) == pytest.approx(1)
    return {row.name: (row.in_hand, pytest.approx(hours_of[row.name])) for row in rows}


def test_a_day_that_is_partly_merged_has_its_limit_once() -> None:
    day, hour = (GroupBudget(name=name, limit=1000, where=NORTH, period=name) for name in ("day", "hour"))
    found = periods(datetime(2026, 3, 2, 16, tzinfo=UTC), 24, day, hour)
    of_days = [amount for name, (amount, _) in found.items() if name.startswith("day")]
    assert sum(of_days) == 2000
    assert sum(amount for name, (amount, _) in found.items() if name.startswith("hour")) == 24_000


def test_a_slot_that_lies_in_two_hours_is_divided_between_them() -> None:
    hour = GroupBudget(name="hour", limit=200, where=NORTH, period="hour")
    found = periods(datetime(2026, 3, 2, 10, 30, tzinfo=UTC), 3, hour, at=35 / 60)
    assert found == {
        "hour": (200, 55 / 60),
        "hour|2026-03-02T12": (200, 1),
        "hour|2026-03-02T13": (200, 0.5),
    }
    # Hours of a zone that is half an hour off are those of UTC too.
    india = timezone(timedelta(hours=5, minutes=30))
    assert periods(datetime(2026, 3, 2, 16, tzinfo=india), 1, hour) == {
        "hour": (200, 0.5),
        "hour|2026-03-02T11": (200, 0.5),
    }


REGIONS, SHOPS = ["north", "south", "west"], [f"m{place:05d}" for place in range(5)]
NORTH = 'account.c_region == "north"'
ADULT = Rule(name="adults", expression="account.x_age < 18 && offer.incentive > 100", side="customer")


def with_regions(setting: Setting) -> Setting:
    """Accounts have a region and an age; a third of the customers' requests is at one of five shops."""
    rng = np.random.default_rng(0)
    attributes: dict[Side, Attributes] = {}
    for side, model in setting.model.items():
        names = model.account_id.tolist()
        columns = {
            "c_region": rng.choice(REGIONS, len(names)).tolist(),
            "x_age": rng.integers(12, 80, len(names)).tolist(),
        }
        attributes[side] = Attributes.of(names, columns)

    def shops_of(requests: int) -> np.ndarray:
        return np.where(rng.random(requests) < 1 / 3, rng.choice(SHOPS, requests), "")

    partners = shops_of(len(setting.day))
    partners[setting.day.side == "merchant"] = ""
    before: dict[Side, np.ndarray] = {"customer": shops_of(len(setting.history["customer"]))}
    day = replace(setting.day, partner_id=partners)
    return replace(setting, attributes=attributes, day=day, partners=before)


def budgets(**limits: float) -> tuple[GroupBudget, ...]:
    made = {
        "north": {"where": NORTH},
        "shops": {"partners": tuple(SHOPS[:3])},
        "rush": {"period": "hour", "side": "customer"},
        "west": {"where": 'account.c_region == "west"', "sense": "at_least"},
        "mean": {"where": 'account.c_region == "south"', "form": "per_account"},
    }
    return tuple(
        GroupBudget(name=name, limit=limit if name == "mean" else round(limit), **made[name])  # type: ignore[arg-type]
        for name, limit in limits.items()
    )


def sample_of(setting: Setting, rows: int = 90) -> dict[Side, Curves]:
    day, found = setting.day, {}
    for side in SIDES:
        mine = np.zeros(len(day), dtype=bool)
        mine[np.flatnonzero(day.side == side)[:rows]] = True
        found[side] = setting.marked(side, setting.model[side].of(day.account_id[mine]), mine)
    return found


def linear_program(
    campaign: Campaign, curves: dict[Side, Curves], remaining: dict[Side, np.ndarray], left: float
) -> tuple[float, dict[str, float]]:
    """Value and prices by HiGHS, from the definitions: a column for each account, level and hour."""
    value, rows, sums = [], {campaign.budget.name: []}, []
    hours = len(remaining["customer"])
    row_names = [
        each.name if each.period == "campaign" else f"{each.name}|{hour}"
        for each in campaign.limits.budgets
        for hour in (range(hours) if each.period == "hour" else [0])
    ]
    rows |= {name: [] for name in row_names}
    bound: dict[str, float] = {campaign.budget.name: left}
    for side, mine in curves.items():
        terms = campaign.terms(side)
        allowed = np.ones(mine.response.shape, bool) if mine.allowed is None else mine.allowed
        for hour in range(hours):
            times = remaining[side][hour] / mine.accounts
            cost = times * terms.cost(mine.response)
            cells = [
                (level, account)
                for account in range(mine.accounts)
                for level in range(len(cost))
                if allowed[level, account]
            ]
            at = tuple(np.array(cells).T)
            value.append(times * terms.value(mine.response)[at])
            rows[campaign.budget.name].append(cost[at])
            sums.append(at[1])
            for place, each in enumerate(campaign.limits.budgets):
                inside = (mine.bits >> np.uint32(place) & 1)[at[1]].astype(float)
                own = cost[at] - (each.limit * times if each.form == "per_account" else 0.0)
                name = each.name if each.period == "campaign" else f"{each.name}|{hour}"
                for row in (name for name in row_names if name.split("|")[0] == each.name):
                    rows[row].append(inside * own if row == name else 0.0 * own)
    for each in campaign.limits.budgets:
        for name in row_names:
            if name.split("|")[0] == each.name:
                bound[name] = 0.0 if each.form == "per_account" else float(each.limit)
    sign = {each.name: -1.0 if each.sense == "at_least" else 1.0 for each in campaign.limits.budgets}
    matrix = np.array([sign.get(name.split("|")[0], 1.0) * np.concatenate(part) for name, part in rows.items()])
    upper = [sign.get(name.split("|")[0], 1.0) * bound[name] for name in rows]
    ends = np.cumsum([0, *(int(each.max()) + 1 for each in sums)])
    column = np.concatenate([each + start for each, start in zip(sums, ends, strict=False)])
    equal = csr_matrix((np.ones(column.size), (column, np.arange(column.size))))
    solved = optimize.linprog(
        -np.concatenate(value), matrix, upper, equal, np.ones(equal.shape[0]), bounds=(0, 1), method="highs"
    )
    assert solved.status == 0, solved.message
    prices = {
        name: sign.get(name.split("|")[0], 1.0) * -price
        for name, price in zip(rows, solved.ineqlin.marginals, strict=True)
    }
    return -solved.fun, prices


def test_groups_periods_floors_means_and_rules_are_the_linear_program(make_setting: Callable[..., Setting]) -> None:
    setting = with_regions(make_setting(0))
    limits = Limits(budgets=budgets(north=5500, shops=4000, rush=10000, west=13000, mean=23.0))
    campaign = replace(setting.campaign, limits=limits, rules=(ADULT,))
    curves = sample_of(replace(setting, campaign=campaign))
    assert curves["customer"].allowed is not None
    assert not curves["customer"].allowed.all()
    remaining: dict[Side, np.ndarray] = {
        "customer": np.array([400.0, 200.0, 250.0]),
        "merchant": np.array([100.0, 200.0, 200.0]),
    }
    left = 30_500.0
    parts, rows = parts_of(
        campaign,
        remaining,
        0,
        {each.name: 0.0 if each.form != "total" else float(each.limit) for each in limits.budgets},
    )
    assert len(parts) == 3
    ahead = {side: float(mine.sum()) for side, mine in remaining.items()}
    found = solve_window(campaign, curves, ahead, left, parts, rows)
    value, prices = linear_program(campaign, curves, remaining, left)
    assert found.primal == pytest.approx(value, rel=1e-8)
    assert found.dual == pytest.approx(value, rel=1e-8)
    named = {"budget": "budget", "north": "north", "shops": "shops", "rush": "rush|0", "west": "west", "mean": "mean"}
    for mine, theirs in named.items():
        assert found.prices[mine] == pytest.approx(prices[theirs], rel=1e-5, abs=1e-9), mine
    assert sum(found.prices[name] != 0 for name in named) >= 5


@pytest.fixture(name="days", scope="module")
def _days(make_setting: Callable[..., Setting]) -> tuple[Setting, np.ndarray, np.ndarray]:
    """A day with overlapping budgets, a cap and a rule; and which of its requests are northern, or at the shops."""
    free = with_regions(make_setting(1, requests=8_000))
    spent = run_pacer(free, make_pacer("hourly"), hard_stop=True).outcomes
    customer, shop = spent.side == "customer", np.isin(free.day.partners, SHOPS[:3])
    region = free.attributes["customer"].read("c_region", spent.account_id.tolist())
    north = customer & (np.array(region, dtype=object) == "north")
    limits = Limits(
        budgets=(
            GroupBudget(name="north", limit=round(0.7 * spent.cost[north].sum()), where=NORTH, side="customer"),
            GroupBudget(name="shops", limit=round(0.75 * spent.cost[shop].sum()), partners=tuple(SHOPS[:3])),
            GroupBudget(name="rush", limit=int(spent.cost[~customer].sum() / 16), period="hour", side="merchant"),
        ),
        caps=(Cap(name="often", per="account", count=30),),
    )
    return replace(free, campaign=replace(free.campaign, limits=limits, rules=(ADULT,))), north, shop


@pytest.fixture(scope="module")
def runs(days: tuple[Setting, np.ndarray, np.ndarray]) -> dict[str, Replay]:
    """The day under each policy of a comparison."""
    return run_policies(days[0], batch=512)


def check_plans(records: list[PriceRecord], limits: dict[str, float]) -> None:
    """A budget with a price plans to use its limit up, others to stay below, and the spend follows the plan."""
    for record in records:
        assert [len(record.plans[name]) for name in limits] == [25 - record.slot, 25 - record.slot, 2]
        if record.status == "optimal":
            for name, limit in limits.items():
                end = record.plans[name][-1]
                assert end <= 1.01 * limit
                if record.prices[name] > 0:
                    assert end == pytest.approx(limit, rel=0.02), (record.slot, name)
    errors = [record.pacing_errors[name] for record in records[12:] for name in ("north", "shops")]
    assert 0 < max(map(abs, errors)) < 0.12
    # A plan of one hour says nothing about the next one.
    assert {record.pacing_errors["rush"] for record in records} == {0.0}


def test_a_replayed_day_keeps_every_limit_and_rule_and_is_near_the_optimum(days, runs) -> None:
    setting, north, shop = days
    run = runs["hourly"]
    outcomes, limits = run.outcomes, {each.name: each.limit for each in setting.campaign.limits.budgets}
    assert outcomes.cost[north].sum() >= 0.98 * limits["north"]
    assert outcomes.cost[shop].sum() >= 0.98 * limits["shops"]
    check_plans([found.record for _, found in run.prices], limits)
    customer = outcomes.side == "customer"
    hourly = np.bincount(outcomes.at[~customer].astype(int), weights=outcomes.cost[~customer])
    assert (hourly <= limits["rush"]).all()
    assert (hourly > 0.95 * limits["rush"]).sum() >= 3
    assert outcomes.cost[north].sum() <= limits["north"]
    assert outcomes.cost[shop].sum() <= limits["shops"]
    ages = np.array(setting.attributes["customer"].read("x_age", outcomes.account_id[customer].tolist()))
    assert outcomes.incentive[customer][ages < 18].max() <= 100
    _, paid = np.unique(outcomes.account_id[outcomes.incentive > 0], return_counts=True)
    assert paid.max() <= 30
    assert value_within_budget(run) >= 0.98 * optimum(setting)


def test_the_policies_of_a_comparison_and_the_flat_mixture_keep_further_budgets_and_rules(days, runs) -> None:
    setting, north, shop = days
    campaign, day = setting.campaign, setting.day
    limits = {each.name: each.limit for each in campaign.limits.budgets}
    for name, run in runs.items():
        for inside, limit in ((north, limits["north"]), (shop, limits["shops"])):
            assert run.outcomes.cost[inside].sum() <= limit, name
    # The best flat mixture, from the definitions: a level that a minor may not be given becomes the one below it.
    value, costs = [], []
    for side, levels in ((side, np.array(campaign.terms(side).levels)) for side in SIDES):
        mine = day.side == side
        response = setting.outcomes.truth[side].of(day.account_id[mine]).response.astype(float)
        level = np.repeat(np.arange(levels.size)[:, None], mine.sum(), axis=1)
        if side == "customer":
            ages = np.array(setting.attributes[side].read("x_age", day.account_id[mine].tolist()))
            level[:, ages < 18] = np.minimum(level[:, ages < 18], 2)
        given = response[level, np.arange(mine.sum())]
        paid = levels[level] * (given if side == "customer" else 1.0)
        value.append(campaign.terms(side).weight * given.sum(axis=1))
        inside = [np.ones(mine.sum()), north[mine], shop[mine], np.full(mine.sum(), side == "merchant")]
        costs.append(np.array([(paid * each).sum(axis=1) for each in inside]))
    most = [campaign.budget.limit, limits["north"], limits["shops"], 24 * limits["rush"]]
    one = np.repeat(np.eye(2), [len(each) for each in value], axis=1)
    exact = optimize.linprog(-np.concatenate(value), np.hstack(costs), most, one, np.ones(2))
    found = attainable(setting)
    assert found.flat == pytest.approx(-exact.fun, rel=1e-5)
    assert found.lowest < found.flat < found.best
