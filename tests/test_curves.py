"""Levels and curves: their shapes, their types, and what they refuse."""

from collections.abc import Callable

import numpy as np
import pytest

from shadowprice.curves import Curves, check_levels
from shadowprice.errors import InvalidInput

LEVELS = np.array([1, 5, 10])
RESPONSE = np.arange(12, dtype=np.float64).reshape(3, 4) / 12


def test_levels_are_whole_minor_units_whatever_they_came_as() -> None:
    for given in ([0, 5, 10], (0.0, 5.0, 10.0), np.array([0, 5, 10], dtype=np.int16)):
        levels = check_levels(given)
        assert levels.dtype == np.int64
        assert levels.tolist() == [0, 5, 10]


def test_curves_are_kept_level_major_in_single_precision() -> None:
    curves = Curves([1, 5, 10], np.asfortranarray(RESPONSE))  # type: ignore[arg-type]
    assert curves.response.dtype == np.float32
    assert curves.response.flags.c_contiguous
    assert curves.levels.dtype == np.int64
    assert curves.accounts == 4
    np.testing.assert_array_equal(curves.response, RESPONSE.astype(np.float32))


def test_taking_accounts_keeps_their_order_and_their_repeats() -> None:
    taken = Curves(LEVELS, RESPONSE).take([2, 0, 2])
    np.testing.assert_array_equal(taken.response, RESPONSE[:, [2, 0, 2]].astype(np.float32))
    masked = Curves(LEVELS, RESPONSE).take(np.array([True, False, False, True]))
    np.testing.assert_array_equal(masked.response, RESPONSE[:, [0, 3]].astype(np.float32))


def test_groups_are_joined_in_order_and_only_over_the_same_levels() -> None:
    whole = Curves(LEVELS, RESPONSE)
    joined = Curves.concatenate([whole.take([0, 1]), whole.take([2, 3])])
    np.testing.assert_array_equal(joined.response, whole.response)
    with pytest.raises(InvalidInput, match="levels"):
        Curves.concatenate([whole, Curves(LEVELS + 1, RESPONSE)])


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("levels", lambda: check_levels([])),
        ("levels", lambda: check_levels([[1, 2]])),
        ("levels", lambda: check_levels([1, 1])),
        ("levels", lambda: check_levels([2, 1])),
        ("levels", lambda: check_levels([-1, 1])),
        ("levels", lambda: check_levels([0.5])),
        ("levels", lambda: check_levels([float("nan")])),
        ("response", lambda: Curves(LEVELS, RESPONSE[:2])),
        ("response", lambda: Curves(LEVELS, RESPONSE.T)),
        ("response", lambda: Curves(LEVELS, RESPONSE[:, 0])),
    ],
)
def test_a_wrong_argument_is_named(field: str, make: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput) as caught:
        make()
    assert caught.value.field == field
