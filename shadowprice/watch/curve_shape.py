"""Sequential test of the slope of the response curve."""

import numpy as np
import pandas as pd
from scipy import special

from shadowprice.evaluation.statistics.metric import Array
from shadowprice.experiments.always_valid import always_valid
from shadowprice.watch.evidence import SMALLEST
from shadowprice.watch.finding import ALL_LEVELS, Finding
from shadowprice.watch.reference import Reference

LEAST_ROWS = 100
STEPS = 30


def slope_error(response: Array, predicted: Array, step: Array) -> tuple[float, float]:
    """Return the error of the slope and its standard error.

    The model logit E[y] = logit p + a + b·s is fitted by Newton's method; b is the error of the slope for a whole step
    s = 1 from the lowest level to the highest, a an error that all levels share. The standard error is robust.

    Args:
        response: (N,) in [0, 1]; predicted: (N,) predictions p.
        step: (N,) place of the level between the lowest, 0, and the highest, 1.

    Returns NaN for both where the rows have one level, or the fit does not end. O(N).
    """
    offset = special.logit(np.clip(predicted, SMALLEST, 1.0 - SMALLEST))
    design = np.column_stack([np.ones(step.size), step])
    beta = np.zeros(2)
    for _ in range(STEPS):
        mean = special.expit(offset + design @ beta)
        curvature = design.T @ (design * (mean * (1.0 - mean))[:, None])
        if np.linalg.cond(curvature) > 1e10:
            break
        change = np.linalg.solve(curvature, design.T @ (response - mean))
        beta += np.clip(change, -2.0, 2.0)
        if np.abs(change).max() < 1e-9:
            scores = design * (response - mean)[:, None]
            inverse = np.linalg.inv(curvature)
            return float(beta[1]), float(np.sqrt((inverse @ (scores.T @ scores) @ inverse)[1, 1]))
    return float("nan"), float("nan")


def curve_shape(rows: pd.DataFrame, reference: Reference) -> list[Finding]:
    """Test whether the response of explored requests rises over the levels as the model's curves do.

    An error that all levels share belongs to calibration and does not count here. The confidence sequence of the
    slope's error holds on all days together, for many rows. An alarm is a sequence that excludes all errors within
    ``reference.tolerance``; each side has an equal part of ``reference.rate``.

    Args:
        rows: table of :func:`shadowprice.watch.rows.watched_rows`.
        reference: levels of each side, tolerance and rate.

    Returns one finding for each side with enough rows of several levels. The statistic is the distance of the sequence
    from 0 in log odds, 0 where it covers 0; the limit is the tolerance.
    """
    findings = []
    for side, levels in reference.levels.items():
        if side in reference.unordered:
            continue
        own = rows[rows["explored"] & (rows["side"] == side)]
        if levels < 2 or len(own) < LEAST_ROWS or (own["response"] > 1).any():
            continue
        response, predicted = own["response"].to_numpy(), own["predicted"].to_numpy()
        step, day = own["level"].to_numpy() / (levels - 1), own["day"].to_numpy()
        ends = [int(last) for last in np.searchsorted(day, np.unique(day), side="right") if last >= LEAST_ROWS]
        fits = np.array([slope_error(response[:end], predicted[:end], step[:end]) for end in ends])
        sequence = always_valid(fits[:, 0], fits[:, 1], level=1.0 - reference.rate / len(reference.levels))
        away = np.maximum(sequence.low, -sequence.high).clip(min=0.0)
        alarms = np.flatnonzero(away > reference.tolerance)
        at = int(day[ends[alarms[0]] - 1]) if alarms.size else -1
        verdict = "another shape" if alarms.size else "no evidence of another shape"
        known = fits[np.isfinite(fits[:, 0]), 0]
        off = f"off by {known[-1]:+.3f} log odds" if known.size else "not known yet"
        words = f"{side}: slope of the response over the levels {off}; {verdict}."
        statistic, limit = float(away[-1]), reference.tolerance
        findings.append(
            Finding("curve_shape", side, ALL_LEVELS, statistic, limit, bool(alarms.size), len(own), at, words)
        )
    return findings
