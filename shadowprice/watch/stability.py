"""Population stability index of predictions."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.metric import as_rows, as_weights
from shadowprice.watch.finding import Finding
from shadowprice.watch.reference import Reference

BINS = 10
LARGE = 0.2
"""Index that counts as a large change where there are many rows."""
LEAST_ROWS = 100


def stability_index(expected: ArrayLike, observed: ArrayLike, weight: ArrayLike | None = None) -> tuple[float, int]:
    """Return the population stability index and its number of bins.

    With shares e_b of the expected and o_b of the observed values in bins between the deciles of the expected ones:

        PSI = Σ_b (o_b − e_b) · log(o_b / e_b)

    Half a row is added to each bin, so that an empty one gives a finite index. O(N log N).

    Args:
        expected: (N,) values of the reference; weight: (N,) of them, default ones.
        observed: (M,) values that are compared.

    Example:
        >>> stability_index(range(100), range(100))[0] < 0.01
        True
    """
    reference, now = as_rows({"expected": expected})["expected"], as_rows({"observed": observed})["observed"]
    weights = as_weights(weight, reference.size)
    order = np.argsort(reference, kind="stable")
    below = np.cumsum(weights[order])
    at = np.searchsorted(below, below[-1] * np.arange(1, BINS) / BINS)
    edges = np.unique(reference[order][at])
    size = edges.size + 1
    shares = []
    for values, share in ((reference, weights * reference.size / weights.sum()), (now, np.ones(now.size))):
        count = np.bincount(np.searchsorted(edges, values, side="left"), share, size) + 0.5
        shares.append(count / count.sum())
    e, o = shares
    return float(((o - e) * np.log(o / e)).sum()), size


def stability(rows: pd.DataFrame, reference: Reference) -> list[Finding]:
    """Compare the predictions for explored requests with those for the accounts of training, by side and level.

    An alarm needs an index of at least :data:`LARGE` that is also significant: n·m / (n + m) times the index of equal
    distributions is about chi-squared. The test is for one analysis, of all rows together.

    Args:
        rows: table of :func:`shadowprice.watch.rows.watched_rows`.
        reference: ``predicted`` of the accounts of training, and their ``activity``.

    Raises:
        InvalidInput: a level without predictions.
    """
    findings = []
    for _, own in rows[rows["explored"]].groupby(["side", "level"], sort=True):
        side, level = str(own["side"].iloc[0]), int(own["level"].iloc[0])
        if side not in reference.predicted or len(own) < LEAST_ROWS:
            continue
        if level >= len(reference.predicted[side]):
            raise InvalidInput(f"side {side} has no level {level}; use the model of the log", field="predicted")
        expected = reference.predicted[side][level]
        index, bins = stability_index(expected, own["predicted"], reference.activity.get(side))
        rate = reference.rate / reference.groups
        noise = float(special.chdtri(max(1, bins - 1), rate)) * (1 / expected.size + 1 / len(own))
        limit = max(LARGE, noise)
        words = f"{side}, level {level}: stability index {index:.3f} of the predictions, limit {limit:.3f}."
        findings.append(Finding("stability", side, level, index, limit, index >= limit, len(own), -1, words))
    return findings
