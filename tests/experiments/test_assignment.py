import doctest

import numpy as np
import pytest

from shadowprice import arms
from shadowprice.arms import Arm, Experiment
from shadowprice.errors import InvalidInput
from shadowprice.experiments import assign, assignment

TEST = Experiment(
    arms=(Arm(name="holdout", kind="holdout", share=3000), Arm(name="policy", kind="policy", share=4000)), salt="spring"
)


def test_each_row_gets_the_arm_of_its_unit_also_where_units_repeat() -> None:
    units = np.random.default_rng(0).choice([f"a{row}" for row in range(50)], 400)
    assert assign(TEST, units).tolist() == [TEST.arm_of([unit])[0] for unit in units.tolist()]
    assert assign(TEST, units.astype(object)).tolist() == assign(TEST, units).tolist()
    assert assign(TEST, np.array([7, 8, 7])).tolist() == TEST.arm_of(["7", "8", "7"]).tolist()


def test_a_row_without_a_unit_is_refused() -> None:
    with pytest.raises(InvalidInput, match="none missing"):
        assign(TEST, np.array(["a", None], dtype=object))


def test_the_examples_of_arms_and_assignment_hold() -> None:
    for module in (arms, assignment):
        assert doctest.testmod(module).attempted > 0
        assert doctest.testmod(module).failed == 0
