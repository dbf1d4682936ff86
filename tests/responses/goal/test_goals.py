"""Goals and their gradients against brute force and the plain metric."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from research.data.misspecified import World
from research.measures.truth import true_value_at_spend
from shadowprice.errors import InvalidInput
from shadowprice.evaluation import metrics
from shadowprice.responses.goal import make_estimator
from shadowprice.responses.goal.goals import BudgetGoal, LagrangianGoal
from shadowprice.responses.goal.path import outcome_path
from shadowprice.responses.goal.trial import GoalRows


def simulated(rows: int, seed: int = 0, nuisance: float = 0.0):
    """Predictions that know the truth roughly, and the trial; float64."""
    drawn = World(0, nuisance=nuisance).trial(rows, seed)
    frame = drawn.frame
    random = np.random.default_rng(seed)
    value = torch.tensor((drawn.value + 0.5 * random.normal(size=drawn.value.shape)).T)
    cost = torch.tensor(drawn.cost.T)
    none = torch.zeros(rows, dtype=torch.float64)
    columns = [torch.tensor(frame[name].to_numpy()) for name in ("level", "response", "cost")]
    return value, cost, GoalRows(*columns, torch.tensor(1.0 / frame["propensity"].to_numpy()), none, none), drawn


def test_the_goal_is_the_plain_metric() -> None:
    value, cost, trial, drawn = simulated(4000)
    frame = drawn.frame
    plain = [
        metrics.eom(
            value.T, cost.T, frame["level"], frame["response"], frame["cost"], frame["propensity"], budget=budget
        )
        for budget in (80.0, 150.0)
    ]
    assert BudgetGoal([80.0, 150.0]).measure(value, cost, trial) == pytest.approx(np.mean(plain), abs=0.02)


def test_a_baseline_leaves_the_mean_and_takes_the_nuisance_out() -> None:
    found = {False: [], True: []}
    for seed in range(60):
        value, cost, trial, drawn = simulated(500, seed, nuisance=20.0)
        known = torch.tensor(drawn.value.mean(axis=0))
        for baseline in found:
            rows = replace(trial, value_baseline=known) if baseline else trial
            truth = np.take_along_axis(drawn.value, (value - 0.01 * cost).argmax(dim=1).numpy()[None], 0).mean()
            truth -= 0.01 * np.take_along_axis(drawn.cost, (value - 0.01 * cost).argmax(dim=1).numpy()[None], 0).mean()
            found[baseline].append(LagrangianGoal([0.01], ratio=True).measure(value, cost, rows) - truth)
    plain, reduced = np.array(found[False]), np.array(found[True])
    assert abs(reduced.mean()) < 4 * reduced.std(ddof=1) / np.sqrt(60)
    assert reduced.std() < 0.2 * plain.std()


@pytest.mark.parametrize("ratio", [True, False])
def test_the_gradient_of_the_lagrangian_is_that_of_the_soft_goal(ratio: bool) -> None:
    value, cost, trial, _ = simulated(40)
    estimator = make_estimator("softmax", width=0.7, relative=False)
    value.requires_grad_()
    cost.requires_grad_()
    LagrangianGoal([0.005], ratio=ratio).loss(value, cost, trial, estimator).backward()

    def soft(v: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        m = ((v - 0.005 * c) / 0.7).softmax(dim=1).gather(1, trial.level[:, None]).squeeze(1)
        net = trial.weight * m * (trial.value - 0.005 * trial.cost)
        return -(net.sum() / (trial.weight * m).sum() if ratio else net.mean())

    other_value, other_cost = value.detach().clone().requires_grad_(), cost.detach().clone().requires_grad_()
    soft(other_value, other_cost).backward()
    torch.testing.assert_close(value.grad, other_value.grad)
    torch.testing.assert_close(cost.grad, other_cost.grad)


def test_the_gradient_of_the_budget_goal_climbs_at_equal_spend() -> None:
    """A step along the estimate raises the true value at the budget; the opposite step lowers it."""
    value, cost, trial, drawn = simulated(8000)
    value = value + 1.0 * torch.randn(value.shape, generator=torch.Generator().manual_seed(1), dtype=value.dtype)
    goal = BudgetGoal([100.0, 200.0])
    for name in ("ifd", "softmax", "perturbed", "nes"):
        moved = value.clone().requires_grad_()
        goal.loss(moved, cost, trial, make_estimator(name)).backward()
        step = -moved.grad / moved.grad.std()
        before, after, back = (_true_value(value + size * step, cost, drawn) for size in (0.0, 0.3, -0.3))
        assert after > before + 0.005, name
        assert back < before - 0.005, name


def _true_value(value, cost, drawn) -> float:
    return float(true_value_at_spend(value.T, cost.T, drawn.value, drawn.cost, [100.0, 200.0]).mean())


def test_the_price_of_a_budget_spends_it_and_the_worth_is_the_slope() -> None:
    value, cost, trial, drawn = simulated(20_000)
    path = outcome_path(value, cost, trial)
    assert path.prices[0] == 0
    for budget in (60.0, 100.0, 140.0):
        chosen = (value - path.price(budget) * cost).argmax(dim=1, keepdim=True)
        assert float(cost.gather(1, chosen).mean()) == pytest.approx(budget, abs=8.0)
        ends = true_value_at_spend(value.T, cost.T, drawn.value, drawn.cost, [budget - 20, budget + 20])
        assert path.worth(budget) == pytest.approx((ends[1] - ends[0]) / 40, rel=0.5)


def test_goals_without_anything_to_aim_at_are_refused() -> None:
    with pytest.raises(InvalidInput, match="budgets"):
        BudgetGoal([])
    with pytest.raises(InvalidInput, match="prices"):
        LagrangianGoal([])
