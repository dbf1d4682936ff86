"""Exploration: priced out of the same budget, with propensities that say what was likely, and rows that count."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import chisquare

from shadowprice.arms import Arm, Experiment
from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import NotCertified
from shadowprice.pacing.exploration import (
    draws_at,
    effective_rows_by_level,
    explored,
    near_the_price,
    uniform_at_equal_loss,
    value_lost,
)
from shadowprice.pacing.pacers import make_pacer
from shadowprice.pacing.replay.compare import Setting, run_pacer
from shadowprice.pacing.replay.run import Replay
from shadowprice.pacing.window import least_cost, solve_window
from shadowprice.price import PriceRecord
from shadowprice.reports.run import exploration_notes, exploration_summary

SHARE = 0.1
LAW = {"customer": np.array([1.0, 0.5, 6.0, 2.0, 0.5]) / 10, "merchant": np.full(4, 0.25)}
"""Chances of the levels that a side draws; merchants draw uniformly."""


def weighted(campaign: Campaign) -> Campaign:
    names = campaign.offer_ids["customer"]
    weights = dict(zip(names, (30 * LAW["customer"]).tolist(), strict=True))
    return replace(campaign, exploration_weights={"customer": weights})


def exploring(setting: Setting, share: float) -> Setting:
    campaign = weighted(replace(setting.campaign, exploration=share))
    return replace(setting, campaign=campaign, outcomes=replace(setting.outcomes, campaign=campaign))


def run(setting: Setting) -> Replay:
    return run_pacer(setting, make_pacer("hourly"))


ARMS = Experiment(
    arms=(
        Arm(name="holdout", kind="holdout", share=2000),
        Arm(name="new", kind="policy", share=1000),
        Arm(name="explore", kind="explore", share=500),
    ),
    salt="spring",
)


@pytest.mark.parametrize("form", ["total", "per_account", "per_response"])
@pytest.mark.parametrize("experiment", [None, ARMS])
def test_what_exploration_and_arms_take_is_set_aside_exactly(
    make_setting: Callable[..., Setting], form: str, experiment: Experiment | None
) -> None:
    setting = exploring(make_setting(form=form), SHARE)
    campaign = replace(setting.campaign, experiment=experiment)
    held, drawn = (0.2, 0.05 + 0.75 * SHARE) if experiment else (0.0, SHARE)
    limit = 32.0 * 400 if form == "total" else campaign.budget.limit
    campaign = replace(campaign, budget=replace(campaign.budget, limit=limit))
    curves = {side: mine.curves.take(np.arange(40)) for side, mine in setting.model.items()}
    ahead = {"customer": 250.0, "merchant": 150.0}
    found = solve_window(campaign, curves, ahead, limit if form == "total" else 0.0)  # type: ignore[arg-type]

    # The same linear program written out, on HiGHS: x is the choice of those that have one.
    value, net, levels = [], [], []
    for side, mine in curves.items():
        times = ahead[side] / mine.accounts
        terms = campaign.terms(side)
        charge = terms.cost(mine.response)
        if form == "per_account":
            charge = charge - limit
        elif form == "per_response":
            charge = charge - limit * terms.measure(mine.response)
        for column in range(mine.accounts):
            value.append(times * terms.value(mine.response)[:, column])
            net.append(times * charge[:, column])
            levels.append(len(value[-1]))
    law = {5: LAW["customer"], 4: LAW["merchant"]}
    other_value, other_net = (
        sum(drawn * law[part.size] @ part + held * part[0] for part in parts) for parts in (value, net)
    )
    belongs = np.repeat(np.arange(len(levels)), levels)
    solved = linprog(
        -(1 - held - drawn) * np.concatenate(value),
        A_ub=(1 - held - drawn) * np.concatenate(net)[None],
        b_ub=[(limit if form == "total" else 0.0) - other_net],
        A_eq=(belongs == np.arange(len(levels))[:, None]).astype(float),
        b_eq=np.ones(len(levels)),
        method="highs",
    )
    assert found.primal == pytest.approx(-solved.fun + other_value, rel=1e-6)
    assert found.dual == pytest.approx(found.primal, rel=1e-6)
    cheapest = (1 - held - drawn) * sum(part.min() for part in net) + other_net
    earned = limit * 400 if form == "per_account" else 0.0
    assert least_cost(campaign, curves, ahead) - earned == pytest.approx(cheapest)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def day(make_setting: Callable[..., Setting]) -> tuple[Setting, Replay]:
    """A day with exploration, played once."""
    setting = exploring(make_setting(requests=20_000), SHARE)
    return setting, run(setting)


def test_a_day_with_exploration_ends_on_budget_and_its_propensities_are_true(day: tuple[Setting, Replay]) -> None:
    setting, played = day
    assert played.outcomes.cost.sum() == pytest.approx(setting.campaign.budget.limit, rel=0.01)
    tried = played.answers.reason == "explored"
    assert tried.mean() == pytest.approx(SHARE, abs=4 * np.sqrt(SHARE * (1 - SHARE) / tried.size))
    # Inverse propensities of a level's rows add up to the number of requests, whichever level it is.
    for side, terms in setting.campaign.sides.items():
        mine = played.outcomes.side == side
        chance, given = played.answers.propensity[mine], played.outcomes.level[mine]
        floor = SHARE * LAW[side][given]
        assert (chance >= floor - 1e-12).all()
        explores = given[tried[mine]]
        counts = np.bincount(explores, minlength=len(terms.levels))
        assert chisquare(counts, LAW[side] * explores.size).pvalue > 1e-3
        for level in range(len(terms.levels)):
            rows = given == level
            spread = np.sqrt(((1 - chance[rows]) / chance[rows] ** 2).sum())
            assert abs((1 / chance[rows]).sum() - mine.sum()) < 4 * spread
            # The estimate of a policy that gives all requests this level covers the known truth.
            weighed = np.where(rows, played.outcomes.response[mine] / chance, 0.0)
            true = setting.true(side, mine).response[level]
            assert abs(weighed.mean() - true.mean()) < 4 * weighed.std() / np.sqrt(mine.sum())


def test_a_day_with_arms_ends_on_budget_and_each_arm_is_answered_by_its_rule(
    make_setting: Callable[..., Setting],
) -> None:
    setting = make_setting()
    campaign = weighted(replace(setting.campaign, experiment=ARMS))
    setting = replace(setting, campaign=campaign, outcomes=replace(setting.outcomes, campaign=campaign))
    played = run(setting)
    answers, outcomes = played.answers, played.outcomes
    assert answers.arm.tolist() == ARMS.arm_of(outcomes.account_id.tolist()).tolist()
    held = answers.arm == "holdout"
    assert set(answers.reason[held].tolist()) == {"holdout"}
    assert np.all(answers.level[held] == 0)
    assert np.all(answers.propensity[held] == 1)
    drawn = answers.arm == "explore"
    assert set(answers.reason[drawn].tolist()) == {"explored"}
    for side, terms in campaign.sides.items():
        mine = drawn & (outcomes.side == side)
        assert np.allclose(answers.propensity[mine], LAW[side][outcomes.level[mine]])
        assert set(outcomes.level[mine].tolist()) == set(range(len(terms.levels)))
    assert not np.isin(answers.reason[~held & ~drawn], ["holdout", "explored"]).any()
    assert outcomes.cost.sum() == pytest.approx(campaign.budget.limit, rel=0.03)


def test_the_effective_rows_are_those_of_the_closed_form(day: tuple[Setting, Replay]) -> None:
    setting, played = day
    found = effective_rows_by_level(setting.campaign, played.outcomes, played.answers.propensity)
    without = effective_rows_by_level(setting.campaign, played.outcomes, np.ones(len(played.outcomes)))
    for side, terms in setting.campaign.sides.items():
        mine = played.outcomes.side == side
        size = len(terms.levels)
        # Of n requests a share q prefers a level that is drawn with the chance w: E Σ1/p = n,
        # E Σ1/p² = n·(q/(1 − ε + ε·w) + (1 − q)/(ε·w)).
        sure = played.answers.propensity[mine] > 0.5
        for level in range(size):
            prefers = (played.outcomes.level[mine][sure] == level).mean()
            chance = SHARE * LAW[side][level]
            second = prefers / (1 - SHARE + chance) + (1 - prefers) / chance
            assert found[side][level] == pytest.approx(mine.sum() / second, rel=0.25)
            assert found[side][level] > 0.5 * chance * mine.sum()
        assert without[side].sum() == mine.sum()


def plain_curves(setting: Setting) -> dict[Side, Curves]:
    return {side: Curves(mine.curves.levels, mine.curves.response) for side, mine in setting.model.items()}


def test_exploration_costs_value_more_of_it_the_more_is_explored(make_setting: Callable[..., Setting]) -> None:
    setting = make_setting()
    curves = plain_curves(setting)
    requests = sum(mine.accounts for mine in curves.values())
    lost = [
        value_lost(replace(setting.campaign, exploration=share), curves, 32.0 * requests) for share in (0, 0.02, 0.1)
    ]
    assert lost[0] == pytest.approx(0, abs=1e-9)
    assert 0 < lost[1] < lost[2]


def test_exploration_that_costs_more_than_is_left_is_not_priced(make_setting: Callable[..., Setting]) -> None:
    setting = exploring(make_setting(), 0.5)
    curves = {side: mine.curves for side, mine in setting.model.items()}
    with pytest.raises(NotCertified, match="lower campaign"):
        solve_window(setting.campaign, curves, {"customer": 1000.0, "merchant": 500.0}, 100.0)


def test_the_report_counts_what_explored_and_what_it_took(day: tuple[Setting, Replay]) -> None:
    setting, played = day
    found = explored(setting, played)
    tried = played.answers.reason == "explored"
    assert (found.requests, found.spend) == (int(tried.sum()), int(played.outcomes.cost[tried].sum()))
    assert found.share == SHARE
    assert found.value_lost > 0
    assert set(found.draws) == set(found.uniform) == {"customer", "merchant"}
    lost, plain = (sum(draw.lost for draw in draws.values()) for draws in (found.draws, found.uniform))
    assert plain == pytest.approx(lost)
    notes = exploration_notes(found, setting.campaign)
    assert len(notes) == 3
    assert "rows of a trial, against" in notes[1]
    assert json.loads(json.dumps(exploration_summary(found)))["draws"]["merchant"]["levels"]


def test_draws_near_the_price_lose_as_much_and_tell_more_of_the_levels_that_it_chooses_between(
    make_setting: Callable[..., Setting],
) -> None:
    setting, share = make_setting(), 0.05
    campaign, curves = setting.campaign, plain_curves(setting)
    allowed = np.ones((5, curves["customer"].accounts), dtype=bool)
    allowed[3:, ::3] = allowed[:2, 1::3] = False
    curves["customer"] = replace(curves["customer"], allowed=allowed)
    ahead = {"customer": 4000.0, "merchant": 2000.0}
    solved = solve_window(campaign, curves, ahead, 32.0 * 6000)
    price = PriceRecord(
        campaign=campaign.name,
        version=1,
        slot=0,
        prices=dict(solved.prices),
        tie_share=0.5,
        status="optimal",
        **dict.fromkeys(("primal", "dual", "gap", "violation"), 0.0),
        **dict.fromkeys(("spent", "remaining", "sample_rows"), 0),
        model_version="m",
        solved_at=campaign.starts_at,
        expires_at=campaign.starts_at + timedelta(hours=2),
    )
    near = near_the_price(campaign, curves, ahead, price, share)
    plain = replace(campaign, exploration=share)
    lost: dict[str, float] = {}
    rows: dict[str, dict[str, float]] = {}
    for name, asked in (("near", near), ("uniform", plain)):
        found, lost[name], rows[name] = draws_at(asked, curves, ahead, price), 0.0, {}
        for side, mine in curves.items():
            # Written out for each account: the law of its draws, its loss, and the propensities of the two levels.
            weights, terms = asked.draw_weights(side), asked.terms(side)
            score = terms.value(mine.response) - price.prices["budget"] * terms.cost(mine.response)
            pairs, inverse = [], []
            for column in range(mine.accounts):
                able = np.ones(len(score), dtype=bool) if mine.allowed is None else mine.allowed[:, column]
                own = np.where(able, weights, 0) / weights[able].sum()
                order = np.argsort(np.where(able, -score[:, column], np.inf))
                behind = score[order[0], column] - score[:, column]
                lost[name] += ahead[side] / mine.accounts * asked.exploration * float(own[able] @ behind[able])
                pairs.append(tuple(sorted(order[:2].tolist())))
                inverse.append(asked.exploration * own + (1 - asked.exploration) * np.eye(len(score))[order[0]])
            levels = max(set(pairs), key=pairs.count)
            assert found[side].levels == levels
            chance = np.array([each[list(levels)] for each in inverse])
            chance = chance[(chance > 0).all(axis=1)]
            n = ahead[side] * len(chance) / mine.accounts
            rows[name][side] = 4 * n / (1 / chance).sum(axis=1).mean()
            assert found[side].effective_rows == pytest.approx(rows[name][side], rel=0.02)
            assert found[side].requests == pytest.approx(ahead[side] * asked.exploration)
        assert sum(draw.lost for draw in found.values()) == pytest.approx(lost[name], rel=1e-3)
    assert lost["near"] == pytest.approx(lost["uniform"], rel=2e-3)
    assert near.exploration > 1.1 * share
    assert near.draw_weights("customer").min() >= 0.1
    assert near.draw_weights("customer").mean() == pytest.approx(1, abs=1e-3)
    # Of most merchants one level is the best, so that weights would draw it and little else.
    assert set(near.exploration_weights) == {"customer"}
    equal = uniform_at_equal_loss(near, curves, ahead, price)
    assert equal.exploration == pytest.approx(share, rel=2e-3)
    alone = {"customer": curves["customer"]}
    near = near_the_price(campaign, alone, ahead, price, share)
    one, other = (draws_at(asked, alone, ahead, price)["customer"] for asked in (near, plain))
    assert one.lost == pytest.approx(other.lost, rel=2e-3)
    assert one.effective_rows > 1.5 * other.effective_rows
