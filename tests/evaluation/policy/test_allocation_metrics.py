"""What an allocation brings and costs, by loops over small cases."""

import numpy as np
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.evaluation import Interval, metrics

rng = np.random.default_rng(0)
RESPONSE = rng.random((3, 40))
LEVELS = [100, 250, 700]
CHOSEN = rng.integers(0, 3, 40)


def test_future_response_and_cost_are_means_over_the_levels_chosen():
    response = np.mean([RESPONSE[CHOSEN[i], i] for i in range(40)])
    assert metrics.future_response(RESPONSE, chosen=CHOSEN) == pytest.approx(response)
    granted = np.mean([LEVELS[CHOSEN[i]] for i in range(40)])
    paid = np.mean([LEVELS[CHOSEN[i]] * RESPONSE[CHOSEN[i], i] for i in range(40)])
    options = {"chosen": CHOSEN, "levels": LEVELS}
    assert metrics.future_cost(RESPONSE, **options) == pytest.approx(granted)
    assert metrics.future_cost(RESPONSE, **options, basis="on_response") == pytest.approx(paid)
    assert metrics.cost_error(RESPONSE, **options, limit=granted - 5) == pytest.approx(5)
    assert metrics.cost_error(RESPONSE, **options, limit=granted + 5) == 0
    found = metrics.future_cost(RESPONSE, **options, interval=Interval(replications=200))
    assert found.low < granted < found.high


def test_totals_and_rates_of_deliveries():
    y, amount = np.array([1, 0, 1, 1]), np.array([10.0, 0, 30, 5])
    given, chosen = np.array([0, 1, 2, 2]), np.array([0, 1, 2, 1])
    assert metrics.thc(y, given=given, chosen=chosen) == 2
    assert metrics.tha(amount, given=given, chosen=chosen) == 40
    assert metrics.cpmd(y) == 750
    assert metrics.tapmd(amount) == pytest.approx(1000 * 45 / 4)
    assert metrics.budget_use(amount, limit=90) == 0.5
    assert metrics.objective_ratio([1.0, 2.0], [2.0, 2.0]) == 0.75


def test_relative_improvement_of_the_auc():
    y = rng.integers(0, 2, 300)
    better, worse = y + rng.normal(0, 1, 300), y + rng.normal(0, 3, 300)
    expected = ((metrics.auc(y, better) - 0.5) / (metrics.auc(y, worse) - 0.5) - 1) * 100
    assert metrics.relaimpr(y, better, worse) == pytest.approx(expected)
    # DMBGN against DIN on region A of S3: AUC 0.8034 and 0.7912.
    assert pytest.approx(4.19, abs=0.01) == ((0.8034 - 0.5) / (0.7912 - 0.5) - 1) * 100


def test_normalized_gini_is_the_sum_of_the_lorenz_curve():
    y, p = rng.lognormal(size=101), rng.random(101)

    def gini(order):
        held = np.cumsum(y[order]) / y.sum()
        return held.sum() - (y.size + 1) / 2

    assert metrics.normalized_gini(y, p) == pytest.approx(gini(np.argsort(-p)) / gini(np.argsort(-y)))
    assert metrics.normalized_gini(y, 3 * y) == pytest.approx(1)
    assert metrics.normalized_gini(y, np.ones(101)) == pytest.approx(0, abs=1e-12)
    times = 1 + np.arange(101) % 2
    assert metrics.normalized_gini(y, p, weight=times) == pytest.approx(
        metrics.normalized_gini(np.repeat(y, times), np.repeat(p, times))
    )
    assert np.isnan(metrics.normalized_gini(np.ones(5), np.arange(5)))


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: metrics.future_response(RESPONSE, chosen=[3] * 40), "level"),
        (lambda: metrics.future_response(RESPONSE, chosen=[1, 2]), "chosen"),
        (lambda: metrics.future_cost(RESPONSE, chosen=CHOSEN, levels=[1, 2]), "levels"),
        (lambda: metrics.future_cost(RESPONSE, chosen=CHOSEN, levels=LEVELS, basis="free"), "basis"),
        (lambda: metrics.budget_use([1.0], limit=0), "limit"),
        (lambda: metrics.thc([1.0], given=[1, 2], chosen=[1]), "given"),
        (lambda: metrics.normalized_gini([-1.0, 2], [1, 2]), "y"),
    ],
)
def test_bad_arguments_are_named(call, field):
    with pytest.raises(InvalidInput, match=f"^{field}"):
        call()
