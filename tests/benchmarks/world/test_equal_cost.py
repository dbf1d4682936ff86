"""Values at one true cost: duality against the solver, and what a split of the budget can lose."""

import numpy as np
import pytest

from benchmarks.world.equal_cost import Choices, attainable, best_split, reachable, value_at_cost
from shadowprice.allocation import Problem, Resource, on_response, solve
from shadowprice.datasets.world import CUSTOMER_LEVELS, MERCHANT_LEVELS, customer_response, merchant_response

RANDOM = np.random.default_rng(0)
CUSTOMERS = customer_response(RANDOM.normal(size=(1600, 2)))
MERCHANTS = merchant_response(RANDOM.normal(size=(400, 2)))


def side(response: np.ndarray, levels: tuple[int, ...], basis: str, believed: np.ndarray | None = None) -> Choices:
    def cost(curves: np.ndarray) -> np.ndarray:
        paid = np.asarray(levels, dtype=float)[:, None]
        return paid * curves if basis == "on_response" else np.broadcast_to(paid, curves.shape)

    known = response if believed is None else believed
    return Choices(known, cost(known), response, cost(response))


def both(basis: str) -> list[Choices]:
    return [side(CUSTOMERS, CUSTOMER_LEVELS, "on_response"), side(MERCHANTS, MERCHANT_LEVELS, basis)]


@pytest.mark.parametrize("basis", ["on_response", "on_grant"])
@pytest.mark.parametrize("per_request", [12.0, 24.0, 36.0])
def test_one_price_on_true_curves_is_the_optimum_and_the_best_split_of_all(basis: str, per_request: float) -> None:
    """Strong duality of the linear program: no split of the budget earns more than one price."""
    budget = per_request * 2000
    joint, split = value_at_cost(both(basis), budget), best_split(both(basis), budget)
    assert split == pytest.approx(joint, rel=1e-3)
    assert split <= joint * (1 + 1e-9)


def test_one_side_earns_what_the_solver_certifies() -> None:
    limit = Resource.total("budget", on_response(np.array(CUSTOMER_LEVELS)), 24.0 * 1600)
    certified = solve(Problem(CUSTOMERS.astype(np.float32), [limit]))
    found = value_at_cost([side(CUSTOMERS, CUSTOMER_LEVELS, "on_response")], 24.0 * 1600)
    assert found == pytest.approx(certified.dual, rel=1e-4)


def test_a_split_far_from_the_optimum_loses_value() -> None:
    first, second = both("on_grant")
    split = value_at_cost([first], 10_000.0) + value_at_cost([second], 18_000.0)
    assert split < 0.95 * value_at_cost([first, second], 28_000.0)


def test_one_price_moves_money_to_the_side_whose_response_is_overstated() -> None:
    """A bias between the sides costs the joint price and leaves separate budgets as they are."""
    twice = side(MERCHANTS, MERCHANT_LEVELS, "on_grant", 3.0 * MERCHANTS)
    honest, biased = both("on_grant"), [both("on_grant")[0], twice]
    assert value_at_cost(biased, 48_000.0) < value_at_cost(honest, 48_000.0) - 1.0
    assert value_at_cost([twice], 12_000.0) == pytest.approx(value_at_cost([honest[1]], 12_000.0))
    assert best_split(biased, 48_000.0) == pytest.approx(best_split(honest, 48_000.0))


def test_the_best_flat_mixture_is_the_best_mixture_of_two_levels() -> None:
    """Every pair of levels of one side, mixed to the budget: the brute force over flat policies."""
    customers, budget = both("on_grant")[0], 24.0 * 1600
    cost, value = customers.cost.sum(axis=1), customers.value.sum(axis=1)
    mixed = [
        value[low] + (value[high] - value[low]) * (budget - cost[low]) / (cost[high] - cost[low])
        for low in range(8)
        for high in range(8)
        if cost[low] <= budget < cost[high]
    ]
    assert attainable([customers], budget).flat == pytest.approx(max(mixed), rel=1e-9)


def test_the_best_flat_mixture_of_both_sides_lies_between_the_lowest_levels_and_the_optimum() -> None:
    sides, budget = both("on_grant"), 48_000.0
    between = attainable(sides, budget)
    assert between.lowest == pytest.approx(CUSTOMERS[0].sum() + MERCHANTS[0].sum())
    assert between.lowest < between.flat < between.best
    assert between.best == pytest.approx(value_at_cost(sides, budget))


def test_a_commission_that_is_paid_for_certain_needs_a_budget() -> None:
    second = both("on_grant")[1]
    assert reachable(second, 10.0 * 400)
    assert not reachable(second, 9.9 * 400)
