"""A limit on a second outcome: the program with one row more, by HiGHS, and the decision at its prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from scipy import optimize
from scipy.sparse import csr_matrix

from shadowprice.arms import Arm, Experiment
from shadowprice.campaign import Budget, Campaign, Side, Terms
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput, NotCertified
from shadowprice.limits import Asked, GroupBudget, Limits
from shadowprice.lists.money import counted_by_hold
from shadowprice.pacing.window import solve_window
from shadowprice.policy import Choices

LEVELS, COMPLAINTS = (0, 100, 200, 400), np.array([0.01, 0.02, 0.03, 0.09])
GUARD = GroupBudget(name="calm", limit=0.022, form="per_account", outcome="x_complaints")
SOME = replace(GUARD, name="north", limit=0.022, where='account.c_region == "north"')


def campaign_with(*budgets: GroupBudget, limit: int = 9000) -> Campaign:
    return Campaign(
        name="spring",
        sides={"customer": Terms(levels=LEVELS), "merchant": Terms(levels=LEVELS)},
        budget=Budget(limit=limit),
        starts_at=datetime(2026, 3, 2, tzinfo=UTC),
        limits=Limits(budgets=budgets),
    )


def curves_with(seed: int = 0, accounts: int = 40) -> dict[Side, Curves]:
    rng = np.random.default_rng(seed)
    made: dict[Side, Curves] = {}
    for side, guard in (("customer", COMPLAINTS), ("merchant", COMPLAINTS[::-1].copy())):
        response = np.cumsum(rng.gamma(1.0, 0.07, (len(LEVELS), accounts)), axis=0).clip(max=0.95)
        bits = (1 + 2 * (np.arange(accounts) % 2)).astype(np.uint32)
        made[side] = Curves(np.array(LEVELS), response, bits=bits, guards={"x_complaints": guard})
    return made


def program(
    campaign: Campaign, curves: dict[Side, Curves], ahead: dict[Side, float], left: float
) -> tuple[float, list[float], list[float]]:
    """Value, used amounts of each row and prices by HiGHS, from the definitions."""
    value, money, units = [], [], [[] for _ in campaign.limits.budgets]
    for side, mine in curves.items():
        times, response = ahead[side] / mine.accounts, mine.response.astype(np.float64)
        value.append(times * response)
        money.append(times * response * np.array(LEVELS)[:, None])
        for place, each in enumerate(campaign.limits.budgets):
            inside = (mine.bits >> np.uint32(place) & 1).astype(float)
            net = mine.guards["x_complaints"][:, None] - each.limit
            units[place].append(times * inside * np.broadcast_to(net, response.shape))
    columns = sum(part.shape[1] for part in value)
    matrix = np.array([np.concatenate(part, axis=1).ravel() for part in (money, *units)])
    account = np.tile(np.arange(columns), len(LEVELS))
    equal = csr_matrix((np.ones(account.size), (account, np.arange(account.size))))
    upper = [left, *[0.0] * len(units)]
    gain = np.concatenate(value, axis=1).ravel()
    solved = optimize.linprog(-gain, matrix, upper, equal, np.ones(columns), bounds=(0, 1), method="highs")
    assert solved.status == 0, solved.message
    return -solved.fun, (matrix @ solved.x).tolist(), (-solved.ineqlin.marginals).tolist()


def dual_at(
    prices: Mapping[str, float],
    campaign: Campaign,
    curves: dict[Side, Curves],
    ahead: dict[Side, float],
    left: float,
) -> float:
    """Upper bound on the value at some prices, from the definition."""
    total = prices["budget"] * left
    for side, mine in curves.items():
        score = mine.response.astype(np.float64) * (1 - prices["budget"] * np.array(LEVELS)[:, None])
        for place, each in enumerate(campaign.limits.budgets):
            inside = mine.bits >> np.uint32(place) & 1
            score -= prices[each.name] * inside * (mine.guards["x_complaints"][:, None] - each.limit)
        total += ahead[side] / mine.accounts * score.max(axis=0).sum()
    return float(total)


@pytest.mark.parametrize("seed", range(4))
def test_a_limit_of_an_outcome_is_one_more_row_of_the_linear_program(seed: int) -> None:
    campaign, curves = campaign_with(GUARD, SOME), curves_with(seed)
    ahead: dict[Side, float] = {"customer": 300.0, "merchant": 200.0}
    found = solve_window(campaign, curves, ahead, 9000.0)
    value, used, prices = program(campaign, curves, ahead, 9000.0)
    assert found.primal == pytest.approx(value, rel=1e-8)
    assert found.dual == pytest.approx(value, rel=1e-8)
    limits, counted = np.array([0.0, GUARD.limit, SOME.limit]), np.array([0.0, 500.0, 250.0])
    np.testing.assert_allclose(found.allocation.spend, used + limits * counted, rtol=1e-6)
    assert dual_at(found.prices, campaign, curves, ahead, 9000.0) == pytest.approx(value, rel=1e-8)
    # Seed 1 has more than one optimal price of the smaller group.
    for mine, theirs in zip(campaign.priced, prices, strict=True):
        assert found.prices[mine] == pytest.approx(theirs, rel=0.1 if seed == 1 else 1e-5, abs=1e-8), mine
    assert found.prices["calm"] > 0
    assert (found.prices["north"] > 0) == (seed < 2)
    # The expected sum is in units of the outcome, of whole accounts: those at a tie differ by one column each.
    for name, net, limit, requests in zip(campaign.priced[1:], used[1:], limits[1:], counted[1:], strict=True):
        of_column = np.ptp(COMPLAINTS) * max(ahead.values()) / 40
        assert sum(found.spend_of[name].values()) == pytest.approx(net + limit * requests, abs=3 * of_column)


def test_requests_that_explore_and_are_held_count_towards_the_limit() -> None:
    plain, curves = campaign_with(replace(GUARD, limit=0.03)), curves_with()
    arms = (Arm(name="policy", kind="policy", share=7000), Arm(name="held", kind="holdout", share=3000))
    campaign = replace(plain, exploration=0.1, experiment=Experiment(arms=arms, salt="spring"))
    found = solve_window(campaign, curves, {"customer": 100.0, "merchant": 100.0}, 9000.0)
    assert sum(found.spend_of["calm"].values()) == pytest.approx(0.03 * 200, abs=3 * np.ptp(COMPLAINTS) * 2.5)
    assert found.prices["calm"] > 0


def test_a_decision_pays_the_prices_of_money_and_of_the_outcome() -> None:
    campaign, curves = campaign_with(GUARD, SOME), curves_with()["customer"]
    prices = [0.0007, 0.9, 0.5]
    chosen = Choices.marked(campaign, "customer", curves).decide(prices, 0.5, range(curves.accounts)).level
    response = curves.response.astype(np.float64)
    north = np.arange(curves.accounts) % 2
    score = response * (1 - prices[0] * np.array(LEVELS)[:, None])
    score -= COMPLAINTS[:, None] * (prices[1] + prices[2] * north)
    assert chosen.tolist() == score.argmax(axis=0).tolist()
    assert len(set(chosen.tolist())) > 1


def test_a_limit_below_the_least_outcome_is_refused_with_what_is_possible() -> None:
    with pytest.raises(NotCertified, match=r"'calm' allows 0.005 x_complaints a request.*have 0.01; raise the limit"):
        solve_window(campaign_with(replace(GUARD, limit=0.005)), curves_with(), {"customer": 9.0, "merchant": 9.0}, 9e3)


def test_a_limit_without_its_outcome_is_refused_and_one_of_another_side_is_not() -> None:
    campaign, bare = campaign_with(GUARD), replace(curves_with()["customer"], guards={})
    with pytest.raises(InvalidInput, match="of side 'customer' is not known, and limit 'calm' needs it"):
        Choices.marked(campaign, "customer", bare)
    with pytest.raises(InvalidInput, match="'calm' needs it"):
        solve_window(campaign, {"customer": bare}, {"customer": 9.0}, 9e3)
    other = campaign_with(replace(GUARD, side="merchant"))
    assert not Choices.marked(other, "customer", bare).charges[1].any()


def test_the_ledger_counts_money_alone_and_a_list_still_counts_the_held_amounts() -> None:
    asked = Asked("ada", "customer", "", "unassigned")
    assert campaign_with(GUARD).limits.sums(asked, datetime(2026, 3, 2, tzinfo=UTC)) == ()
    assert GUARD.bound.most_amount is None
    assert counted_by_hold(campaign_with(GUARD)).sides["customer"].cost_basis == "on_grant"
    mean = GroupBudget(name="mean", limit=20.0, form="per_account")
    assert counted_by_hold(campaign_with(mean)).sides["customer"].cost_basis == "on_response"


def test_a_campaign_keeps_its_limit_in_its_file_and_one_of_money_has_the_file_that_it_always_had() -> None:
    campaign = campaign_with(GUARD, GroupBudget(name="mean", limit=20.0, form="per_account"))
    written = campaign.to_dict()["limits"]["budgets"]
    assert written[0]["outcome"] == "x_complaints"
    assert written[1] == {"name": "mean", "limit": 20.0, "form": "per_account"}
    assert Campaign.from_dict(campaign.to_dict()) == campaign


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": "complaints"}, "must be a column of numbers of the outcomes"),
        ({"outcome": 3}, "must be a column of numbers of the outcomes"),
        ({"form": "total", "limit": 5}, "set form to per_account"),
        ({"form": "total", "limit": 0.5}, "no service counts its sum: set form to per_account"),
        ({"period": "day"}, "the sum of a day, week or month divided by its requests as limit, and leave period"),
        ({"campaigns": ("spring", "fall")}, "leave period and campaigns out"),
        ({"sense": "at_least"}, "a mean is an upper limit"),
    ],
)
def test_other_limits_of_an_outcome_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        replace(GUARD, **change)  # type: ignore[arg-type]
