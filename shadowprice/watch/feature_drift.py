"""Population stability index of raw features: the columns of the accounts that ask now and of those at registration."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from shadowprice.watch.finding import ALL_LEVELS, Finding
from shadowprice.watch.stability import BINS, LARGE, LEAST_ROWS

CATEGORIES = 20
"""Most values of a text column that have a bin each; the others share one."""


def describe_columns(frame: pd.DataFrame, weight: np.ndarray) -> dict[str, dict[str, Any]]:
    """Return name → ``edges`` or ``values`` of the bins of each column ``x_…`` and ``c_…``, and their ``shares``.

    Numbers have bins between their weighted deciles; a missing one is in a bin of its own. O(columns · N log N).

    Args:
        frame: (N,) accounts.
        weight: (N,), requests of each account.
    """
    described: dict[str, dict[str, Any]] = {}
    for name in frame.columns:
        column = frame[name]
        if name.startswith("x_"):
            values = column.to_numpy(dtype=np.float64)
            known = np.isfinite(values) & (weight > 0)
            if not known.any():
                continue
            order = np.argsort(values[known], kind="stable")
            below = np.cumsum(weight[known][order])
            at = np.searchsorted(below, below[-1] * np.arange(1, BINS) / BINS)
            bins: dict[str, Any] = {"edges": np.unique(values[known][order][at]).tolist()}
        elif name.startswith("c_"):
            sums = pd.Series(weight).groupby(column.fillna("").astype(str).to_numpy()).sum()
            bins = {"values": sums.nlargest(CATEGORIES).index.tolist()}
        else:
            continue
        place, size = _places(column, bins)
        count = np.bincount(place, weight, size)
        described[name] = bins | {"shares": (count / count.sum()).tolist()}
    return described


def feature_drift(
    asked: pd.DataFrame, side: str, reference: Mapping[str, Mapping[str, Any]], rows: int, *, rate: float
) -> list[Finding]:
    """Compare the columns of the accounts that ask with those of the reference; the finding names the largest index.

    An alarm needs an index of at least :data:`~shadowprice.watch.stability.LARGE` that is also significant, as in
    :func:`~shadowprice.watch.stability.stability`, at ``rate`` over all columns. Requests of one account depend on
    each other, so the significance counts accounts.

    Args:
        asked: ``account_id`` and the present columns of the account, a row for each request.
        side: of the requests.
        reference: of :func:`describe_columns`.
        rows: accounts of the reference.
        rate: probability of a false alarm of one analysis.
    """
    names = [name for name in reference if name in asked]
    accounts = asked["account_id"].nunique()
    if not names or accounts < LEAST_ROWS:
        return []
    indices = []
    for name in names:
        bins = reference[name]
        place, size = _places(asked[name], bins)
        e = np.asarray(bins["shares"]) * rows + 0.5
        o = np.bincount(place, minlength=size) * (accounts / len(asked)) + 0.5
        e, o = e / e.sum(), o / o.sum()
        noise = float(special.chdtri(max(size - 1, 1), rate / len(names))) * (1 / rows + 1 / accounts)
        indices.append((float(((o - e) * np.log(o / e)).sum()), max(LARGE, noise), name))
    index, limit, name = max(indices, key=lambda each: each[0] / each[1])
    words = f"{side}: stability index {index:.3f} of the column {name}, limit {limit:.3f}."
    return [Finding("feature_drift", side, ALL_LEVELS, index, limit, index >= limit, len(asked), -1, words)]


def _places(column: pd.Series, bins: Mapping[str, Any]) -> tuple[np.ndarray, int]:
    """Return the bin of each value and the number of bins; the last one has what is missing, or any other text."""
    if "values" in bins:
        known = {value: place for place, value in enumerate(bins["values"])}
        return column.fillna("").astype(str).map(known).fillna(len(known)).to_numpy(dtype=np.intp), len(known) + 1
    values, edges = column.to_numpy(dtype=np.float64), np.asarray(bins["edges"])
    place = np.where(np.isfinite(values), np.searchsorted(edges, values, side="left"), edges.size + 1)
    return place.astype(np.intp), edges.size + 2
