"""Clusters of dependent rows: by account, or crossed by account and partner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.checks import require
from shadowprice.evaluation.statistics.groups import codes, crossed

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Clusters:
    """One partition of N rows.

    of    int64 (N,), cluster of each row, 0 … size − 1
    size  number of clusters
    """

    of: NDArray[np.intp]
    size: int

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum of ``values`` (N,) in each cluster, (size,)."""
        return np.bincount(self.of, values, minlength=self.size).astype(np.float64, copy=False)


def row_clusters(frame: pd.DataFrame) -> NDArray[np.str_]:
    """(N,) name of the cluster of each row of a frame, else of its account: rows of other names are independent.

    >>> import pandas as pd
    >>> row_clusters(pd.DataFrame({"account_id": ["a", "b", "c"], "cluster": ["h", "h", None]})).tolist()
    ['cluster h', 'cluster h', 'c']
    """
    account = frame["account_id"].to_numpy(dtype=str)
    if "cluster" not in frame:
        return account
    cluster, named = frame["cluster"].fillna("").to_numpy(dtype=str), frame["cluster"].notna().to_numpy(dtype=bool)
    owners: NDArray[np.str_] = np.where(named, np.char.add("cluster ", cluster), account)
    return owners


def partitions(
    rows: int, account: ArrayLike | None, partner: ArrayLike | None = None, *, fields: tuple[str, str]
) -> tuple[Clusters, ...]:
    """Return the partitions whose variances :func:`combined` adds up.

    One partition by account (by row without accounts), or three: by account, by partner, and by pair of both.
    Where one way is nested in the other, the coarser one alone is exact and is returned.

    Args:
        rows: N.
        account, partner: identifiers (N,).
        fields: names of the two in error messages.

    Raises:
        InvalidInput: an identifier is missing, or there is not one per row.

    Complexity: O(N log N).
    """
    first = Clusters(np.arange(rows), rows) if account is None else _by(account, rows, fields[0])
    if partner is None:
        return (first,)
    second = _by(partner, rows, fields[1])
    pair = Clusters(*crossed(first.of, second.of, field=fields[1]))
    if pair.size == second.size:
        return (first,)
    if pair.size == first.size:
        return (second,)
    return first, second, pair


def together(
    rows: int, account: ArrayLike | None, partner: ArrayLike | None = None, *, fields: tuple[str, str]
) -> tuple[Clusters, NDArray[np.intp]]:
    """Return the cells of rows that every draw of whole clusters takes together, and the first row of each cell.

    A statistic of sums over rows needs only the sums over the cells. Arguments as for :func:`partitions`.

    Complexity: O(N log N).
    """
    if account is None:
        every = np.arange(rows)
        return Clusters(every, rows), every
    cells = _by(account, rows, fields[0])
    if partner is not None:
        cells = Clusters(*crossed(cells.of, _by(partner, rows, fields[1]).of, field=fields[1]))
    first = np.empty(cells.size, dtype=np.intp)
    first[cells.of[::-1]] = np.arange(rows - 1, -1, -1)
    return cells, first


def combined(variances: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Variance from those of :func:`partitions`: V_account + V_partner − V_pair, at least each of the first two.

    The difference may be negative in a sample; a single way is then the larger, and safe, choice.

    Source: Cameron, Gelbach and Miller (2011), Robust inference with multiway clustering, equation 2.11.
    """
    if len(variances) == 1:
        return np.asarray(variances[0])
    account, partner, pair = variances
    return np.asarray(np.maximum(account + partner - pair, np.maximum(account, partner)))


def _by(ids: ArrayLike, rows: int, field: str) -> Clusters:
    clusters = Clusters(*codes(ids, field=field))
    require(clusters.of.size == rows, field, f"must have one entry per row, {rows}, got {clusters.of.size}")
    return clusters
