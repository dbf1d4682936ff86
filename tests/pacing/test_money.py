"""Objectives in money: worths of accounts, the least return of the last unit, and the gain of deciding by margin."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, sparse

from shadowprice.arms import Arm, Experiment, Holdout
from shadowprice.campaign import Budget, Campaign, Side, Terms
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.limits import GroupBudget, Limits
from shadowprice.limits.attributes import Attributes
from shadowprice.limits.coverage import SideRequests
from shadowprice.pacing.pacers import make_pacer
from shadowprice.pacing.questions import Change, InHand
from shadowprice.pacing.replay.compare import optimum, run_pacer, score
from shadowprice.pacing.replay.run import Replay
from shadowprice.pacing.what_if import WhatIf
from shadowprice.pacing.window import solve_window
from shadowprice.policy import Choices
from shadowprice.responses import make

LEVELS: dict[Side, tuple[int, ...]] = {"customer": (0, 50, 80, 100, 200), "merchant": (0, 20, 100)}


def market(accounts: int, seed: int = 0, **terms: object) -> tuple[Campaign, dict[Side, Curves]]:
    """A campaign for margin whose customers have margins of their own, and curves of both sides."""
    rng, curves = np.random.default_rng(seed), dict[Side, Curves]()
    for side, levels in LEVELS.items():
        money = np.array(levels)[:, None] / 100
        base, slope = np.exp(rng.normal(-1.8, 0.6, accounts)), np.exp(rng.normal(-1, 0.8, accounts))
        response = -np.expm1(-base - slope * money**0.7)
        curves[side] = Curves(np.array(levels), response, np.exp(rng.normal(0, 0.8, accounts)))
    curves["customer"] = replace(curves["customer"], worth=300 * np.exp(rng.normal(0, 1, accounts)))
    campaign = Campaign(
        name="spring",
        sides={
            "customer": Terms(levels=LEVELS["customer"], worth="x_margin"),
            "merchant": Terms(levels=LEVELS["merchant"], cost_basis="on_grant", weight=250.0),
        },
        budget=Budget(name="day", limit=24 * accounts),
        starts_at=datetime(2026, 3, 1, tzinfo=UTC),
        objective="margin",
    )
    return replace(campaign, **terms), curves  # type: ignore[arg-type]


def by_highs(
    campaign: Campaign, curves: dict[Side, Curves], ahead: dict[Side, float]
) -> tuple[float, float, list[float]]:
    """Value and cost of the linear program in which unspent money keeps its least return, and its duals."""
    value, cost, mine = [], [], []
    for side, each in curves.items():
        times, terms = ahead[side] * each.shares(), campaign.terms(side)
        own = 1.0 if each.worth is None else each.worth
        value.append((terms.weight * own * each.response.astype(float) * times).T.ravel())
        paid = np.array(terms.levels)[:, None] * np.ones_like(each.response, dtype=float)
        cost.append((paid * (each.response if terms.cost_basis == "on_response" else 1.0) * times).T.ravel())
        mine.append(np.full(cost[-1].size, side == "customer"))
    v, c = np.concatenate(value), np.concatenate(cost)
    depth = [len(LEVELS[side]) for side, each in curves.items() for _ in range(each.accounts)]
    one = sparse.csr_matrix((np.ones(v.size), np.arange(v.size), np.concatenate([[0], np.cumsum(depth)])))
    one = sparse.hstack([one, sparse.csr_matrix((one.shape[0], 1))])
    groups = [np.append(np.concatenate(mine) * c, 0.0) for _ in campaign.group_budgets]
    found = optimize.linprog(
        -np.append(v, campaign.least_return),
        A_ub=np.stack([np.append(c, 1.0), *groups]),
        b_ub=[campaign.budget.limit, *(each.limit for each in campaign.group_budgets)],
        A_eq=one,
        b_eq=np.ones(one.shape[0]),
        method="highs",
    )
    return float(v @ found.x[:-1]), float(c @ found.x[:-1]), (-found.ineqlin.marginals).tolist()


@pytest.mark.parametrize("least", [0.0, 1.0, 1.7, 30.0])
@pytest.mark.parametrize("limits", [(), (GroupBudget(name="customers", limit=1200, side="customer"),)])
def test_the_solve_is_that_of_a_linear_program_in_which_unspent_money_keeps_its_return(
    least: float, limits: tuple[GroupBudget, ...]
) -> None:
    campaign, curves = market(150, limits=Limits(budgets=limits), least_return=least)
    ahead: dict[Side, float] = {"customer": 180.0, "merchant": 120.0}
    value, cost, prices = by_highs(campaign, curves, ahead)
    found = solve_window(campaign, curves, ahead, campaign.budget.limit)
    solved = found.allocation
    assert solved.status == "optimal"
    assert solved.prices[0] >= least
    np.testing.assert_allclose(solved.prices, prices, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose((found.primal, solved.spend[0]), (value, cost), rtol=1e-6)
    # Certificate and complementary slackness: money stays unspent only at the floor.
    assert found.dual == pytest.approx(found.primal, rel=1e-9)
    assert solved.gap <= 1e-9
    assert solved.violation <= 1e-12
    unspent = campaign.budget.limit - solved.spend[0]
    assert (solved.prices[0] - least) * unspent == pytest.approx(0, abs=1e-6 * campaign.budget.limit)
    if least == 30.0:
        assert unspent > 0.1 * campaign.budget.limit
        assert solved.prices[0] == least
        assert solved.tie_share == 0


def test_every_request_takes_what_returns_most_above_the_floor() -> None:
    """A brute force over the levels of each account, with no solver."""
    campaign, curves = market(200, least_return=2.0, budget=Budget(name="day", limit=10**9))
    found = solve_window(campaign, curves, {"customer": 200.0, "merchant": 200.0}, 10**9)
    levels = np.split(found.allocation.level, [200])
    for (side, each), level in zip(curves.items(), levels, strict=True):
        choices = Choices.marked(campaign, side, each)
        best = (choices.value - 2.0 * choices.charges[0]).argmax(axis=0)
        np.testing.assert_array_equal(level, best)
        np.testing.assert_array_equal(choices.decide(found.allocation.prices, 0.0, range(200)).level, best)


def test_a_window_with_arms_and_exploration_counts_unspent_money_as_without() -> None:
    arms = Experiment(arms=(Arm(name="none", kind="holdout", share=1500),), salt="spring")
    ahead: dict[Side, float] = {"customer": 300.0, "merchant": 300.0}
    campaign, curves = market(300, least_return=20.0, exploration=0.1, experiment=arms)
    found = solve_window(campaign, curves, ahead, campaign.budget.limit)
    value = 0.0
    for side, level in zip(curves, np.split(found.allocation.level, [300]), strict=True):
        worth = Choices.marked(campaign, side, curves[side]).value * curves[side].shares() * ahead[side]
        shares = campaign.answer_shares
        chosen = worth[level, np.arange(300)].sum()
        value += shares.chosen * chosen + shares.drawn * worth.mean(axis=0).sum() + shares.held * worth[0].sum()
    assert found.primal == pytest.approx(value, rel=1e-9)


def test_a_window_with_a_holdout_of_the_company_is_that_of_the_accounts_that_can_be_treated() -> None:
    """The program of the requests that are not held alone, with what the others take set aside."""
    campaign, curves = market(300, exploration=0.1)
    ahead: dict[Side, float] = {"customer": 300.0, "merchant": 300.0}
    out = replace(campaign, holdout=Holdout(key="company", share=1500))
    found = solve_window(out, curves, ahead, campaign.budget.limit)
    cost = value = 0.0
    for side, each in curves.items():
        choices = Choices.marked(campaign, side, each)
        weight = 0.15 * ahead[side] * each.shares()
        cost, value = cost + choices.charges[0][0] @ weight, value + choices.value[0] @ weight
    few: dict[Side, float] = {side: 0.85 * requests for side, requests in ahead.items()}
    plain = solve_window(campaign, curves, few, campaign.budget.limit - cost)
    assert found.allocation.prices[0] == pytest.approx(plain.allocation.prices[0], rel=1e-9)
    assert found.primal == pytest.approx(plain.primal + value, rel=1e-9)
    assert out.answer_shares.held == 0.15
    assert campaign.answer_shares.chosen == 0.9


def test_what_if_answers_at_the_floor_what_a_solve_of_all_accounts_does() -> None:
    campaign, curves = market(3000, seed=3, least_return=6.0)
    ahead: dict[Side, float] = {"customer": 3000.0, "merchant": 3000.0}
    asked = WhatIf(campaign, curves, ahead, rows=0)
    for limit in (20_000, 2_000_000):
        own = replace(campaign, budget=replace(campaign.budget, limit=limit))
        answer, whole = asked.ask(Change(budget=limit)), solve_window(own, curves, ahead, limit)
        assert answer.price.value == pytest.approx(whole.allocation.prices[0], rel=1e-9)
        assert answer.value.value == pytest.approx(whole.primal, rel=1e-9)
        assert answer.spend.value == pytest.approx(whole.allocation.spend[0], rel=1e-9)
    assert answer.spend.value < 0.9 * 2_000_000
    assert answer.price.value == 6.0
    # The interval of a sample holds the value of all accounts, which varies with the money that is not spent.
    inside = 0
    for seed in range(40):
        few = WhatIf(campaign, curves, ahead, rows=400, seed=seed).ask(Change(budget=2_000_000))
        inside += few.value.low <= whole.primal <= few.value.high
    assert inside >= 34


@pytest.mark.parametrize("form", ["total", "per_account"])
@pytest.mark.parametrize("exploring", [False, True])
def test_what_the_budget_must_be_for_a_return_is_where_the_price_passes_it(form: str, exploring: bool) -> None:
    campaign, curves = market(2000, seed=6, exploration=0.1 if exploring else 0.0)
    limit = 20_000 if form == "total" else 10.0
    campaign = replace(campaign, budget=Budget(name="day", form=form, limit=limit))  # type: ignore[arg-type]
    ahead: dict[Side, float] = {"customer": 2000.0, "merchant": 2000.0}
    asked = WhatIf(campaign, curves, ahead, InHand(spent=3000.0), rows=0)
    answer = asked.ask(Change(least_return=1.5))
    assert answer.status == "optimal"
    near = [round(share * answer.budget, 0 if form == "total" else 6) for share in (0.999, 1.001)]
    below, above = (asked.ask(Change(budget=each)) for each in near)
    assert below.price.value > 1.5 >= above.price.value
    assert answer.spend.value == pytest.approx(
        answer.budget - 3000 if form == "total" else 4000 * answer.budget - 3000, rel=1e-3
    )
    # With a budget the return is a floor within it.
    assert asked.ask(Change(budget=2 * answer.budget, least_return=1.5)).spend.value == pytest.approx(
        answer.spend.value, rel=1e-3
    )


def test_a_return_is_asked_of_a_campaign_for_money_alone() -> None:
    campaign, curves = market(50)
    terms = {side: replace(terms, worth="") for side, terms in campaign.sides.items()}
    plain = {side: replace(each, worth=None) for side, each in curves.items()}
    asked = WhatIf(replace(campaign, objective="responses", sides=terms), plain, {"customer": 50.0, "merchant": 50.0})
    with pytest.raises(InvalidInput, match="least_return: must be 0 unless the objective is value or margin"):
        asked.ask(Change(least_return=1.5))


def in_money(setting, least: float, budget: int):
    campaign = replace(
        setting.campaign,
        objective="margin",
        least_return=least,
        budget=Budget(name="day", limit=budget),
        sides={
            "customer": replace(setting.campaign.sides["customer"], worth="x_margin"),
            "merchant": replace(setting.campaign.sides["merchant"], weight=150.0),
        },
    )
    names = setting.outcomes.truth["customer"].account_id.tolist()
    margin = 300 * np.exp(np.random.default_rng(5).normal(0, 1, len(names)))
    attributes = {"customer": Attributes.of(names, {"x_margin": margin.tolist()})}
    truth = dict(setting.outcomes.truth)
    truth["customer"] = replace(truth["customer"], curves=replace(truth["customer"].curves, worth=margin))
    outcomes = replace(setting.outcomes, campaign=campaign, truth=truth)
    return replace(setting, campaign=campaign, attributes=attributes, outcomes=outcomes, model=truth)


def play(setting) -> Replay:
    return run_pacer(setting, make_pacer("hourly"), hard_stop=True)


def test_a_day_at_the_floor_leaves_money_unspent_on_plan(make_setting) -> None:
    setting = in_money(make_setting(), 1.5, 2_000_000)
    played = play(setting)
    records = [found.record for _, found in played.prices]
    assert {record.prices["day"] for record in records} == {1.5}
    spend = played.outcomes.cost.sum()
    assert spend < 0.5 * 2_000_000
    # Paid is compared with what was planned at the floor, so no alarm calls it too little.
    assert all(abs(record.pacing_error) < 0.1 for record in records[4:])
    assert records[0].plan[-1] == pytest.approx(spend, rel=0.1)
    table = score(setting.campaign, {"hourly": played, "hindsight": played})
    own = setting.outcomes.truth["customer"].curves.worth
    place = {name: row for row, name in enumerate(setting.outcomes.truth["customer"].account_id.tolist())}
    worth = [
        own[place[name]] if side == "customer" else 150.0
        for name, side in zip(played.outcomes.account_id.tolist(), played.outcomes.side.tolist(), strict=True)
    ]
    value = float(np.array(worth) @ played.outcomes.expected_response)
    assert table["expected_value"]["hourly"] == pytest.approx(value, rel=1e-9)
    # The rule at the floor is the best answer to every request on its own.
    assert value == pytest.approx(optimum(setting), rel=1e-6)


def test_a_floor_that_does_not_bind_changes_nothing(make_setting) -> None:
    one, other = (play(in_money(make_setting(), least, 120_000)) for least in (0.0, 0.5))
    np.testing.assert_array_equal(one.outcomes.level, other.outcomes.level)
    assert min(found.record.prices["day"] for _, found in other.prices) > 0.5


@pytest.mark.parametrize("pacer", ["pi", "hourly"])
def test_no_pacer_goes_below_the_floor(make_setting, pacer: str) -> None:
    played = run_pacer(in_money(make_setting(), 3.0, 300_000), make_pacer(pacer))
    prices = [found.record.prices["day"] for _, found in played.prices]
    assert len(prices) > 10
    assert min(prices) >= 3.0


def test_worth_of_accounts_by_margin_earns_most_of_what_can_be_earned() -> None:
    """Set before it was measured: 6,000 customers, margins lognormal with sigma 1, a budget of 20 minor units each.

    A model is fitted on a trial of these customers with eight rows each; its curves decide for margin and for
    responses, each at the price at which the true cost is the budget. No policy earns more than the known truth does.
    """
    rng, n, rows = np.random.default_rng(17), 6000, 8
    levels = np.array([0, 40, 80, 120])
    x = rng.normal(size=(n, 4))
    slope = np.exp(-0.6 + 0.7 * x[:, 0])
    truth = 1 / (1 + np.exp(-(-2.2 + 0.6 * x[:, 1] + slope * levels[:, None] / 80)))
    margin = 400 * np.exp(rng.normal(size=n))
    who, level = np.repeat(np.arange(n), rows), rng.integers(0, 4, n * rows)
    frame = pd.DataFrame(x[who], columns=[f"x_{k}" for k in range(4)]).assign(
        account_id=[f"c{k}" for k in who],
        level=level,
        response=(rng.random(who.size) < truth[level, who]).astype(float),
        propensity=0.25,
    )
    accounts = frame.iloc[::rows].reset_index(drop=True)
    learned = make("gbdt", levels=levels.tolist(), seed=0).fit(frame).curve(accounts).response.astype(float)
    cost = levels[:, None] * truth

    def earned(worth: np.ndarray, curve: np.ndarray) -> float:
        """True margin of a policy whose price is set so that its true cost is the budget."""
        value, paid = worth * curve, levels[:, None] * curve
        low, high = 0.0, 1e3
        for _ in range(60):
            price = (low + high) / 2
            chosen = Choices(value, paid).decide([price], 0.0, range(n)).level
            low, high = (price, high) if cost[chosen, np.arange(n)].sum() > 20 * n else (low, price)
        chosen = Choices(value, paid).decide([high], 0.0, range(n)).level
        assert 0.99 * 20 * n <= cost[chosen, np.arange(n)].sum() <= 20 * n
        return float((margin * truth)[chosen, np.arange(n)].sum())

    by_margin, by_response, best = earned(margin, learned), earned(np.ones(n), learned), earned(margin, truth)
    assert best > 1.05 * by_response
    assert (by_margin - by_response) / (best - by_response) >= 0.9


def test_equal_margins_decide_as_responses_do() -> None:
    campaign, curves = market(2000, seed=4)
    curves["customer"] = replace(curves["customer"], worth=np.full(2000, 256.0))
    campaign = replace(campaign, sides=campaign.sides | {"merchant": replace(campaign.sides["merchant"], weight=256.0)})
    terms = {side: replace(terms, worth="", weight=1.0) for side, terms in campaign.sides.items()}
    plain = replace(campaign, objective="responses", sides=terms)
    ahead: dict[Side, float] = {"customer": 2000.0, "merchant": 2000.0}
    one = solve_window(campaign, curves, ahead, campaign.budget.limit).allocation
    other = solve_window(plain, {s: replace(c, worth=None) for s, c in curves.items()}, ahead, 24 * 2000).allocation
    np.testing.assert_array_equal(one.level, other.level)
    assert (one.prices[0] / 256, one.tie_share) == (other.prices[0], other.tie_share)
    for side, each in curves.items():
        names = [f"{side}{k}" for k in range(2000)]
        money = Choices.marked(campaign, side, each).decide(one.prices, one.tie_share, names)
        bare = Choices.marked(plain, side, each if side == "merchant" else replace(each, worth=None))
        np.testing.assert_array_equal(money.level, bare.decide(other.prices, other.tie_share, names).level)


def test_an_account_without_a_worth_has_that_of_the_mean_and_a_new_one_its_own() -> None:
    campaign, curves = market(3)
    table = Attributes.of(["a", "b", "c"], {"x_margin": [100.0, 500.0, None]})
    coverage = campaign.coverage({"customer": table})
    asked = SideRequests("customer", ["b", "c", "new", "newest"])
    np.testing.assert_array_equal(coverage.worth(asked), [500.0, 300.0, 300.0, 300.0])
    newer = replace(coverage, newer={"customer": Attributes.of(["new", "newest"], {"x_margin": [70.0, -5.0]})})
    np.testing.assert_array_equal(newer.worth(asked), [500.0, 300.0, 70.0, 300.0])
    assert coverage.worth(SideRequests("merchant", ["m"])) is None
    assert coverage.lacking(asked) == [("customer", ["new", "newest"], ["x_margin"])]
    marked = coverage.mark(SideRequests("customer", ["a", "b", "c"]), replace(curves["customer"], worth=None))
    np.testing.assert_array_equal(marked.worth, [100.0, 500.0, 300.0])


def test_a_worth_that_was_not_read_is_refused_and_never_taken_as_one() -> None:
    campaign, curves = market(3)
    with pytest.raises(InvalidInput, match="x_margin"):
        Choices.of(campaign, "customer", curves["customer"].response)
    with pytest.raises(InvalidInput, match="x_margin"):
        campaign.coverage().worth(SideRequests("customer", ["a"]))
    bare = {side: replace(each, worth=None) for side, each in curves.items()}
    with pytest.raises(InvalidInput, match="x_margin"):
        solve_window(campaign, bare, {"customer": 3.0, "merchant": 3.0}, 100)


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ({"least_return": 1.0, "objective": "responses"}, "objective"),
        ({"least_return": -1.0}, "least_return"),
        ({"least_return": float("inf")}, "least_return"),
        ({"least_return": 1.0, "budget": Budget(form="per_response", limit=30)}, "least_return"),
        ({"policy": "flat"}, "sides.customer.worth"),
        ({"objective": "profit"}, "objective"),
    ],
)
def test_terms_that_have_no_meaning_in_money_are_refused(terms: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        market(3, **terms)


def test_a_campaign_in_money_is_read_as_it_was_written_and_an_old_one_has_no_new_field() -> None:
    campaign, _ = market(3, least_return=1.5)
    assert Campaign.from_dict(campaign.to_dict()) == campaign
    terms = {side: replace(terms, worth="") for side, terms in campaign.sides.items()}
    old = replace(campaign, objective="responses", least_return=0.0, sides=terms)
    assert not {"objective", "least_return"} & set(old.to_dict())
    assert all("worth" not in terms for terms in old.to_dict()["sides"].values())
    assert Campaign.from_dict(old.to_dict()) == old
