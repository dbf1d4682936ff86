"""The solve of a list: exact spend, against an independent solver, and all that holds of a decision."""

import itertools
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import linprog
from scipy.stats import chisquare

from shadowprice.allocation.spend_ratio import HeldOutSpend
from shadowprice.arms import COMPANY, Arm, Experiment, Holdout
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput, NotCertified
from shadowprice.limits import Cap, GroupBudget, Limits, Rule
from shadowprice.limits.attributes import Attributes
from shadowprice.limits.coverage import SideRequests
from shadowprice.limits.usage import Usage
from shadowprice.lists.money import InHand
from shadowprice.lists.parts import SideList
from shadowprice.lists.solve import AccountList
from shadowprice.pacing.spend import CapUse
from shadowprice.policy import Policy

LEVELS = (0, 50, 130, 300)
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def make_campaign(limit: int, **changes) -> Campaign:
    fields = {"name": "spring", "sides": {"customer": Terms(levels=LEVELS)}, "budget": Budget(limit=limit)}
    return Campaign(**fields | {"starts_at": NOW} | changes)


def make_curves(n: int, seed: int, flat: bool = False) -> Curves:
    rng = np.random.default_rng(seed)
    start = rng.beta(1, 6, 1 if flat else n)
    steps = rng.beta(1, 12, (3, start.size))
    response = np.minimum(np.vstack([start, start + np.cumsum(steps, axis=0)]), 1.0)
    return Curves(np.array(LEVELS), np.broadcast_to(response, (4, n)))


def make_list(campaign: Campaign, curves: Curves, attributes=None, **money) -> AccountList:
    names = pa.array([f"a{i}" for i in range(curves.accounts)])
    side = SideList(names, curves, np.ones(curves.accounts, dtype=bool))
    in_hand = InHand(money.pop("left", campaign.budget.limit), **money)
    return AccountList(campaign, campaign.coverage(attributes), "monday", {"customer": side}, in_hand, NOW)


def decide(accounts: AccountList):
    record = accounts.solve(1, "m1")
    return record, pa.concat_tables(accounts.rows(record)).to_pandas()


def optimum(value, cost, budget):
    """Value and spend of the linear program, by HiGHS."""
    levels, n = value.shape
    solved = linprog(
        -value.ravel(),
        A_ub=cost.ravel()[None],
        b_ub=[budget],
        A_eq=np.tile(np.eye(n), levels),
        b_eq=np.ones(n),
        bounds=(0, 1),
        method="highs",
    )
    return -solved.fun, float(cost.ravel() @ solved.x)


@pytest.mark.parametrize("seed", range(12))
def test_a_small_list_is_the_optimum_of_the_linear_program_rounded_within_the_budget(seed: int) -> None:
    rng = np.random.default_rng(seed)
    curves = make_curves(int(rng.integers(4, 8)), seed)
    cost = np.array(LEVELS)[:, None] * curves.response.astype(np.float64)
    budget = int(rng.uniform(0.05, 0.9) * cost[-1].sum())
    record, rows = decide(make_list(make_campaign(budget), curves))
    value, spend = optimum(curves.response.astype(np.float64), cost, budget)
    assert record.primal == pytest.approx(value, rel=1e-7)
    assert record.plan[-1] == pytest.approx(spend, rel=1e-7)
    assert rows["expected_cost"].sum() <= budget + 1e-6
    columns = np.arange(curves.accounts)
    every = np.array(list(itertools.product(range(4), repeat=curves.accounts)))
    fits = cost[every, columns].sum(axis=1) <= budget
    best = curves.response[every, columns].sum(axis=1)[fits].max()
    # Rounding costs one step at most, at the price of the budget.
    step = np.diff(cost, axis=0).max()
    assert best + 1e-6 >= rows["value"].sum() >= best - record.prices["budget"] * step - 1e-9


@pytest.mark.parametrize("flat", [False, True], ids=["personal", "flat"])
@pytest.mark.parametrize("held", [False, True], ids=["expected cost", "held"])
@pytest.mark.parametrize("seed", range(3))
def test_the_spend_of_a_list_equals_the_budget_to_the_unit(seed: int, held: bool, flat: bool) -> None:
    curves = make_curves(2000, seed, flat)
    budget = int(np.random.default_rng(seed).uniform(3_000, 60_000))
    record, rows = decide(make_list(make_campaign(budget), curves, held=held))
    used = rows["incentive"].sum() if held else rows["expected_cost"].sum()
    # What is held is whole incentives, and less than the smallest is left; of equal curves all steps are alike.
    unit = 50 if held else float(np.ptp(rows["expected_cost"])) if flat else 1.0
    assert budget - unit < used <= budget + 1e-6
    assert record.plan[-1] == pytest.approx(budget, rel=1e-9)
    assert rows["reason"].isin(["tie", "optimal"]).all()


@pytest.mark.parametrize("held", [False, True], ids=["expected cost", "held"])
def test_a_list_keeps_what_is_left_of_the_sum_of_a_second_outcome(held: bool) -> None:
    contacts = np.array([0.01, 0.02, 0.05, 0.15])
    curves = replace(make_curves(2000, 4), guards={"x_contacts": contacts})
    _, rows = decide(make_list(make_campaign(40_000), curves, held=held))
    guard = GroupBudget(name="calm", limit=70.5, outcome="x_contacts", period="month")
    campaign = make_campaign(40_000, limits=Limits(budgets=(guard,)))
    limit = 0.7 * contacts[rows["level"]].sum()
    record, rows = decide(make_list(campaign, curves, held=held, of_budgets={"calm": limit}))
    # Whole levels: less than the largest step is left.
    assert limit - 0.1 < contacts[rows["level"]].sum() <= limit + 1e-9
    assert record.prices["calm"] > 0
    with pytest.raises(
        NotCertified, match=r"'calm' allows 19 x_contacts for the requests to come, and .* have 20; raise"
    ):
        make_list(campaign, curves, held=held, of_budgets={"calm": 19.0}).solve(1, "m1")


def test_a_budget_that_does_not_bind_stays_unspent_and_the_profit_floor_holds() -> None:
    curves = make_curves(500, 0)
    record, rows = decide(make_list(make_campaign(10**9), curves))
    assert record.prices["budget"] == 0
    assert rows["level"].to_numpy().tolist() == curves.response.argmax(axis=0).tolist()
    sides = {"customer": Terms(levels=LEVELS, weight=400.0)}
    campaign = make_campaign(10**9, sides=sides, objective="margin", least_return=1.5)
    record, rows = decide(make_list(campaign, curves))
    cost = np.array(LEVELS)[:, None] * curves.response
    assert record.prices["budget"] == 1.5
    assert rows["level"].to_numpy().tolist() == (400 * curves.response - 1.5 * cost).argmax(axis=0).tolist()


WEIGHTS = (1.0, 2.0, 4.0, 1.0)


def full_campaign() -> Campaign:
    return make_campaign(
        60_000,
        exploration=0.1,
        exploration_weights={"customer": dict(zip(make_campaign(1).offer_ids["customer"], WEIGHTS, strict=True))},
        experiment=Experiment(
            arms=(Arm(name="out", kind="holdout", share=1000), Arm(name="try", kind="explore", share=500)), salt="s"
        ),
        holdout=Holdout(key="company", share=700),
        limits=Limits(
            budgets=(GroupBudget(name="north", limit=9_000, where="account.c_region == 'north'"),),
            caps=(Cap(name="daily", per="account", count=1, period="day"),),
        ),
        rules=(Rule(name="young", expression="account.x_age < 18 && offer.incentive > 100", side="customer"),),
    )


@pytest.fixture(scope="module")
def full():
    """A list under arms, exploration, a further budget, a cap that some have used, and a rule."""
    n, campaign, curves = 6000, full_campaign(), make_curves(6000, 4)
    names, age = [f"a{i}" for i in range(n)], np.arange(n) % 60
    region = ["north" if i % 3 == 0 else "south" for i in range(n)]
    attributes = {"customer": Attributes.of(names, {"c_region": region, "x_age": age.tolist()})}
    caps = {"daily": CapUse.of({f"a{i}": Usage(50, 1) for i in range(0, n, 7)}, {})}
    accounts = make_list(campaign, curves, attributes, of_budgets={"north": 9_000.0}, caps=caps)
    record, rows = decide(accounts)
    rows["north"], rows["age"] = np.array(region) == "north", age
    rows["used"] = np.arange(n) % 7 == 0
    return campaign, curves, attributes, record, rows


def test_budgets_caps_rules_and_arms_hold_of_a_list(full) -> None:
    campaign, _, _, record, rows = full
    assert 60_000 - 1 < rows["expected_cost"].sum() <= 60_000 + 1e-6
    assert 9_000 - 30 < rows.loc[rows["north"], "expected_cost"].sum() <= 9_000 + 1e-6
    assert min(record.prices.values()) > 0
    assert rows.loc[rows["age"] < 18, "incentive"].max() <= 100
    assert rows.loc[rows["used"], "incentive"].max() == 0
    capped = rows["reason"] == "capped"
    assert capped.sum() > 50
    assert rows.loc[capped, "used"].all()
    held = rows[rows["arm"].isin(["out", COMPANY])]
    assert 850 < len(held) < 1100
    assert (held[["level", "propensity"]] == [0, 1.0]).all(axis=None)
    assert (held["reason"] == "holdout").all()
    names = rows["account_id"].tolist()
    expected = np.where(campaign.holdout.holds(names), COMPANY, campaign.experiment.arm_of(names))
    assert rows["arm"].tolist() == expected.tolist()


def test_exploration_of_a_list_follows_the_weights_and_has_its_propensity(full) -> None:
    _, _, _, _, rows = full
    open_to_all = (rows["age"] >= 18) & ~rows["used"]
    tried = rows[(rows["arm"] == "try") & open_to_all]
    law = np.array(WEIGHTS) / sum(WEIGHTS)
    assert chisquare(tried["level"].value_counts().reindex(range(4)), len(tried) * law).pvalue > 1e-3
    np.testing.assert_allclose(tried["propensity"], law[tried["level"]])
    drawn = rows[(rows["arm"] == "unassigned") & open_to_all & (rows["reason"] == "explored")]
    assert chisquare(drawn["level"].value_counts().reindex(range(4)), len(drawn) * law).pvalue > 1e-3
    most = drawn["propensity"].to_numpy() - 0.1 * law[drawn["level"]]
    assert set(most.round(9)) == {0.0, 0.9}
    chosen = rows[(rows["arm"] == "unassigned") & open_to_all & (rows["reason"] == "optimal")]
    # One or two accounts took the rest of the money, by the only level that they were left.
    lifted = chosen["propensity"] == 1.0
    assert lifted.sum() <= 2
    np.testing.assert_allclose(chosen["propensity"][~lifted], 0.9 + 0.1 * law[chosen["level"][~lifted]])


def test_a_list_is_decided_by_the_policy_at_its_price(full) -> None:
    campaign, curves, attributes, record, rows = full
    policy = Policy(campaign, campaign.coverage(attributes), record.of(campaign.priced), record.tie_share)
    free = np.flatnonzero(~rows["used"] & (rows["arm"] == "unassigned") & (rows["reason"] != "explored"))
    asked = policy.eligible(SideRequests("customer", rows["account_id"].iloc[free].tolist()))
    levels = policy.choices(asked, curves.take(free))
    chosen = levels.decide(policy.prices, policy.tie_share, rows["request_id"].iloc[free].tolist()).level
    # One or two accounts took the rest of the money.
    assert (chosen != rows["level"].to_numpy()[free]).sum() <= 2


def test_a_rule_that_forbids_all_levels_makes_an_account_ineligible_by_name() -> None:
    campaign = make_campaign(5_000, rules=(Rule(name="shut", expression="account.x_age < 18"),))
    names = [f"a{i}" for i in range(100)]
    attributes = {"customer": Attributes.of(names, {"x_age": list(range(100))})}
    _, rows = decide(make_list(campaign, make_curves(100, 1), attributes))
    shut = rows[rows["reason"] == "ineligible"]
    assert shut["account_id"].tolist() == names[:18]
    assert (shut[["level", "incentive", "expected_cost"]] == [-1, 0, 0]).all(axis=None)


def test_the_same_list_is_decided_alike_and_another_list_draws_anew() -> None:
    campaign, curves = make_campaign(20_000, exploration=0.2), make_curves(1000, 2)
    _, one = decide(make_list(campaign, curves))
    _, again = decide(make_list(campaign, curves))
    assert one.drop(columns=["propensities", "basis"]).equals(again.drop(columns=["propensities", "basis"]))
    other = make_list(campaign, curves)
    other.name = "tuesday"
    _, rows = decide(other)
    assert not set(rows["request_id"]) & set(one["request_id"])
    assert (rows["reason"] != one["reason"]).any()


def test_a_list_that_cannot_be_paid_or_counted_is_refused_by_name() -> None:
    curves = make_curves(300, 3)
    costly = replace(make_campaign(100), exploration=0.9)
    with pytest.raises(NotCertified, match="explore or are held out"):
        decide(make_list(costly, curves))
    limits = Limits(caps=(Cap(name="shop", per="partner", count=1),))
    with pytest.raises(InvalidInput, match="no partners"):
        make_list(make_campaign(100, limits=limits), curves)


def held_out(ratio: float) -> dict[str, HeldOutSpend]:
    """Spend of held-out rows that is ``ratio`` times the expected one at price 0, and 1.5 times at a high price."""
    columns = {"expected": (10.0, 10.0), "paid": (10.0 * ratio, 15.0), "error": (0.001, 0.001)}
    return {"customer": HeldOutSpend(price=(0.0, 0.02), rows=5_000, **columns)}


def test_a_list_uses_the_money_that_its_incentives_really_cost() -> None:
    curves = make_curves(3_000, 5)
    budget = 60_000
    names = pa.array([f"a{i}" for i in range(curves.accounts)])
    side = SideList(names, curves, np.ones(curves.accounts, dtype=bool))
    campaign = make_campaign(budget)
    corrected = AccountList(
        campaign, campaign.coverage(), "monday", {"customer": side}, InHand(budget), NOW, spend=held_out(1.2)
    )
    record, rows = decide(corrected)
    plain, before = decide(make_list(campaign, curves))
    # The ratio is that at the list's own price.
    assert record.spend_ratio == pytest.approx(np.interp(record.prices["budget"], (0, 0.02), (1.2, 1.5)), rel=2e-3)
    assert plain.spend_ratio == 1.0
    assert record.prices["budget"] > plain.prices["budget"]
    assert rows["expected_cost"].sum() == pytest.approx(budget, rel=1e-3)
    assert record.plan[-1] == pytest.approx(budget, rel=1e-3)
    assert rows["expected_cost"].sum() <= budget + 1e-6
    uncorrected = np.array(LEVELS)[rows["level"]] @ rows["response"]
    assert uncorrected == pytest.approx(budget / record.spend_ratio, rel=1e-3)
    assert before["expected_cost"].sum() == pytest.approx(budget, rel=1e-3)
    assert corrected.ratio.low < record.spend_ratio < corrected.ratio.high


def test_holds_are_not_corrected_and_their_expected_cost_is() -> None:
    curves = make_curves(2_000, 6)
    campaign = make_campaign(90_000)
    names = pa.array([f"a{i}" for i in range(curves.accounts)])
    side = SideList(names, curves, np.ones(curves.accounts, dtype=bool))
    money = InHand(90_000, held=True)
    accounts = AccountList(campaign, campaign.coverage(), "monday", {"customer": side}, money, NOW, spend=held_out(1.2))
    record, rows = decide(accounts)
    _, before = decide(make_list(campaign, curves, held=True))
    assert (rows["level"] == before["level"]).all()
    assert record.plan[-1] <= 90_000
    assert rows["expected_cost"].sum() == pytest.approx(record.spend_ratio * before["expected_cost"].sum())
    assert record.spend_ratio > 1.19
