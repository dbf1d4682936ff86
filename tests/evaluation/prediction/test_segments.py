import lifelines
import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.prediction.current_status import CurrentStatus
from shadowprice.evaluation.prediction.segments import fit_segments

LEVELS = np.array([10, 40, 50, 100, 180])


def rows(rates, each=400, seed=0):
    rng = np.random.default_rng(seed)
    level = np.repeat(np.arange(len(rates)), each)
    return (rng.random(level.size) < np.asarray(rates)[level]).astype(int), level


def test_one_level_has_the_closed_form_and_its_delta_method_error():
    y = np.r_[np.ones(226, dtype=int), np.zeros(774, dtype=int)]
    fit = fit_segments(CurrentStatus(y, np.zeros(1000, dtype=int), [100]), [0, 100])
    assert fit.hazard[0] == pytest.approx(-np.log(1 - 0.226) / 100, rel=1e-9)
    assert fit.standard_error[0] == pytest.approx(np.sqrt(0.226 / (1 - 0.226) / 1000) / 100, rel=1e-6)


@pytest.mark.parametrize("rates", [[0.1, 0.2, 0.3, 0.5, 0.7], [0.2, 0.35, 0.3, 0.25, 0.6], [0.5, 0.4, 0.3, 0.2, 0.1]])
def test_free_segments_give_the_isotonic_regression_of_the_response_rates(rates):
    y, level = rows(rates)
    fit = fit_segments(CurrentStatus(y, level, LEVELS), np.r_[0, LEVELS])
    count = np.bincount(level)
    pava = IsotonicRegression(y_min=0).fit_transform(LEVELS, np.bincount(level, y) / count, sample_weight=count)
    assert fit.response(LEVELS) == pytest.approx(pava, abs=1e-7)
    assert np.isnan(fit.standard_error).tolist() == (fit.hazard == 0).tolist()


def test_levels_where_nobody_or_everybody_responds_do_not_break_the_fit():
    y, level = rows([0.0, 0.0, 0.3, 1.0, 1.0])
    fit = fit_segments(CurrentStatus(y, level, LEVELS), np.r_[0, LEVELS])
    assert fit.response(LEVELS) == pytest.approx(np.bincount(level, y) / 400, abs=1e-6)
    # Nothing bounds the hazard where everybody responds, and the error says so.
    assert fit.standard_error[3] > 10 * fit.hazard[3]


def test_constant_hazard_has_the_likelihood_and_rate_of_lifelines_interval_censoring():
    y, level = rows(1 - np.exp(-0.004 * LEVELS))
    fit = fit_segments(CurrentStatus(y, level, LEVELS), [0, 180])
    given = LEVELS[level].astype(float)
    peer = lifelines.ExponentialFitter()
    peer.fit_interval_censoring(np.where(y == 1, 0.0, given), np.where(y == 1, given, np.inf))
    assert fit.hazard[0] == pytest.approx(1 / peer.lambda_, rel=1e-4)
    assert fit.loglik == pytest.approx(peer.log_likelihood_, abs=1e-4)


def test_piecewise_hazard_has_the_likelihood_and_rates_of_lifelines_interval_censoring():
    y, level = rows(1 - np.exp(-np.array([0.03, 0.12, 0.2, 0.9, 1.7])))
    fit = fit_segments(CurrentStatus(y, level, LEVELS), [0, 50, 180])
    given = LEVELS[level] / 100  # in whole units, for the peer's optimizer
    peer = lifelines.PiecewiseExponentialFitter([0.5])
    peer.fit_interval_censoring(np.where(y == 1, 0.0, given), np.where(y == 1, given, np.inf))
    assert fit.loglik == pytest.approx(peer.log_likelihood_, abs=1e-3)
    assert fit.hazard == pytest.approx([0.01 / peer.lambda_0_, 0.01 / peer.lambda_1_], rel=1e-3)


def test_offsets_and_a_base_mass_give_the_optimum_of_a_general_optimizer_on_the_written_likelihood():
    rng = np.random.default_rng(1)
    levels = np.array([0, 30, 60, 100])
    level, offset = rng.integers(0, 4, 3000), rng.normal(0, 0.7, 3000)
    true = 0.1 + np.array([0, 0.2, 0.3, 0.9])
    y = rng.random(3000) < -np.expm1(-np.exp(offset) * true[level])
    fit = fit_segments(CurrentStatus(y, level, levels, offset), [0, 60, 100])

    def minus(theta):
        mass, first, second = np.exp(theta)
        base = mass + first * np.minimum(levels, 60) + second * np.maximum(levels - 60, 0)
        hazard = np.exp(offset) * base[level]
        return -np.where(y, np.log(-np.expm1(-hazard)), -hazard).sum()

    general = minimize(minus, np.log([0.1, 0.005, 0.01]), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-9})
    assert fit.loglik == pytest.approx(-general.fun, abs=1e-6)
    assert [fit.base_mass, *fit.hazard] == pytest.approx(np.exp(general.x), rel=1e-4)
    assert fit.parameters == 3
    assert fit.cumulative([0, 60]) == pytest.approx([fit.base_mass, fit.base_mass + 60 * fit.hazard[0]])


def test_standard_errors_agree_with_the_spread_over_samples():
    rates = 1 - np.exp(-np.array([0.05, 0.2, 0.25, 0.75, 1.55]))
    fits = [fit_segments(CurrentStatus(*rows(rates, each=300, seed=seed), LEVELS), [0, 50, 180]) for seed in range(300)]
    spread = np.std([fit.hazard for fit in fits], axis=0)
    assert np.mean([fit.standard_error for fit in fits], axis=0) == pytest.approx(spread, rel=0.12)


def test_nothing_is_said_above_the_last_edge():
    y, level = rows([0.1, 0.2])
    fit = fit_segments(CurrentStatus(y, level, [10, 20]), [0, 20])
    assert np.isnan(fit.response([30])).all()


@pytest.mark.parametrize("edges", [[10, 180], [0, 100], [0, 50, 50, 180]])
def test_edges_that_do_not_span_the_levels_are_refused(edges):
    y, level = rows([0.1, 0.2, 0.3, 0.4, 0.5])
    with pytest.raises(InvalidInput):
        fit_segments(CurrentStatus(y, level, LEVELS), edges)
