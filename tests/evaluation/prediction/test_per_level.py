import numpy as np
import pandas as pd
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.prediction.per_level import response_by_level
from shadowprice.evaluation.statistics.intervals import Interval


def test_the_table_by_level_agrees_with_a_groupby_and_leaves_an_unseen_level_empty():
    rng = np.random.default_rng(0)
    level = rng.integers(0, 3, 500)
    frame = pd.DataFrame({"level": level, "y": rng.integers(0, 2, 500), "p": rng.random(500), "truth": rng.random(500)})
    found = response_by_level(frame["y"], frame["p"], frame["level"], [10, 40, 90, 200], truth=frame["truth"])
    by = frame.groupby("level").mean()
    assert found.levels.tolist() == [10, 40, 90, 200]
    assert found.observed[:3] == pytest.approx(by["y"].to_numpy())
    assert found.predicted[:3] == pytest.approx(by["p"].to_numpy())
    assert found.truth[:3] == pytest.approx(by["truth"].to_numpy())
    assert found.rows[3] == 0
    assert np.isnan([found.observed[3], found.predicted[3], found.truth[3]]).all()


def test_weights_turn_the_means_into_weighted_means():
    found = response_by_level([0, 1, 1], [0.2, 0.4, 0.6], [0, 0, 1], [5, 9], truth=[0.1, 0.5, 0.6], weight=[1, 3, 2])
    assert found.observed == pytest.approx([0.75, 1.0])
    assert found.predicted == pytest.approx([0.35, 0.6])
    assert found.truth == pytest.approx([0.4, 0.6])


def test_intervals_cover_the_true_rate_when_accounts_repeat():
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        account = np.repeat(np.arange(150), 4)
        rate = rng.beta(1, 3, 150)[account]
        y = rng.random(600) < rate
        found = response_by_level(y, rate, np.zeros(600, dtype=int), [50], interval=Interval(cluster=account))
        covered += found.low[0] <= 0.25 <= found.high[0]
    assert 0.91 * 200 <= covered <= 0.99 * 200


@pytest.mark.parametrize("level", [[0, 2], [0, -1], [0.0, 1.0]])
def test_a_level_index_outside_the_levels_is_refused(level):
    with pytest.raises(InvalidInput, match="level"):
        response_by_level([0, 1], [0.1, 0.2], level, [10, 20])
