"""Checks name the field, the rows and what is allowed."""

import numpy as np
import pytest

from shadowprice.checks import refuse_rows, require, require_one_of
from shadowprice.errors import InvalidInput


def test_a_check_that_holds_is_silent_and_another_names_its_field() -> None:
    require([1], "budgets", "needs one")
    with pytest.raises(InvalidInput, match=r"^budgets: needs one$"):
        require([], "budgets", "needs one")


def test_what_is_allowed_is_listed_in_the_order_given() -> None:
    require_one_of("known", ("none", "known"), "weighting")
    with pytest.raises(InvalidInput, match=r"^weighting: must be one of none, known, got 'x'$"):
        require_one_of("x", ("none", "known"), "weighting")


def test_the_first_five_rows_are_named() -> None:
    refuse_rows("level", np.zeros(3, dtype=bool), "must be known")
    with pytest.raises(InvalidInput, match="must be known") as refused:
        refuse_rows("level", np.arange(9) > 1, "must be known")
    assert refused.value.rows == (2, 3, 4, 5, 6)
