"""Maximum likelihood of a piecewise constant hazard rate from current-status data."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.curves import check_levels
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.prediction.current_status import CurrentStatus
from shadowprice.evaluation.statistics.metric import Array

STEPS = 200
"""Newton steps; some ten are usual, one for each unit of Λ where a level's response is certain."""


@dataclass(frozen=True)
class HazardSegments:
    """A hazard rate that is constant on K segments of incentive value.

    edges                int64 (K+1,), minor units, from 0; segment s is ``(edges[s], edges[s+1]]``
    hazard               float64 (K,), rate per minor unit of an account with offset 0
    standard_error       float64 (K,), from the observed information; NaN where the hazard is 0
    base_mass            cumulative hazard of no incentive at all; None (and taken as 0) unless 0 is a level
    base_mass_error      its standard error; NaN where the mass is 0, None where it is None
    loglik, rows         log-likelihood in nats, rows it was taken over
    """

    edges: NDArray[np.int64]
    hazard: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    base_mass: float | None
    base_mass_error: float | None
    loglik: float
    rows: int

    @property
    def parameters(self) -> int:
        """Number of fitted quantities."""
        return int(self.hazard.size) + (self.base_mass is not None)

    def cumulative(self, amounts: ArrayLike) -> Array:
        """Λ of an account with offset 0 at incentive ``amounts``; NaN above the last edge."""
        at = np.asarray(amounts, dtype=np.float64)
        total = (self.base_mass or 0.0) + np.r_[0.0, np.cumsum(self.hazard * np.diff(self.edges))]
        return np.where(at <= self.edges[-1], np.interp(at, self.edges, total), np.nan)

    def response(self, amounts: ArrayLike) -> Array:
        """Probability of response ``1 − exp(−Λ)`` of an account with offset 0."""
        return np.asarray(-np.expm1(-self.cumulative(amounts)))


def fit_segments(data: CurrentStatus, edges: ArrayLike, start: Array | None = None) -> HazardSegments:
    """Fit one hazard rate per segment.

    Args:
        data: the rows.
        edges: (K+1,) minor units, from 0 to the highest level seen or above it.
        start: (K,) first guess of the rates, with the base mass before them where 0 is a level.

    The log-likelihood is concave in the rates, so the optimum found is global: damped Newton
    steps projected on rates ≥ 0 (Bertsekas 1982). With one segment per level the fit is the
    isotonic regression of the response rates. O(steps · (responders + J·K²)).

    Raises:
        InvalidInput: edges that do not ascend from 0, or that end below a level seen.
    """
    bounds = check_levels(edges)
    if bounds[0] != 0 or bounds[-1] < data.levels[data.seen[-1]]:
        raise InvalidInput("must ascend from 0 and reach the highest level that has rows", field="edges")
    widths = np.diff(bounds).astype(np.float64)
    part = np.clip((data.levels[:, None] - bounds[:-1]) / widths, 0.0, 1.0)
    mass = bool(data.levels[0] == 0)
    design = np.column_stack([np.ones(data.levels.size), part]) if mass else part
    guess = None
    if start is not None:
        guess = start * (np.r_[1.0, widths] if mass else widths)
    increments, loglik, error = _maximize(data, design, guess)
    first = int(mass)
    return HazardSegments(
        bounds,
        increments[first:] / widths,
        error[first:] / widths,
        float(increments[0]) if mass else None,
        float(error[0]) if mass else None,
        loglik,
        data.rows,
    )


def _maximize(data: CurrentStatus, design: Array, guess: Array | None) -> tuple[Array, float, Array]:
    """Increments of Λ (K,) ≥ 0 that maximize the likelihood of ``Λ = design @ increments``."""
    share = data.count.sum() / data.rows
    level = -np.log1p(-min(max(share, 1e-3), 0.999))
    point = np.full(design.shape[1], level / design.shape[1])
    if guess is not None and np.isfinite(data.loglik(design @ guess)):
        point = guess
    best = data.loglik(design @ point)
    damping = 1e-10
    for _ in range(STEPS):
        gradient, information = _project(data, design, point)
        free = (point > 1e-12) | (gradient > 0)
        scale = np.diag(information)[free]
        scale = np.maximum(scale, max(1e-6 * scale.max(initial=0.0), 1e-12))
        # The damping stays tiny unless levels without responders leave directions without curvature.
        while damping < 1e12:
            step = np.zeros_like(point)
            damped = information[np.ix_(free, free)] + damping * np.diag(scale)
            step[free] = np.linalg.solve(damped, gradient[free])
            if (gradient @ step) * (1 + damping) < 1e-12 * max(1.0, abs(best)):
                return point, best, _errors(data, design, point)
            trial = np.maximum(point + step, 0.0)
            reached = data.loglik(design @ trial)
            if reached > best + 1e-4 * max(gradient @ (trial - point), 0.0):
                break
            damping *= 10
        else:
            break
        point, best, damping = trial, reached, max(damping / 10, 1e-10)
    return point, best, _errors(data, design, point)


def _project(data: CurrentStatus, design: Array, point: Array) -> tuple[Array, Array]:
    slope, curvature = data.derivatives(design @ point)
    return design.T @ slope, design.T @ (curvature[:, None] * design)


def _errors(data: CurrentStatus, design: Array, point: Array) -> Array:
    errors = np.full(point.size, np.nan)
    free = np.flatnonzero(point > 1e-10)
    information = _project(data, design, point)[1]
    information = information[np.ix_(free, free)]
    scale = np.sqrt(np.maximum(np.diag(information), 1e-300))
    # Directions without information must come out as very uncertain, which a pseudo-inverse would hide.
    strength, direction = np.linalg.eigh(information / np.outer(scale, scale))
    errors[free] = np.sqrt((direction**2 / np.maximum(strength, 1e-14)).sum(axis=1)) / scale
    return errors
