"""What a problem accepts, what it refuses, and that the refusal names the argument."""

from collections.abc import Callable

import numpy as np
import pytest

from shadowprice.allocation import Problem, Resource, on_response, solve
from shadowprice.errors import InvalidInput, InvalidProblem

VALUE = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], dtype=np.float32)
LEVELS = np.array([10, 20])


def total(**changes: object) -> Resource:
    arguments: dict[str, object] = {"name": "money", "cost": LEVELS, "limit": 40.0} | changes
    return Resource.total(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("value", lambda: Problem(VALUE[0], [total()])),
        ("value", lambda: Problem(np.zeros((2, 0), dtype=np.float32), [total()])),
        ("value", lambda: Problem(np.ones((2, 3), dtype=np.int64), [total()])),  # type: ignore[arg-type]
        ("value", lambda: Problem(np.where(VALUE > 0.5, np.nan, VALUE), [total()])),
        ("value", lambda: Problem(np.where(VALUE > 0.5, np.inf, VALUE), [total()])),
        ("resources", lambda: Problem(VALUE, total())),  # type: ignore[arg-type]
        ("resources", lambda: Problem(VALUE, [total(), total()])),
        ("allowed", lambda: Problem(VALUE, [total()], np.ones((2, 2), dtype=bool))),
        ("allowed", lambda: Problem(VALUE, [total()], np.ones((2, 3)))),  # type: ignore[arg-type]
        ("allowed", lambda: Problem(VALUE, [total()], np.array([[True, True, False]] * 2))),
        ("resource.name", lambda: total(name="")),
        ("money.limit", lambda: total(limit=-1.0)),
        ("money.limit", lambda: total(limit=np.nan)),
        ("money.limit", lambda: total(limit=np.inf)),
        ("money.carry", lambda: total(carry=np.nan)),
        ("cost", lambda: total(cost=np.ones((2, 3, 1)))),
        ("levels", lambda: total(cost=on_response([-20, 10]))),
        ("levels", lambda: total(cost=on_response([0.5, 10]))),
        ("money.cost", lambda: Problem(VALUE, [total(cost=[1, 2, 3])])),
        ("money.cost", lambda: Problem(VALUE, [total(cost=np.ones((3, 3)))])),
        ("money.cost", lambda: Problem(VALUE, [total(cost=on_response([10, 20, 30]))])),
        ("money.cost", lambda: Problem(VALUE, [total(cost=[-1, 2])])),
        ("money.cost", lambda: Problem(VALUE, [total(cost=[np.nan, 2])])),
        ("money.cost", lambda: Problem(VALUE, [total(cost=on_response(LEVELS, -VALUE))])),
        ("members", lambda: total(members=np.ones((1, 3), dtype=bool))),
        ("members", lambda: total(members=np.array([0.5]))),
        ("money.members", lambda: Problem(VALUE, [total(members=np.ones(4, dtype=bool))])),
        ("money.members", lambda: Problem(VALUE, [total(members=np.array([0, 3]))])),
        ("money.members", lambda: Problem(VALUE, [total(members=np.array([-1]))])),
        ("money.response", lambda: Problem(VALUE, [Resource.per_response("money", LEVELS, 1.0, VALUE[:1])])),
        ("money.response", lambda: Problem(VALUE, [Resource.per_response("money", LEVELS, 1.0, VALUE * np.nan)])),
    ],
)
def test_a_malformed_problem_names_the_argument(field: str, make: Callable[[], Problem]) -> None:
    with pytest.raises(InvalidInput) as caught:
        solve(make())
    assert caught.value.field == field


def test_the_rows_of_a_refused_problem_are_named() -> None:
    broken = VALUE.copy()
    broken[1, 2] = np.nan
    with pytest.raises(InvalidProblem) as caught:
        solve(Problem(broken, [total()]))
    assert caught.value.rows == (2,)


def test_every_way_to_write_a_cost_is_the_same_problem() -> None:
    rng = np.random.default_rng(0)
    value = np.sort(rng.random((2, 50)), axis=0)
    granted = [LEVELS, np.repeat(LEVELS[:, None], 50, axis=1)]
    paid = [on_response(LEVELS), on_response(LEVELS, value), LEVELS[:, None] * value]
    for group in (granted, paid):
        solved = [solve(Problem(value, [Resource.per_account("money", cost, 9.0 + 5.0)])) for cost in group]
        for other in solved[1:]:
            assert other.primal == solved[0].primal
            np.testing.assert_array_equal(other.level, solved[0].level)


def test_members_may_be_a_mask_or_indices_and_the_rest_is_free() -> None:
    mask = np.array([True, False, True])
    by_mask = solve(Problem(VALUE, [total(limit=25.0, members=mask)]))
    by_index = solve(Problem(VALUE, [total(limit=25.0, members=np.flatnonzero(mask))]))
    assert by_mask.primal == by_index.primal
    assert by_mask.level[1] == 1  # not counted, so nothing stands against its best level
    assert by_mask.spend[0] <= 25.0 * (1 + 1e-12)


def test_on_response_cost_follows_the_value_when_no_response_is_given() -> None:
    solved = solve(Problem(VALUE, [total(cost=on_response(LEVELS))]))
    written = solve(Problem(VALUE, [total(cost=LEVELS[:, None] * VALUE.astype(np.float64))]))
    np.testing.assert_allclose(solved.spend, written.spend)
    np.testing.assert_allclose(solved.prices, written.prices)


def test_carry_is_money_on_top_of_the_limit() -> None:
    with_carry = solve(Problem(VALUE, [total(limit=30.0, carry=12.5)]))
    plain = solve(Problem(VALUE, [total(limit=42.5)]))
    assert (with_carry.primal, with_carry.prices[0]) == (plain.primal, plain.prices[0])
