"""A simulated day of percentages: orders are drawn, and their payments have the expected mean."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from shadowprice.campaign import Budget, Campaign, Percent, Terms
from shadowprice.curves import Curves
from shadowprice.pacing.replay.day import Day
from shadowprice.pacing.replay.gains import compare
from shadowprice.pacing.replay.outcomes import NamedCurves, OutcomeModel
from shadowprice.pacing.window import least_cost, solve_window

N = 20_000
SHARES = (None, Percent(share=10), Percent(share=20, least=3000))
TERMS = Terms(levels=(0, 1, 2), offers=("a", "b", "c"), amounts=(0, 500, 1000), percent=SHARES, ordered=False)
CAMPAIGN = Campaign(
    name="percent",
    sides={"customer": TERMS},
    budget=Budget(name="b", limit=300_000),
    starts_at=datetime(2026, 5, 1, tzinfo=UTC),
)


@pytest.fixture(scope="module")
def curves() -> Curves:
    dice = np.random.default_rng(5)
    response = np.sort(dice.uniform(0.1, 0.9, (3, N)), axis=0).astype(np.float32)
    amounts = np.stack([dice.uniform(7.5, 9, N), dice.uniform(0.2, 1.0, N)]).astype(np.float32)
    return Curves(np.array([0, 1, 2]), response, amounts=amounts)


@pytest.fixture(scope="module")
def model(curves: Curves) -> OutcomeModel:
    return OutcomeModel(CAMPAIGN, {"customer": NamedCurves(np.array([f"c{i}" for i in range(N)]), curves)}, seed=1)


def test_what_is_drawn_costs_in_the_mean_what_is_expected(curves: Curves, model: OutcomeModel) -> None:
    names = np.array([f"c{i}" for i in range(N)])
    day = Day(np.array([f"r{i}" for i in range(N)]), names, np.full(N, "customer"), np.zeros(N), 24)
    level = np.arange(N) % 3
    drawn = model.draw(day, level)
    expected = TERMS.cost(curves.response, curves.amounts)[level, np.arange(N)]
    np.testing.assert_allclose(drawn.expected_cost, expected)
    for number, cap in enumerate(TERMS.amounts):
        mine = level == number
        error = drawn.cost[mine].std() / np.sqrt(mine.sum())
        assert abs(drawn.cost[mine].mean() - expected[mine].mean()) <= 4 * error + 0.5
        assert drawn.cost[mine].max() <= cap
        # Nothing is paid without a response; below the least spend not with one either.
        assert not drawn.cost[mine & (drawn.response == 0)].any()
    paid = drawn.cost[(level == 2) & (drawn.response == 1)]
    assert (paid == 0).any()
    assert paid[paid > 0].min() >= 600
    # The money that a day added over its lowest levels is what was paid.
    gained = compare(CAMPAIGN, drawn, lambda _, mine: curves.take(mine), lambda _, mean: mean)["lowest"]
    assert gained.whole.cost.value == pytest.approx(drawn.cost.sum(), rel=1e-9)


def test_the_same_request_has_the_same_order_under_every_policy(curves: Curves, model: OutcomeModel) -> None:
    day = Day(np.array(["r"]), np.array(["c7"]), np.array(["customer"]), np.zeros(1), 24)
    again = replace(model)
    assert model.draw(day, np.array([2])).cost == again.draw(day, np.array([2])).cost


def test_the_cheapest_way_and_the_solve_follow_the_expected_payment(curves: Curves) -> None:
    ahead = {"customer": float(N)}
    dear = replace(TERMS, percent=(Percent(share=5), *SHARES[1:]), amounts=(200, 500, 1000))
    cost = dear.cost(curves.response, curves.amounts)
    campaign = replace(CAMPAIGN, sides={"customer": dear})
    assert least_cost(campaign, {"customer": curves}, ahead) == pytest.approx(cost.min(axis=0).sum())
    solved = solve_window(CAMPAIGN, {"customer": curves}, ahead, 300_000)
    assert solved.allocation.spend[0] == pytest.approx(300_000, rel=1e-6)
