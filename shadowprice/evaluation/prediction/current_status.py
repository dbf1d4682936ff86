"""Current-status data summed up, so that a likelihood over levels costs what its responders cost."""

import numpy as np
from numpy.typing import ArrayLike

from shadowprice.checks import require
from shadowprice.curves import check_levels
from shadowprice.evaluation.prediction.likelihood import derivatives, log1mexp
from shadowprice.evaluation.prediction.per_level import check_index
from shadowprice.evaluation.statistics.metric import Array, as_binary, as_rows


class CurrentStatus:
    """Responses at known levels, summed up so that the likelihood costs O(responders).

    Rows that did not respond enter only through their sum of relative hazards, and without
    offsets the responders of a level through their number.
    """

    def __init__(self, y: ArrayLike, level: ArrayLike, levels: ArrayLike, offset: ArrayLike | None = None) -> None:
        self.levels = check_levels(levels)
        columns = as_rows({"y": y} if offset is None else {"y": y, "offset": offset})
        responded = as_binary(columns["y"])
        index = check_index(level, self.levels.size)
        require(index.size == responded.size, "level", f"must have {responded.size} rows, got {index.size}")
        size = self.levels.size
        self.rows = int(index.size)
        self.seen = np.unique(index)
        relative = np.exp(columns["offset"]) if offset is not None else np.ones(self.rows)
        self.refused = np.bincount(index[~responded], relative[~responded], minlength=size)
        if offset is None:
            self.count = np.bincount(index[responded], minlength=size).astype(np.float64)
            self.index, self.relative = np.arange(size), np.ones(size)
        else:
            self.index, self.relative = index[responded], relative[responded]
            self.count = np.ones(self.index.size)
        kept = self.count > 0
        self.index, self.relative, self.count = self.index[kept], self.relative[kept], self.count[kept]

    def loglik(self, cumulative: Array) -> float:
        """Log-likelihood at cumulative hazards Λ (J,) of an account with offset 0."""
        gained = np.sum(self.count * log1mexp(self.relative * cumulative[self.index]))
        return float(gained - self.refused @ cumulative)

    def derivatives(self, cumulative: Array) -> tuple[Array, Array]:
        """First and minus second derivative (J,) of :meth:`loglik`; the second is diagonal in Λ."""
        first, second = derivatives(1, self.relative * cumulative[self.index])
        size = self.levels.size
        slope = np.bincount(self.index, self.count * self.relative * first, minlength=size) - self.refused
        curvature = np.bincount(self.index, -self.count * self.relative**2 * second, minlength=size)
        return np.asarray(slope, dtype=np.float64), np.asarray(curvature, dtype=np.float64)
