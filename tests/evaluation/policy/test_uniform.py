"""Uniform dosing against a linear program and brute force."""

import numpy as np
import pytest
from scipy.optimize import linprog

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.uniform import best_flat, flat_frontier


@pytest.mark.parametrize("seed", range(8))
def test_the_best_flat_mixture_is_the_optimum_of_the_linear_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    value = {"customer": rng.random(6), "merchant": rng.random(4)}
    cost = {"customer": rng.uniform(-2, 5, 6), "merchant": rng.uniform(0, 5, 4)}
    requests = {"customer": 30.0, "merchant": 7.0}
    least = sum(requests[side] * cost[side].min() for side in cost)
    for limit in least + np.array([0.0, 0.5, 20.0, 60.0, 1e4]):
        found = best_flat(value, cost, limit, requests)
        columns = {side: requests[side] * np.ones(value[side].size) for side in value}
        exact = linprog(
            -np.concatenate([columns[side] * value[side] for side in value]),
            A_ub=[np.concatenate([columns[side] * cost[side] for side in value])],
            b_ub=[limit + 1e-9],
            A_eq=[[1] * 6 + [0] * 4, [0] * 6 + [1] * 4],
            b_eq=[1, 1],
        )
        assert found.value == pytest.approx(-exact.fun, rel=1e-6)
        assert found.cost <= limit + 1e-6
        assert found.value == pytest.approx(sum(requests[s] * found.shares[s] @ value[s] for s in value))
        assert found.cost == pytest.approx(sum(requests[s] * found.shares[s] @ cost[s] for s in value))
        assert all(share.sum() == pytest.approx(1) and (share >= 0).all() for share in found.shares.values())


def test_the_frontier_is_concave_and_rises() -> None:
    rng = np.random.default_rng(3)
    found = flat_frontier({"a": rng.random(30), "b": rng.random(5)}, {"a": rng.random(30), "b": rng.random(5)})
    slope = np.diff(found.value) / np.diff(found.cost)
    assert (np.diff(found.cost) > 0).all()
    assert (slope > 0).all()
    assert (np.diff(slope) <= 1e-9).all()


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: best_flat({"a": [1, 2]}, {"a": [5, 6]}, 4.0), "limit"),
        (lambda: best_flat({"a": [1, 2]}, {"b": [5, 6]}, 4.0), "cost"),
        (lambda: best_flat({"a": [1, np.nan]}, {"a": [5, 6]}, 4.0), "value.a"),
        (lambda: best_flat({"a": [1, 2]}, {"a": [5, 6]}, 9.0, {"a": -1.0}), "requests"),
    ],
)
def test_input_that_cannot_be_is_refused_by_name(call, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        call()
    assert caught.value.field == field
