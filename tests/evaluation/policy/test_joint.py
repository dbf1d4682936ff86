"""Two policies at one budget over two sides, against the known truth and the linear program."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import pytest

from shadowprice.allocation import solve
from shadowprice.allocation.sources.campaign import CampaignProblem
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.frontier import RandomizedRows, step_worth
from shadowprice.evaluation.policy.gate import Against, gate
from shadowprice.evaluation.policy.joint import AtBudget, Spending, at_budget
from shadowprice.evaluation.policy.uniform import best_flat
from shadowprice.evaluation.statistics.intervals import Interval
from shadowprice.pacing.window import solve_window

LEVELS = {"customer": np.array([0, 20, 50, 100]), "merchant": np.array([0, 10, 40])}
REQUESTS = {"customer": 3000.0, "merchant": 500.0}
BUDGET = 60_000.0
METRICS = {"customer": {"auc": 0.9, "ece": 0.0, "base_rate": 0.5, "rpr": 0.0}}


@dataclass
class World:
    """True responses (J, N) of both sides, paid on grant, and a uniform trial of them."""

    truth: dict[str, np.ndarray]
    trials: dict[str, RandomizedRows]


def draw(seed: int, rows: int, *, spread: float = 1.5) -> World:
    """Accounts that differ in what an incentive does to them, by ``spread``."""
    rng = np.random.default_rng(seed)
    truth, trials = {}, {}
    for side, levels in LEVELS.items():
        reach = np.exp(spread * rng.normal(size=rows))
        truth[side] = 0.1 + 0.6 * (1 - np.exp(-reach * levels[:, None] / 60))
        level = rng.integers(0, levels.size, rows)
        y = (rng.random(rows) < truth[side][level, np.arange(rows)]).astype(float)
        trials[side] = RandomizedRows(
            level=level,
            value=y,
            cost=levels[level].astype(float),
            propensity=np.full(rows, 1 / levels.size),
            account=np.array([f"{side}{i}" for i in range(rows)]),
        )
    return World(truth, trials)


def curves(response: dict[str, np.ndarray]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {side: (each, np.broadcast_to(LEVELS[side][:, None], each.shape)) for side, each in response.items()}


def compare(world: World, candidate, incumbent=None, *, replications: int = 100, **options) -> AtBudget:
    own = curves(candidate)
    trials = {
        side: RandomizedRows(**{**vars(trial), "expected_value": own[side][0], "expected_cost": own[side][1]})
        for side, trial in world.trials.items()
    }
    return at_budget(
        trials,
        own,
        None if incumbent is None else curves(incumbent),
        interval=Interval(replications=replications),
        spending=Spending(**{"requests": REQUESTS, "budget": BUDGET} | options),
    )


def promoted(found: AtBudget) -> bool:
    rival = "the incumbent"
    return gate(METRICS, against=Against(value=found, rival=rival)).passed


def noise(world: World, seed: int) -> dict[str, np.ndarray]:
    """The right mean curve for everybody, times a number per account that is noise."""
    rng = np.random.default_rng(10_000 + seed)
    return {
        side: each.mean(axis=1, keepdims=True) * np.exp(0.3 * rng.normal(size=each.shape[1]))
        for side, each in world.truth.items()
    }


def test_the_optimum_and_the_best_flat_mixture_are_those_of_the_linear_programs() -> None:
    world = draw(0, 20_000)
    found = compare(world, world.truth, replications=40)
    campaign = Campaign(
        name="c",
        sides={side: Terms(levels=tuple(map(int, levels)), cost_basis="on_grant") for side, levels in LEVELS.items()},
        budget=Budget(limit=int(BUDGET)),
        starts_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    weight = {side: REQUESTS[side] / 20_000 for side in LEVELS}
    truth = {side: Curves(LEVELS[side], each.astype(np.float32)) for side, each in world.truth.items()}
    requests = {side: np.full(20_000, weight[side]) for side in truth}
    exact = solve(CampaignProblem(campaign, truth, requests).whole())
    assert found.candidate.value == pytest.approx(exact.primal, rel=0.02)
    assert found.candidate.low < exact.primal < found.candidate.high
    assert found.price == pytest.approx(exact.prices[0], rel=0.2)
    flat = best_flat({side: each.mean(axis=1) for side, each in world.truth.items()}, LEVELS, BUDGET, REQUESTS)
    assert found.rival.value == pytest.approx(flat.value, rel=0.02)
    assert found.difference.value == pytest.approx(exact.primal - flat.value, rel=0.2)
    # Draws by weights take their money first, and so does the program of the window.
    weights = {"customer": np.array([1.0, 1.0, 1.0, 9.0])}
    drawn = compare(world, world.truth, replications=2, exploration=0.2, weights=weights)
    named = dict(zip(campaign.offer_ids["customer"], weights["customer"], strict=True))
    exploring = replace(campaign, exploration=0.2, exploration_weights={"customer": named})
    assert drawn.candidate.value == pytest.approx(solve_window(exploring, truth, REQUESTS, BUDGET).primal, rel=0.03)
    uniform = solve_window(replace(exploring, exploration_weights={}), truth, REQUESTS, BUDGET)
    assert drawn.candidate.value < 0.97 * uniform.primal


def test_noise_is_promoted_in_at_most_one_of_twenty_trials() -> None:
    passed = {"noise": 0, "mean": 0}
    for seed in range(40):
        world = draw(seed, 1000)
        mean = {side: np.repeat(each.mean(axis=1, keepdims=True), 1000, axis=1) for side, each in world.truth.items()}
        passed["noise"] += promoted(compare(world, noise(world, seed), replications=60))
        passed["mean"] += promoted(compare(world, mean, replications=60))
    assert max(passed.values()) <= 2, passed


def test_the_truth_is_promoted_over_uniform_dosing() -> None:
    passed = [promoted(compare(world, world.truth, replications=60)) for world in (draw(s, 8000) for s in range(8))]
    assert sum(passed) == 8


def test_a_model_that_is_better_on_each_side_may_be_worse_at_the_price_of_both() -> None:
    world = draw(1, 6000)
    rng = np.random.default_rng(5)
    # The incumbent errs on every account by chance; the candidate orders each side perfectly and believes that
    # customers are worth six times as much, so that one price for both gives them all the money.
    incumbent = {side: each * np.exp(0.15 * rng.normal(size=each.shape[1])) for side, each in world.truth.items()}
    candidate = {"customer": 0.15 * world.truth["customer"], "merchant": world.truth["merchant"]}
    requests = {"customer": 1000.0, "merchant": 1000.0}
    for side in LEVELS:
        alone = compare(
            World({side: world.truth[side]}, {side: world.trials[side]}),
            {side: candidate[side]},
            {side: incumbent[side]},
            requests={side: 1000.0},
            budget=20_000.0,
        )
        assert alone.difference.value > 0, side
    both = compare(world, candidate, incumbent, requests=requests, budget=40_000.0)
    assert both.difference.high < 0
    assert not promoted(both)


def test_the_traffic_of_each_side_and_exploration_are_counted() -> None:
    world = draw(2, 4000)
    few = compare(world, world.truth, requests={"customer": 3000.0, "merchant": 0.0}, replications=20)
    alone = World({"customer": world.truth["customer"]}, {"customer": world.trials["customer"]})
    same = compare(alone, {"customer": world.truth["customer"]}, requests={"customer": 3000.0}, replications=20)
    assert few.candidate.value == pytest.approx(same.candidate.value, rel=0.01)
    explored = compare(world, world.truth, exploration=0.5, replications=20)
    plain = compare(world, world.truth, replications=20)
    assert explored.candidate.value < plain.candidate.value
    assert 0 < explored.difference.value < plain.difference.value


def test_a_budget_below_the_cheapest_levels_is_named() -> None:
    world = draw(3, 800)
    dear = {side: RandomizedRows(**{**vars(t), "cost": np.asarray(t.cost) + 100}) for side, t in world.trials.items()}
    own = {side: (v, c + 100.0) for side, (v, c) in curves(world.truth).items()}
    trials = {
        s: RandomizedRows(**{**vars(t), "expected_value": own[s][0], "expected_cost": own[s][1]})
        for s, t in dear.items()
    }
    found = at_budget(
        trials, own, spending=Spending(requests=REQUESTS, budget=1000.0), interval=Interval(replications=10)
    )
    assert found.least_cost == pytest.approx(350_000, rel=0.05)
    result = gate(METRICS, against=Against(value=found, rival="uniform dosing"))
    assert not result.passed
    assert "raise the budget" in result.reasons[0]


def test_sides_that_differ_are_refused_by_name() -> None:
    world = draw(4, 200)
    with pytest.raises(InvalidInput, match="requests"):
        compare(world, world.truth, requests={"customer": 1.0})


def test_prices_reach_the_worth_of_offers_that_are_not_beside_each_other() -> None:
    """Of three offers of costs 0, 1 and 1 the last is worth most: its step starts at the first."""
    value = np.array([[0.0, 0.0], [0.1, 0.3], [0.5, 0.2]])
    equal = np.repeat([[0.0], [1.0], [1.0]], 2, axis=1)
    assert sorted(step_worth(value, equal)) == pytest.approx([0.1, 0.2, 0.3, 0.5])
    falling = np.repeat([[1.0], [0.0], [2.0]], 2, axis=1)
    assert sorted(step_worth(value, falling)) == pytest.approx([0.2, 0.2, 0.5])
    # Where each level costs more than the one before, the steps are those between neighbors.
    ascending = np.repeat([[0.0], [1.0], [2.0]], 2, axis=1)
    assert sorted(step_worth(value, ascending)) == pytest.approx([0.1, 0.3, 0.4])
