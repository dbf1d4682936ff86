"""True response of the accounts of the generated data set ``world``."""

import numpy as np
from numpy.typing import NDArray

from shadowprice.datasets.world.graph import WorldGraph

CUSTOMER_LEVELS = (20, 40, 60, 80, 100, 120, 150, 200)
MERCHANT_LEVELS = (10, 20, 30, 40, 50)
CHANGE_POINTS = (80, 100)

# Log hazard rate per 100 cents and the effect of the two traits, in each of the three regimes.
LOG_RATE = np.log(np.array([0.25, 1.0, 0.3]))
TRAIT_EFFECT = np.array([[0.8, 0.0], [0.9, 0.5], [0.3, -0.5]])

OWN_LOG_RATE, OWN_LOG_JUMP, OWN_STEEPNESS = float(np.log(0.2)), float(np.log(20.0)), 4.0
OWN_SEGMENTS = (60, 120)
"""The level at which a customer with a change point of its own moves: one or the other.

The rate per 100 cents is 0.2 everywhere else and 20 times that in the segment that ends at the customer's own level.
"""

MOVE, FADE = 5.0, 0.03
"""Cents by which the change points rise in a day of drift, and the share of the hazard that is lost in it."""

SPILL = 0.1
"""Log hazard of a customer for a minor unit more that its merchants are offered."""


def customer_response(strength: NDArray[np.float64]) -> NDArray[np.float64]:
    """(J, N): true redemption probability of customers with the given trait strengths (N, 2)."""
    regime = np.digitize(np.array(CUSTOMER_LEVELS) - 1e-9, CHANGE_POINTS)
    return _redemption(LOG_RATE[regime][:, None] + TRAIT_EFFECT[regime] @ strength.T)


def drifted_response(strength: NDArray[np.float64], days: float) -> NDArray[np.float64]:
    """(J, N): response as :func:`customer_response` after days of drift; after 0 days it is the same.

    The hazard of a regime, faded, times the part of the incentive that lies in it.
    """
    rate = np.exp(LOG_RATE[:, None] + TRAIT_EFFECT @ strength.T) * (1.0 - FADE) ** days / 100.0
    first, second = (point + MOVE * days for point in CHANGE_POINTS)
    level = np.array(CUSTOMER_LEVELS, dtype=np.float64)
    within = np.diff(np.minimum(level[:, None], [0.0, first, second, np.inf]), axis=1)
    return np.asarray(-np.expm1(-within @ rate))


def own_change_point_response(strength: NDArray[np.float64]) -> NDArray[np.float64]:
    """(J, N): response as :func:`customer_response`, where every customer responds at a level of their own.

    The first trait raises all rates alike; the second sets at which of the two levels the customer responds, sharply
    but not abruptly: the jump of the log rate is split between the two segments by a logistic function of it.
    """
    log_rate = np.tile(OWN_LOG_RATE + TRAIT_EFFECT[0, 0] * strength[:, 0], (len(CUSTOMER_LEVELS), 1))
    early = 0.5 * (1.0 + np.tanh(0.5 * OWN_STEEPNESS * strength[:, 1]))
    for level, share in zip(OWN_SEGMENTS, (early, 1.0 - early), strict=True):
        log_rate[CUSTOMER_LEVELS.index(level)] += OWN_LOG_JUMP * share
    return _redemption(log_rate)


def _redemption(log_rate: NDArray[np.float64]) -> NDArray[np.float64]:
    """(J, N): response from the log rate per 100 cents in each segment (J, N)."""
    width = np.diff(np.array([0, *CUSTOMER_LEVELS]))[:, None] / 100.0
    return np.asarray(-np.expm1(-np.cumsum(width * np.exp(log_rate), axis=0)))


def merchant_response(strength: NDArray[np.float64]) -> NDArray[np.float64]:
    """(J, N): true expected share ratio of merchants with the given trait strengths (N, 2)."""
    slope = 0.5 * np.exp(0.5 * strength[:, 0])
    start = np.maximum(0.8 + 0.15 * strength[:, 1], 0.1)
    return np.asarray(start + np.asarray(MERCHANT_LEVELS)[:, None] / 100.0 * slope)


def spilled(
    mean: NDArray[np.float64], customer: NDArray[np.integer], offered: NDArray[np.float64], graph: WorldGraph
) -> NDArray[np.float64]:
    """Redemption probability of n requests where merchants move their customers.

    Args:
        mean: (n,), probability without influence.
        customer: (n,), node of each request's customer.
        offered: (N,), mean commission offered to each account; what is not a merchant is not read.
        graph: with the ties.
    """
    pull, ties = np.zeros_like(offered), np.zeros_like(offered)
    np.add.at(pull, graph.tie[0], offered[graph.tie[1]])
    np.add.at(ties, graph.tie[0], 1.0)
    pull = pull / np.maximum(ties, 1.0) - float(np.mean(MERCHANT_LEVELS))
    hazard = -np.log1p(-mean) * np.exp(SPILL * pull[customer])
    return np.asarray(-np.expm1(-hazard))
