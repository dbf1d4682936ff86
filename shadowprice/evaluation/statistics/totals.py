"""Totals over several groups of rows, each a number of requests times a mean, with intervals by clusters."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from shadowprice.checks import require
from shadowprice.evaluation.statistics.clusters import combined, partitions
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.metric import Array

ROUNDING = 1e-12
"""Standard error, as a share of the root of the sum of squares, below which it is nothing but rounding."""


@dataclass(frozen=True, eq=False)
class Total:
    """Q totals with their variances, float64 (Q,), and the degrees of freedom of these."""

    value: Array
    variance: Array
    degrees: float

    def estimates(self, level: float = 0.95) -> list[Estimate]:
        """Estimate of each total with its t interval."""
        half = float(special.stdtrit(self.degrees, (1 + level) / 2)) * np.sqrt(self.variance)
        return [
            Estimate(float(value), float(value - margin), float(value + margin), level)
            for value, margin in zip(self.value, half, strict=True)
        ]


class StratifiedTotals:
    """Estimates Σ_s R_s · (mean over the rows of group s) of any columns of the same rows.

    Args:
        rows: of each group s, (cells,): rows in each cell. The rows of a cell are always drawn together, such as those
            of one account.
        requests: R_s, of each group.
        account: (all cells,), in the order of the groups.
        partner: the same, where cells of different accounts with one partner depend on each other too.

    The number of rows of a group is random too, so the variance is that of a ratio of sums. Two ways of clusters add up
    as in :func:`~shadowprice.evaluation.statistics.clusters.combined`; the degrees of freedom are those of the fewer
    clusters.

    Raises:
        InvalidInput: fewer than two accounts or partners.
    """

    def __init__(
        self,
        rows: Sequence[Array],
        requests: Sequence[float],
        account: ArrayLike,
        partner: ArrayLike | None = None,
    ) -> None:
        self._rows, self._requests = rows, requests
        self._clusters = partitions(sum(map(len, rows)), account, partner, fields=("account", "partner"))
        self._least = min(cluster.size for cluster in self._clusters)
        require(self._least >= 2, "account", "an interval needs at least two accounts and two partners")

    def of(self, sums: Sequence[Array]) -> Total:
        """Estimate Q totals from the sums over each cell, (cells, Q) of each group. O(cells · Q)."""
        value, size, excess = np.zeros(sums[0].shape[1]), np.zeros(sums[0].shape[1]), []
        for column, count, asked in zip(sums, self._rows, self._requests, strict=True):
            rate, mean = asked / count.sum(), column.sum(axis=0) / count.sum()
            value += asked * mean
            size += rate * np.sqrt((column**2).sum(axis=0))
            excess.append(rate * (column - count[:, None] * mean))
        residual = np.concatenate(excess)
        variances = []
        for clusters in self._clusters:
            of_clusters = np.stack([clusters.sums(column) for column in residual.T], axis=1)
            variances.append(clusters.size / (clusters.size - 1) * (of_clusters**2).sum(axis=0))
        variance = combined(variances)
        return Total(value, np.where(variance > (ROUNDING * size) ** 2, variance, 0.0), self._least - 1.0)
