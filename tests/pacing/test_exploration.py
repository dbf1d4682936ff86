"""Exploration: priced out of the same budget, with propensities that say what was likely, and rows that count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from shadowprice.arms import Arm, Experiment
from shadowprice.curves import Curves
from shadowprice.errors import NotCertified
from shadowprice.pacing.exploration import effective_rows_by_level, explored, value_lost
from shadowprice.pacing.pacers import make_pacer
from shadowprice.pacing.replay.compare import Setting, run_pacer
from shadowprice.pacing.replay.run import Replay
from shadowprice.pacing.window import solve_window

SHARE = 0.1


def exploring(setting: Setting, share: float) -> Setting:
    campaign = replace(setting.campaign, exploration=share)
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
    other_value, other_net = (sum(drawn * part.mean() + held * part[0] for part in parts) for parts in (value, net))
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
        floor = SHARE / len(terms.levels)
        assert chance.min() >= floor - 1e-12
        for level in range(len(terms.levels)):
            rows = given == level
            spread = np.sqrt(((1 - chance[rows]) / chance[rows] ** 2).sum())
            assert abs((1 / chance[rows]).sum() - mine.sum()) < 4 * spread


def test_a_day_with_arms_ends_on_budget_and_each_arm_is_answered_by_its_rule(
    make_setting: Callable[..., Setting],
) -> None:
    setting = make_setting()
    campaign = replace(setting.campaign, experiment=ARMS)
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
        assert np.allclose(answers.propensity[mine], 1 / len(terms.levels))
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
        # Of n requests a share q prefers a level: E Σ1/p = n, E Σ1/p² = n·(q/(1 − ε + ε/A) + (1 − q)·A/ε).
        sure = played.answers.propensity[mine] > 0.5
        for level in range(size):
            prefers = (played.outcomes.level[mine][sure] == level).mean()
            second = prefers / (1 - SHARE + SHARE / size) + (1 - prefers) * size / SHARE
            assert found[side][level] == pytest.approx(mine.sum() / second, rel=0.25)
            assert found[side][level] > 0.5 * SHARE / size * mine.sum()
        assert without[side].sum() == mine.sum()


def test_exploration_costs_value_more_of_it_the_more_is_explored(make_setting: Callable[..., Setting]) -> None:
    setting = make_setting()
    curves = {side: Curves(mine.curves.levels, mine.curves.response) for side, mine in setting.model.items()}
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
