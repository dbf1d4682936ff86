"""What-if answers against fresh solves of all accounts, and against an independent solver."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from scipy import optimize, sparse

from shadowprice.allocation.sources.rows import Part, Row
from shadowprice.arms import Arm, Experiment
from shadowprice.campaign import Budget, Campaign, Side, Terms
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.limits import GroupBudget, Limits
from shadowprice.pacing.questions import Answer, Change, GroupLimit, InHand
from shadowprice.pacing.what_if import WhatIf
from shadowprice.pacing.window import solve_window
from shadowprice.responses.posterior import CurvePosterior

LEVELS: dict[Side, tuple[int, ...]] = {"customer": (0, 50, 80, 100, 200), "merchant": (0, 20, 100)}
FIVE = (0.5, 0.75, 1.0, 1.4, 2.0)


def market(accounts: int, seed: int = 0) -> tuple[Campaign, dict[Side, Curves], dict[Side, float]]:
    rng = np.random.default_rng(seed)
    curves: dict[Side, Curves] = {}
    for side, levels in LEVELS.items():
        money = np.array(levels)[:, None] / 100
        base, slope = np.exp(rng.normal(-1.8, 0.6, accounts)), np.exp(rng.normal(-1, 0.8, accounts))
        response = base + slope * money**0.7
        response = -np.expm1(-response) if side == "customer" else response
        curves[side] = Curves(np.array(levels), response, np.exp(rng.normal(0, 0.8, accounts)))
    campaign = Campaign(
        name="spring",
        sides={
            "customer": Terms(levels=LEVELS["customer"]),
            "merchant": Terms(levels=LEVELS["merchant"], cost_basis="on_grant", weight=0.5),
        },
        budget=Budget(name="day", limit=round(24.0 * 2 * accounts)),
        starts_at=datetime(2026, 3, 1, tzinfo=UTC),
    )
    return campaign, curves, {"customer": 1.3 * accounts, "merchant": 0.7 * accounts}


def fresh(campaign: Campaign, curves: Mapping[Side, Curves], ahead: Mapping[Side, float], limit: float):
    """Value and prices of all accounts, by the solve of the hourly price."""
    asked = replace(campaign, budget=replace(campaign.budget, limit=round(limit)))
    found = solve_window(asked, curves, ahead, round(limit))
    return found.primal, found.prices, sum(found.spend[s] * ahead[s] for s in curves)


def north(limit: int) -> GroupBudget:
    return GroupBudget(name="north", limit=limit, where="account.c_region == 'north'")


ARMS = Experiment(
    arms=(Arm(name="none", kind="holdout", share=1500), Arm(name="try", kind="explore", share=800)), salt="spring"
)


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize(("exploration", "experiment"), [(0.0, None), (0.05, None), (0.05, ARMS)])
def test_all_accounts_give_the_fresh_solve_itself_at_five_budgets(
    exploration: float, experiment: Experiment | None, limited: bool
) -> None:
    campaign, curves, ahead = market(3000)
    campaign = replace(campaign, exploration=exploration, experiment=experiment)
    if experiment:
        names = campaign.offer_ids["merchant"]
        weights = {"merchant": {name: 3.0**place for place, name in enumerate(names)}}
        campaign = replace(campaign, exploration_weights=weights)
    if limited:
        # A group that may cost little, and rules: one account in twenty gets no incentive, and some get no answer.
        rng = np.random.default_rng(9)
        campaign = replace(campaign, limits=Limits(budgets=(north(20_000),)))
        for side, mine in curves.items():
            allowed = np.arange(mine.levels.size)[:, None] < np.where(rng.random(3000) < 0.05, 1, 9)
            allowed &= rng.random(3000) < 0.98
            curves[side] = replace(mine, bits=(rng.random(3000) < 0.4).astype(np.uint32), allowed=allowed)
    for share, answer in zip(FIVE, WhatIf(campaign, curves, ahead, rows=0).budgets(FIVE), strict=True):
        value, prices, spend = fresh(campaign, curves, ahead, share * campaign.budget.limit)
        assert answer.value.value == pytest.approx(value, rel=1e-9)
        assert answer.prices == pytest.approx(prices, rel=1e-9)
        assert answer.price.value == answer.prices["day"]
        assert not limited or answer.prices["north"] > 0
        assert answer.spend.value == pytest.approx(spend, rel=2e-3)
        assert answer.value.low == answer.value.high
        assert answer.gap < 1e-9
        assert answer.violation < 1e-9


def test_a_sample_covers_the_fresh_solve_at_five_budgets_as_often_as_it_states_and_within_a_second() -> None:
    campaign, curves, ahead = market(20_000)
    right = [fresh(campaign, curves, ahead, share * campaign.budget.limit) for share in FIVE]
    lowest = sum(
        ahead[side] * float(curves[side].shares() @ campaign.terms(side).value(curves[side].response)[0])
        for side in curves
    )
    value, added, price = [], [], []
    slowest = 0.0
    for seed in range(100):
        for answer, (best, rates, _) in zip(
            WhatIf(campaign, curves, ahead, rows=2000, seed=seed).budgets(FIVE), right, strict=True
        ):
            value.append(answer.value.low <= best <= answer.value.high)
            added.append(answer.added.low <= best - lowest <= answer.added.high)
            price.append(answer.price.low <= rates["day"] <= answer.price.high)
            slowest = max(slowest, answer.seconds)
            assert answer.value.high - answer.value.low < 0.15 * best
    assert np.mean(value) >= 0.90
    assert np.mean(added) >= 0.90
    assert np.mean(price) >= 0.90
    assert slowest < 1.0


def test_levels_groups_and_caps_are_solved_as_an_independent_solver_does() -> None:
    campaign, curves, ahead = market(60)
    rng = np.random.default_rng(5)
    members = {side: rng.random(60) < 0.4 for side in curves}
    change = Change(
        budget=2000,
        levels={"customer": (0, 50, 200)},
        groups=(GroupLimit("region", 300.0, members), GroupLimit("shops", 600.0, {"merchant": np.ones(60, bool)})),
        caps={"customer": 60.0},
    )
    answer = WhatIf(campaign, curves, ahead, rows=0).ask(change)
    value, cost, allowed = [], [], []
    for side, mine in curves.items():
        requests = ahead[side] * mine.shares()
        terms = campaign.terms(side)
        worth, money = requests * terms.value(mine.response), requests * terms.cost(mine.response)
        offered = np.isin(LEVELS[side], (0, 50, 200) if side == "customer" else LEVELS[side])[:, None]
        kept = offered & ((money <= 60.0) if side == "customer" else True)
        missing = 5 - worth.shape[0]
        value.append(np.pad(worth, ((0, missing), (0, 0))))
        cost.append(np.pad(money, ((0, missing), (0, 0))))
        allowed.append(np.pad(np.broadcast_to(kept, worth.shape), ((0, missing), (0, 0))))
    v, c, a = (np.concatenate(parts, axis=1) for parts in (value, cost, allowed))
    inside = np.concatenate([members["customer"], members["merchant"]])
    shops = np.r_[np.zeros(60), np.ones(60)]
    found = optimize.linprog(
        -v.ravel(),
        A_ub=np.stack([c.ravel(), (c * inside).ravel(), (c * shops).ravel()]),
        b_ub=[2000, 300, 600],
        A_eq=sparse.hstack([sparse.eye(120)] * 5),
        b_eq=np.ones(120),
        bounds=[(0, 1 if each else 0) for each in a.ravel()],
        method="highs",
    )
    assert answer.status == "optimal"
    assert answer.value.value == pytest.approx(-found.fun, rel=1e-9)
    assert list(answer.prices) == ["day", "region", "shops"]
    assert list(answer.prices.values()) == pytest.approx(-found.ineqlin.marginals, rel=1e-6, abs=1e-9)
    assert (np.array(list(answer.prices.values())) > 0).any()


def test_a_group_of_a_sample_is_the_same_group() -> None:
    campaign, curves, ahead = market(20_000)
    members = {side: np.arange(20_000) < 6000 for side in curves}
    change = Change(groups=(GroupLimit("first", 60_000.0, members),))
    whole = WhatIf(campaign, curves, ahead, rows=0).ask(change)
    part = WhatIf(campaign, curves, ahead, rows=4000, seed=3).ask(change)
    assert whole.prices["first"] > 0
    assert part.value.low <= whole.value.value <= part.value.high
    assert part.prices["first"] == pytest.approx(whole.prices["first"], rel=0.15)


def test_a_further_budget_of_the_campaign_is_the_same_limit_as_one_that_is_asked_for() -> None:
    campaign, curves, ahead = market(20_000)
    members = {side: np.arange(20_000) < 6000 for side in curves}
    marked = {side: replace(each, bits=members[side].astype(np.uint32)) for side, each in curves.items()}
    own = replace(campaign, limits=Limits(budgets=(north(40_000),)))
    asked = WhatIf(campaign, curves, ahead, rows=4000).ask(Change(groups=(GroupLimit("north", 60_000.0, members),)))
    # Its own limit of 40,000 is asked for as 60,000.
    found = WhatIf(own, marked, ahead, rows=4000).ask(Change(limits={"north": 60_000.0}))
    assert replace(found, seconds=0.0) == replace(asked, seconds=0.0)
    with pytest.raises(InvalidInput, match=r"limits\.south.*has no further budget"):
        WhatIf(own, marked, ahead, rows=400).ask(Change(limits={"south": 1.0}))


def test_another_limit_of_a_shared_budget_changes_what_is_in_hand_by_the_campaigns_share() -> None:
    campaign, curves, ahead = market(20_000)
    members = {side: np.arange(20_000) < 6000 for side in curves}
    marked = {side: replace(each, bits=members[side].astype(np.uint32)) for side, each in curves.items()}
    shared = replace(north(120_000), campaigns=("autumn", "spring"))
    own = replace(campaign, limits=Limits(budgets=(shared,)))
    part = [Part(dict.fromkeys(curves, 1.0), {"north": 0})]

    def asked(in_hand: float, change: Change) -> Answer:
        money = InHand(parts=part, budgets=[Row("north", shared, in_hand)], shares={"north": 0.25})
        solver = WhatIf(own, marked, ahead, money, rows=4000)
        return replace(solver.ask(change), seconds=0.0)

    more = asked(20_000.0, Change(limits={"north": 280_000.0}))
    assert more == asked(60_000.0, Change())
    assert more.prices["north"] > 0
    nothing = asked(20_000.0, Change(limits={"north": 30_000.0}))
    assert nothing == asked(0.0, Change())


def test_an_account_whose_lowest_level_is_above_its_cap_gets_nothing() -> None:
    campaign, curves, ahead = market(200)
    answer = WhatIf(campaign, curves, ahead, rows=0).ask(
        Change(levels={"merchant": (20, 100)}, caps={"merchant": 0.0, "customer": 0.0})
    )
    without = ahead["customer"] * float(curves["customer"].shares() @ curves["customer"].response[0])
    assert answer.spend.value == pytest.approx(0.0)
    # Customers keep the level of 0; merchants have none that costs nothing.
    assert answer.value.value == pytest.approx(without, rel=1e-6)


@pytest.mark.parametrize("what", ["budget 'day'", "limit 'all'"])
def test_a_limit_below_the_cheapest_levels_is_infeasible_and_its_message_has_the_least_one(what: str) -> None:
    campaign, curves, ahead = market(200)
    asking = WhatIf(replace(campaign, exploration=0.1), curves, ahead, rows=0)
    everybody = {side: np.ones(mine.accounts, dtype=bool) for side, mine in curves.items()}

    def ask(amount: int) -> Answer:
        levels = {"customer": (50, 80), "merchant": (20, 100)}
        if what.startswith("budget"):
            return asking.ask(Change(budget=amount, levels=levels))
        return asking.ask(Change(budget=10**7, levels=levels, groups=(GroupLimit("all", float(amount), everybody),)))

    answer = ask(10)
    assert answer.status == "infeasible"
    assert np.isnan(answer.value.value)
    told = re.fullmatch(
        rf"{what} allows 10 minor units, and even the cheapest levels need (\d+); raise it", answer.reason
    )
    assert told
    assert (ask(int(told[1])).status, ask(int(told[1])).reason) == ("optimal", "")
    assert ask(int(told[1]) - 1).status == "infeasible"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (Change(levels={"customer": (50, 60)}), "levels"),
        (Change(levels={"partner": (50,)}), "levels"),  # type: ignore[dict-item]
        (Change(caps={"customer": -1.0}), "caps"),
        (Change(groups=(GroupLimit("few", -1.0, {}),)), "groups.few"),
        (Change(budget=-5), "budget.limit"),
    ],
)
def test_terms_that_make_no_sense_are_refused(change: Change, field: str) -> None:
    campaign, curves, ahead = market(50)
    with pytest.raises(InvalidInput, match=field):
        WhatIf(campaign, curves, ahead).ask(change)


@pytest.mark.parametrize("form", ["per_account", "per_response"])
def test_a_mean_budget_is_asked_in_its_own_form(form: str) -> None:
    campaign, curves, ahead = market(3000)
    limit = {"per_account": 24.0, "per_response": 60.0}[form]
    campaign = replace(campaign, budget=Budget(name="day", form=form, limit=limit))  # type: ignore[arg-type]
    for share, answer in zip((0.6, 1.0), WhatIf(campaign, curves, ahead, rows=0).budgets((0.6, 1.0)), strict=True):
        asked = replace(campaign, budget=replace(campaign.budget, limit=share * limit))
        found = solve_window(asked, curves, ahead, 0.0)
        assert answer.value.value == pytest.approx(found.primal, rel=1e-9)
        assert answer.price.value == pytest.approx(float(found.allocation.prices[0]), rel=1e-9)


def test_the_errors_of_the_curves_widen_value_and_price_as_draws_of_the_posterior_do() -> None:
    campaign, curves, ahead = market(1500)
    rng = np.random.default_rng(5)
    laws: dict[Side, CurvePosterior] = {}
    for side in curves:
        root = 0.08 * rng.normal(size=(4, 4)) * np.array([0.1, 1.0, 1.0, 1.0])[:, None]
        laws[side] = CurvePosterior(np.array([0.0, -0.1, 0.0, -0.2]), root @ root.T, side == "customer")
    asked = WhatIf(campaign, curves, ahead, rows=0, posterior=laws)
    answer = asked.ask()
    found = asked.believe(answer)
    assert found is not None
    assert found.pays is None
    drawn = []
    for _ in range(150):
        moved = {
            side: law.move(curves[side], rng.multivariate_normal(law.mean, law.covariance))
            for side, law in laws.items()
        }
        each = WhatIf(campaign, moved, ahead, rows=0).ask()
        drawn.append((each.added.value, each.price.value))
    for name, values in (("added", np.array(drawn)[:, 0]), ("price", np.array(drawn)[:, 1])):
        estimate, own = getattr(found, name), getattr(answer, name).value
        assert estimate.value == own
        assert (estimate.high - own) / 1.96 == pytest.approx(np.sqrt(np.mean((values - own) ** 2)), rel=0.25)
    assert WhatIf(campaign, curves, ahead, rows=0).believe(answer) is None


def test_the_probability_that_money_pays_falls_with_the_budget_and_knows_the_unit() -> None:
    campaign, curves, ahead = market(800)
    sides = {side: replace(terms, weight=300.0) for side, terms in campaign.sides.items()}
    campaign = replace(campaign, sides=sides, objective="margin")
    wide = np.diag([1e-4, 0.03, 0.03, 0.03])
    laws: dict[Side, CurvePosterior] = {side: CurvePosterior(np.zeros(4), wide, side == "customer") for side in curves}
    asked = WhatIf(campaign, curves, ahead, posterior=laws)
    pays = []
    for answer in asked.budgets((0.3, 0.6, 1.0, 1.5, 2.0)):
        belief = asked.believe(answer)
        assert belief is not None
        assert belief.pays is not None
        assert (belief.pays > 0.5) == (belief.price.value > 1.0)
        assert belief.times(0.01).pays == belief.pays
        pays.append(belief.pays)
    assert pays[0] > 0.9
    assert pays[-1] < 0.1
    assert (np.diff(pays) <= 0.02).all()
