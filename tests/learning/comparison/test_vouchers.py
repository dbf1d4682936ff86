"""Plain baselines of a model of sessions, against the generator's known truth."""

import numpy as np
import pytest

from shadowprice.curves import Curves
from shadowprice.datasets.vouchers import generate, load
from shadowprice.learning.comparison.vouchers import Baselines, baselines
from shadowprice.learning.sessions import session_set
from shadowprice.learning.training_set import TrainingSet
from shadowprice.tables import campaign_from_tables

SESSIONS, REQUESTS = 3000, 500.0


@pytest.fixture(scope="module")
def known() -> tuple[TrainingSet, np.ndarray, Baselines]:
    """The sessions, the truth (J, N) of the test, and the baselines of a model that knows it."""
    dataset = load(None, seed=3, sessions=SESSIONS, budget=30_000, requests=int(REQUESTS))
    data = session_set(dataset)
    truth = generate(seed=3, sessions=SESSIONS).truth
    assert truth is not None
    curves = truth[(data.rows["customer"]["split"] == "test").to_numpy()].T
    own = Curves(np.asarray(data.levels["customer"]), curves.astype(np.float32))
    return data, curves, baselines(own, data, campaign_from_tables(dataset.tables), REQUESTS)


def value(truth: np.ndarray, levels: np.ndarray, chosen: np.ndarray, budget: float = 30_000) -> float:
    """Redemptions of the requests until the money ends."""
    own = truth[chosen, np.arange(truth.shape[1])]
    cost = REQUESTS * float((levels[chosen] * own).mean())
    return REQUESTS * float(own.mean()) * min(1.0, budget / cost)


def test_greedy_and_one_voucher_bring_what_the_truth_says(known: tuple[TrainingSet, np.ndarray, Baselines]) -> None:
    data, truth, found = known
    levels = np.asarray(data.levels["customer"], dtype=np.float64)
    greedy = value(truth, levels, truth.argmax(axis=0))
    assert found.greedy.low <= greedy <= found.greedy.high
    assert found.greedy.high - found.greedy.low < 0.5 * greedy
    same = [value(truth, levels, np.full(truth.shape[1], level)) for level in range(levels.size)]
    # The best is chosen by the same rows, so that it errs upwards.
    assert 0.9 * max(same) <= found.one_voucher.value
    assert found.one_voucher.low <= max(same)


def test_trees_that_see_no_cart_rank_worse_than_the_truth(known: tuple[TrainingSet, np.ndarray, Baselines]) -> None:
    _, _, found = known
    assert found.auc is not None
    assert found.auc_gain is not None
    assert 0.5 < found.auc.value < 0.75
    assert found.auc_gain.low > 0
    assert set(found.metrics) == {"auc", "mse"}
