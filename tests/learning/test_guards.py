"""Second outcomes by level: known truth, from a trial whose levels were not equally likely for all."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from shadowprice.curves import Curves
from shadowprice.learning.amounts import with_amounts
from shadowprice.learning.guards import guards_of_side, means_of
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.inputs import Inputs

TRUTH = np.array([0.075, 0.105, 0.21])
"""Mean over two kinds of accounts, of which one complains twice as often as the mean, and the other never."""


def trial(seed: int, accounts: int = 3000) -> pd.DataFrame:
    """Two rows an account; those who complain are given the highest level more often."""
    rng = np.random.default_rng(seed)
    often = np.repeat(rng.random(accounts) < 0.5, 2)
    chances = np.where(often[:, None], [0.1, 0.3, 0.6], [0.6, 0.3, 0.1])
    level = (rng.random(often.size)[:, None] > chances.cumsum(axis=1)).sum(axis=1)
    seen = (rng.random(often.size) < np.where(often, 2 * TRUTH[level], 0.0)).astype(float)
    seen[rng.random(often.size) < 0.1] = np.nan
    columns = {
        "account_id": np.repeat(np.arange(accounts).astype(str), 2),
        "level": level,
        "outcome_x_complaints": seen,
    }
    return pd.DataFrame(columns | {"propensity": chances[np.arange(level.size), level], "response": 0.0})


def test_means_by_level_weigh_each_row_by_its_chance_and_their_intervals_cover() -> None:
    found = [guards_of_side(trial(seed), 3)["x_complaints"] for seed in range(60)]
    value = np.array([[level.value for level in levels] for levels in found])
    covered = np.array([[e.low <= t <= e.high for e, t in zip(levels, TRUTH, strict=True)] for levels in found])
    assert value.mean(axis=0) == pytest.approx(TRUTH, abs=0.004)
    # 180 intervals of 95 %: fewer than 0.89 or all of them would be off by more than three standard errors.
    assert 0.89 < covered.mean() < 1
    # The rows as they are would say twice as much of the highest level as is true of the lowest.
    plain = trial(0).groupby("level")["outcome_x_complaints"].mean()
    assert abs(plain[2] - TRUTH[2]) > 0.1


def test_rows_without_the_outcome_are_left_out_and_so_is_an_outcome_that_a_level_lacks() -> None:
    rows = trial(1)
    assert guards_of_side(rows.drop(columns="outcome_x_complaints"), 3) == {}
    rows.loc[rows["level"] == 1, "outcome_x_complaints"] = np.nan
    assert guards_of_side(rows, 3) == {}


def test_a_count_is_averaged_too() -> None:
    rows = trial(2).assign(outcome_x_contacts=lambda frame: frame["level"] * 2.0).drop(columns="propensity")
    assert means_of({"x": guards_of_side(rows, 3)["x_contacts"]})["x"].tolist() == [0, 2, 4]


def test_curves_of_a_comparison_get_the_outcomes_of_their_side() -> None:
    rows = trial(3).assign(split="train")
    data = TrainingSet({"customer": rows}, {}, Inputs(), {"customer": (0, 100, 200)}, {})
    curves = {"customer": Curves(np.array([0, 100, 200]), np.full((3, 4), 0.1))}
    found = with_amounts(data, curves)["customer"]
    np.testing.assert_array_equal(found.guards["x_complaints"], means_of(guards_of_side(rows, 3))["x_complaints"])
    assert found.take([1, 3]).guards is found.guards
    assert found.between(slice(0, 2)).guards is found.guards
    assert found.mean().guards is found.guards
    assert Curves.concatenate([found, found]).guards is found.guards
    own = {"x_complaints": np.zeros(3)}
    assert with_amounts(data, {"customer": replace(curves["customer"], guards=own)})["customer"].guards is own
