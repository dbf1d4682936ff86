"""The two measures of S0's tables that are not metrics of the library."""

import numpy as np
import pytest

from research.summary import Summary
from research.tables.s0.change_points import proportional_error
from research.tables.s0.comparison import OURS, PAYMENTS, SHARE, decisions, relative
from shadowprice.allocation import Problem, Resource, on_response, solve
from shadowprice.datasets.world import CUSTOMER_LEVELS, customer_response, own_change_point_response

LEVELS = np.array(CUSTOMER_LEVELS)


def at_equal_cost(believed: np.ndarray, true: np.ndarray, levels: np.ndarray, budget: float) -> float:
    return decisions(believed, true, levels, budget)[PAYMENTS]


def truth(accounts: int, seed: int = 0) -> np.ndarray:
    return customer_response(np.random.default_rng(seed).normal(size=(accounts, 2)))


def test_what_the_truth_itself_buys_is_the_optimum_at_that_cost() -> None:
    curves, budget = truth(2000), 20.0
    limit = Resource.total("budget", on_response(LEVELS), budget * 2000)
    best = solve(Problem(curves.astype(np.float32), [limit]))
    assert at_equal_cost(curves, curves, LEVELS, budget) == pytest.approx(best.dual / 2000, rel=2e-3)


def test_a_model_that_knows_less_buys_less() -> None:
    curves = truth(2000)
    shuffled = curves[:, np.random.default_rng(1).permutation(2000)]
    assert at_equal_cost(shuffled, curves, LEVELS, 20.0) < 0.99 * at_equal_cost(curves, curves, LEVELS, 20.0)


def test_believing_in_twice_the_response_changes_nothing_at_one_cost() -> None:
    curves = 0.5 * truth(500)
    found = [at_equal_cost(scale * curves, curves, LEVELS, 10.0) for scale in (1.0, 2.0)]
    assert found[0] == pytest.approx(found[1], rel=1e-9)


def test_proportional_curves_are_met_exactly_and_the_worlds_are_not() -> None:
    random = np.random.default_rng(2)
    proportional = 1 - np.exp(-np.cumsum(random.uniform(0.05, 0.4, 8))[:, None] * np.exp(random.normal(size=300)))
    assert proportional_error(proportional) < 1e-4
    assert proportional_error(truth(300)) > 0.01


def test_verdicts_of_several_comparisons_are_counted() -> None:
    values = [
        {
            OURS: {"error": 1.0 + n},
            "a": {"error": 2.0 + n + e},
            "b": {"error": 3.0 + n},
            "c": {"error": 1.0 + n - 9 * e},
        }
        for n, e in ((0.0, 0.1), (5.0, -0.1), (2.0, 0.05))
    ]
    found = Summary(values, ["error"], compare=tuple(("error", OURS, other) for other in "abc"))
    verdicts = found.tally([("error", OURS, other) for other in "abc"])
    assert verdicts == "better in 2 and not significantly different in 1 of 3 comparisons"
    assert found.tally([("error", OURS, "c")]) == "not significantly different in 1 of 1 comparisons"


def test_proportional_curves_follow_customers_who_move_alike_and_not_those_who_do_not() -> None:
    strength = np.random.default_rng(0).normal(size=(400, 2))
    alike, apart = (proportional_error(truth(strength)) for truth in (customer_response, own_change_point_response))
    assert apart > 2 * alike


def test_the_attainable_gain_is_all_with_the_truth_and_none_where_everybody_is_alike() -> None:
    curves = truth(2000)
    alike = np.repeat(curves.mean(axis=1, keepdims=True), 2000, axis=1)
    assert decisions(curves, curves, LEVELS, 20.0)[SHARE] == pytest.approx(100.0)
    assert decisions(alike, curves, LEVELS, 20.0)[SHARE] == pytest.approx(0.0, abs=2.0)


def test_payments_are_shown_relative_to_one_row() -> None:
    found = {"a": {PAYMENTS: 2.0}, "b": {PAYMENTS: 2.1}, "c": {"error": 1.0}}
    assert relative(found, "a") == "payments at equal cost, % over a"
    assert found["a"] == {"payments at equal cost, % over a": 0.0}
    assert found["b"]["payments at equal cost, % over a"] == pytest.approx(5.0)
    assert found["c"] == {"error": 1.0}
