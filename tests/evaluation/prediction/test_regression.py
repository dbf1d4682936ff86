import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, mean_squared_error

from shadowprice.evaluation import metrics


@pytest.mark.parametrize("weighted", [False, True])
def test_mae_and_mse_agree_with_sklearn(weighted):
    rng = np.random.default_rng(2)
    y, p = rng.lognormal(0, 1, 300), rng.lognormal(0, 1, 300)
    weight = rng.random(300) if weighted else None
    assert metrics.mae(y, p, weight=weight) == pytest.approx(mean_absolute_error(y, p, sample_weight=weight))
    assert metrics.mse(y, p, weight=weight) == pytest.approx(mean_squared_error(y, p, sample_weight=weight))
