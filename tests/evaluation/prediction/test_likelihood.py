from decimal import Decimal, localcontext

import numpy as np
import pytest

from shadowprice.evaluation.prediction.likelihood import account_offset, derivatives, log1mexp


def log_likelihood(y, hazard):
    return np.where(np.asarray(y) != 0, log1mexp(hazard), -np.asarray(hazard))


@pytest.mark.parametrize("hazard", [1e-12, 1e-6, 0.1, 0.69, 0.7, 5.0, 40.0, 700.0])
def test_log1mexp_has_full_precision_at_both_ends(hazard):
    with localcontext(prec=400):
        exact = float((1 - (-Decimal(hazard)).exp()).ln())
    assert log1mexp(hazard) == pytest.approx(exact, rel=1e-14, abs=1e-300)


def test_the_likelihood_of_both_answers_adds_up_to_one():
    hazard = np.geomspace(1e-6, 20, 40)
    both = np.exp(log_likelihood(np.ones(40), hazard)) + np.exp(log_likelihood(np.zeros(40), hazard))
    assert both == pytest.approx(np.ones(40), rel=1e-12)


def test_a_response_without_hazard_is_impossible():
    assert log_likelihood([1, 0], [0.0, 0.0]).tolist() == [-np.inf, 0.0]


def test_derivatives_agree_with_differences_of_the_likelihood():
    y = np.tile([0, 1], 20)
    hazard = np.geomspace(0.01, 10, 40)
    first, second = derivatives(y, hazard)
    step = 1e-5 * hazard
    rise = (log_likelihood(y, hazard + step) - log_likelihood(y, hazard - step)) / (2 * step)
    bend = (derivatives(y, hazard + step)[0] - derivatives(y, hazard - step)[0]) / (2 * step)
    assert first == pytest.approx(rise, rel=1e-6)
    assert second == pytest.approx(bend, rel=1e-6)
    assert (second <= 0).all()


def test_the_offset_of_proportional_hazards_is_their_relative_size():
    relative = np.random.default_rng(0).lognormal(0, 1, 50)
    base = np.array([0.05, 0.2, 0.9])
    offset = account_offset(-np.expm1(-np.outer(base, relative)))
    assert np.exp(offset) == pytest.approx(relative / relative.mean())
