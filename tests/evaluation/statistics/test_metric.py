import inspect

import numpy as np
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.evaluation import Interval, metrics

rng = np.random.default_rng(0)
Y = rng.integers(0, 2, 50)
P = rng.random(50)


@pytest.mark.parametrize("name", ["auc", "brier", "ece", "logloss", "mae", "mse"])
def test_every_metric_of_predictions_treats_a_whole_weight_as_repeated_rows(name):
    call = getattr(metrics, name)
    # Equal groups, because repeating rows moves the quantiles that ece would otherwise cut at.
    options = {"groups": np.arange(50) % 4} if name == "ece" else {}
    repeated = {"groups": np.repeat(np.arange(50) % 4, 1 + np.arange(50) % 3)} if name == "ece" else {}
    times = 1 + np.arange(50) % 3
    expected = call(np.repeat(Y, times), np.repeat(P, times), **repeated)
    assert call(Y, P, weight=times, **options) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["auc", "brier", "ece", "logloss", "mae", "mse"])
def test_every_metric_gives_an_estimate_around_its_value_when_asked_for_an_interval(name):
    call = getattr(metrics, name)
    found = call(Y, P, interval=Interval(replications=200, cluster=np.arange(50) // 2))
    assert found.value == call(Y, P)
    assert found.low < found.high
    assert isinstance(call(Y, P), float)


def test_a_metric_is_a_function_that_shows_its_arguments_and_takes_them_by_name():
    assert inspect.isfunction(metrics.ece)
    assert list(inspect.signature(metrics.ece).parameters) == ["y", "p", "groups", "bins", "weight", "interval"]
    assert "calibration error" in metrics.ece.__doc__
    assert metrics.mse(p=P, y=Y, weight=P) == metrics.mse(Y, P, weight=P)


def test_the_registered_names_are_the_public_ones_and_callable():
    assert set(metrics.__all__) >= {"auc", "logloss", "brier", "mae", "mse", "ece", "rpr", "epr", "mlss"}
    for name in metrics.__all__:
        assert callable(getattr(metrics, name))
        assert getattr(metrics, name).__name__ == name


@pytest.mark.parametrize(
    ("y", "p", "field", "rows"),
    [
        ([0, 1, np.nan], [0.1, 0.2, 0.3], "y", (2,)),
        ([0, 1, 1], [0.1, np.inf, 0.3], "p", (1,)),
        ([0, 1], [0.1, 0.2, 0.3], "p", ()),
        ([0, 2, 1], [0.1, 0.2, 0.3], "y", (1,)),
        ([0, 1, 1], [0.1, 0.2, 1.3], "p", (2,)),
        ([], [], "y", ()),
        ([0, None], [0.1, 0.2], "y", (1,)),
        ([[0, 1]], [0.1, 0.2], "y", ()),
    ],
)
def test_a_bad_argument_is_refused_with_its_name_and_rows(y, p, field, rows):
    with pytest.raises(InvalidInput) as refusal:
        metrics.logloss(y, p)
    assert refusal.value.field == field
    assert refusal.value.rows == rows


@pytest.mark.parametrize("weight", [[1, -1], [0, 0], [1, 1, 1]])
def test_weights_that_are_negative_or_zero_or_too_many_are_refused(weight):
    with pytest.raises(InvalidInput, match="weight"):
        metrics.mse([0, 1], [0.2, 0.9], weight=weight)
