"""Budgets of one side have prices of their own: exact against HiGHS, kept over a day, and worth their price."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import optimize, stats

from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import NotCertified
from shadowprice.limits import GroupBudget, Limits
from shadowprice.pacing.pacers import CampaignState, Pacer, make_pacer
from shadowprice.pacing.replay.compare import Setting, optimum, run_pacer, value_within_budget
from shadowprice.pacing.resolve import Resolution
from shadowprice.pacing.window import solve_window

SEEDS = range(4)
LEFT = 50_000.0
SHARES: dict[Side, float] = {"customer": 0.3, "merchant": 1.3}
"""Limits of the sides: the cheapest levels, and this share of what they would spend on top. The first binds."""
ALL = 0.4
"""Likewise of the main budget, which binds too."""


def campaign_cost(setting: Setting, side: Side, curves: Curves) -> np.ndarray:
    return setting.campaign.terms(side).cost(curves.response)


def with_limits(campaign: Campaign, **limits: int) -> Campaign:
    budgets = tuple(GroupBudget(name=f"{side}s", limit=limit, side=side) for side, limit in limits.items())
    return replace(campaign, limits=Limits(budgets=budgets))


def paid(setting: Setting, pacer: Pacer) -> tuple[dict[str, float], float]:
    """Minor units paid on each side, and the value within the budgets."""
    run = run_pacer(setting, pacer, hard_stop=True, batch=512)
    spent = {side: float(run.outcomes.cost[run.outcomes.side == side].sum()) for side in setting.campaign.sides}
    return spent, value_within_budget(run)


@dataclass
class Blind(Pacer):
    """The hourly pacer that does not know the budgets of sides; the hard stop keeps them all the same."""

    inner: Pacer

    def moments(self, hours: int) -> Sequence[float]:
        return self.inner.moments(hours)

    def price(self, state: CampaignState) -> Resolution | None:
        plain = replace(state.campaign, limits=Limits())
        newest = state.newest and replace(state.newest, prices={plain.budget.name: state.newest.prices["budget"]})
        found = self.inner.price(replace(state, campaign=plain, newest=newest))
        if found is None:
            return None
        prices = {**found.record.prices, **{each.name: 0.0 for each in state.campaign.group_budgets}}
        return replace(found, record=replace(found.record, prices=prices, sha256="").sealed())


@pytest.mark.parametrize("exploration", [0.0, 0.02])
@pytest.mark.parametrize("seed", range(3))
def test_the_window_is_the_linear_program_with_a_row_for_each_budget(
    make_setting: Callable[..., Setting], seed: int, exploration: float
) -> None:
    setting = make_setting(seed)
    curves, ahead = _sample(setting)
    free = solve_window(setting.campaign, curves, ahead, LEFT)
    limits, left = {}, 0.0
    for side, share in SHARES.items():
        cheapest = campaign_cost(setting, side, curves[side]).min(axis=0).mean()
        limits[side] = round((cheapest + share * (free.spend[side] - cheapest)) * ahead[side])
        left += (cheapest + ALL * (free.spend[side] - cheapest)) * ahead[side]
    campaign = replace(with_limits(setting.campaign, **limits), exploration=exploration)
    found = solve_window(campaign, curves, ahead, left)
    value, rows, bounds = [], [], [left, *limits.values()]
    for place, side in enumerate(curves):
        terms, times = campaign.terms(side), ahead[side] / curves[side].accounts
        cost = times * terms.cost(curves[side].response)
        gain = times * terms.value(curves[side].response)
        value.append((1 - exploration) * gain.ravel())
        other = exploration * float(cost.mean(axis=0).sum())
        row = np.zeros((3, cost.size))
        for line in (0, 1 + place):
            row[line] = (1 - exploration) * cost.ravel()
            bounds[line] -= other
        rows.append(row)
    sums = np.zeros((sum(curves[side].accounts for side in curves), sum(map(np.size, value))))
    account = column = 0
    for mine in curves.values():
        levels, count = mine.response.shape
        for level in range(levels):
            sums[account + np.arange(count), column + level * count + np.arange(count)] = 1.0
        account, column = account + count, column + levels * count
    solved = optimize.linprog(
        -np.concatenate(value), np.hstack(rows), bounds, sums, np.ones(account), bounds=(0, 1), method="highs"
    )
    chosen = found.primal - exploration * sum(
        ahead[side] * float(campaign.terms(side).value(each.response).mean()) for side, each in curves.items()
    )
    assert chosen == pytest.approx(-solved.fun, rel=1e-8)
    assert found.dual == pytest.approx(found.primal, rel=1e-9)
    np.testing.assert_allclose(found.allocation.prices, -solved.ineqlin.marginals, rtol=1e-6, atol=1e-9)
    assert (found.allocation.prices[:2] > 0).all()


def _sample(setting: Setting):
    curves = {side: setting.model[side].curves.take(np.arange(300)) for side in setting.campaign.sides}
    return curves, {"customer": 900.0, "merchant": 600.0}


@pytest.fixture(scope="module")
def days(make_setting: Callable[..., Setting]):
    """Days whose customers may cost 70 % of what they would, with the spend and value of each pacer."""
    found = []
    for seed in SEEDS:
        free = make_setting(seed, requests=10_000)
        spent, _ = paid(free, make_pacer("hourly"))
        setting = replace(free, campaign=with_limits(free.campaign, customer=round(0.7 * spent["customer"])))
        found.append((setting, paid(setting, make_pacer("hourly")), paid(setting, Blind(make_pacer("hourly")))))
    return found


def test_the_hourly_price_keeps_every_budget_to_its_plan_and_near_the_optimum_under_the_same_limits(days) -> None:
    for setting, (spent, value), _ in days:
        (customers,) = setting.campaign.group_budgets
        assert spent["customer"] == pytest.approx(customers.limit, rel=3e-3)
        assert sum(spent.values()) == pytest.approx(setting.campaign.budget.limit, rel=3e-3)
        assert spent["customer"] <= customers.limit
        assert value >= 0.98 * optimum(setting)


def test_a_priced_budget_is_worth_more_than_one_that_only_the_hard_stop_keeps(days) -> None:
    gain = [value / blind - 1 for _, (_, value), (_, blind) in days]
    low, _ = stats.t.interval(0.95, len(gain) - 1, np.mean(gain), stats.sem(gain))
    assert low > 0.01, gain


def test_a_budget_that_is_used_up_leaves_the_other_side_its_money(make_setting: Callable[..., Setting]) -> None:
    setting = make_setting(0)
    curves, ahead = _sample(setting)
    campaign = with_limits(setting.campaign, customer=10)
    found = solve_window(campaign, curves, ahead, LEFT, {"customers": -500.0})
    cheapest = campaign.terms("customer").cost(curves["customer"].response).min(axis=0).mean()
    assert found.spend["customer"] == pytest.approx(cheapest, rel=1e-4)
    assert found.spend["merchant"] > 20


def test_a_spend_that_does_not_tell_the_sides_apart_is_not_priced(make_setting: Callable[..., Setting]) -> None:
    setting = make_setting(0)
    campaign = with_limits(setting.campaign, customer=10_000)
    state: list[CampaignState] = []

    class Kept(Blind):
        def price(self, given: CampaignState) -> Resolution | None:
            state.append(given)
            return super().price(given)

    run_pacer(replace(setting, campaign=campaign), Kept(make_pacer("hourly")))
    blind = replace(state[5], spend=replace(state[5].spend, spent_of={}))
    with pytest.raises(NotCertified, match="budget 'customers' is of side 'customer'"):
        make_pacer("hourly").price(blind)
