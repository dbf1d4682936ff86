import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from shadowprice.evaluation import metrics


@given(st.integers(0, 10_000), st.integers(1, 12), st.booleans())
def test_auc_agrees_with_sklearn_also_with_ties_and_weights(seed, values, weighted):
    rng = np.random.default_rng(seed)
    y = np.r_[0, 1, rng.integers(0, 2, 60)]
    p = rng.integers(0, values, y.size) / values
    weight = rng.random(y.size) + 0.01 if weighted else None
    assert metrics.auc(y, p, weight=weight) == pytest.approx(roc_auc_score(y, p, sample_weight=weight), abs=1e-12)


def test_auc_of_one_class_is_undefined_and_not_an_error():
    assert np.isnan(metrics.auc([1, 1, 1], [0.1, 0.2, 0.3]))


@pytest.mark.parametrize("weighted", [False, True])
def test_logloss_and_brier_agree_with_sklearn(weighted):
    rng = np.random.default_rng(1)
    y, p = rng.integers(0, 2, 500), rng.random(500)
    weight = rng.random(500) if weighted else None
    assert metrics.logloss(y, p, weight=weight) == pytest.approx(log_loss(y, p, sample_weight=weight), rel=1e-12)
    assert metrics.brier(y, p, weight=weight) == pytest.approx(brier_score_loss(y, p, sample_weight=weight), rel=1e-12)


def test_logloss_of_a_certain_wrong_prediction_is_large_but_finite():
    assert metrics.logloss([0, 1], [1.0, 0.0]) == pytest.approx(-np.log(np.finfo(float).eps), rel=1e-3)
