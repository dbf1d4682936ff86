"""Standardizing features: fitted once on training data, carried with the model."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shadowprice.documents import Plain

HEAVY_TAIL = 10.0
"""A column whose 99th percentile is this many standard deviations of its middle half is taken in logarithms."""


@dataclass(frozen=True, eq=False)
class Scaling(Plain):
    """Scaler that turns a matrix of D raw columns into standardized, complete inputs.

    names    the raw columns, in order
    log      bool (D,), columns taken as sign(x)·log(1 + |x|)
    mean     float32 (D,); scale float32 (D,), never zero
    missing  bool (D,), columns that get an indicator of being unknown
    """

    names: tuple[str, ...]
    log: NDArray[np.bool_]
    mean: NDArray[np.float32]
    scale: NDArray[np.float32]
    missing: NDArray[np.bool_]

    @property
    def width(self) -> int:
        """Number of output columns: D plus the indicators."""
        return int(len(self.names) + self.missing.sum())

    def apply(self, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, D) raw, NaN where unknown → (n, width) standardized, unknown at the mean."""
        unknown = np.isnan(matrix)
        values = np.where(self.log, np.sign(matrix) * np.log1p(np.abs(matrix)), matrix)
        scaled = np.where(unknown, 0.0, (values - self.mean) / self.scale)
        return np.concatenate([np.clip(scaled, -8.0, 8.0), unknown[:, self.missing]], axis=1).astype(np.float32)

    def select(self, names: tuple[str, ...], matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        """``apply`` to a matrix with columns ``names``: reordered to the fitted ones, absent ones unknown."""
        place = {name: position for position, name in enumerate(names)}
        raw = np.full((matrix.shape[0], len(self.names)), np.nan, dtype=np.float32)
        for position, name in enumerate(self.names):
            if name in place:
                raw[:, position] = matrix[:, place[name]]
        return self.apply(raw)


def fit_scaling(names: tuple[str, ...], matrix: NDArray[np.float32]) -> Scaling:
    """Fit on (n, D) raw values, NaN where unknown; one too large for its type is infinite and left out."""
    width = len(names)
    log = np.zeros(width, dtype=bool)
    mean, scale = np.zeros(width, dtype=np.float32), np.ones(width, dtype=np.float32)
    for column in range(width):
        known = matrix[:, column][np.isfinite(matrix[:, column])].astype(np.float64)
        if known.size == 0:
            continue
        low, middle, upper, high = np.quantile(known, [0.25, 0.5, 0.75, 0.99])
        log[column] = bool(high - middle > HEAVY_TAIL * max(upper - low, 1e-6) / 1.35 and known.min() >= 0)
        values = np.log1p(known) if log[column] else known
        mean[column] = values.mean()
        deviation = values.std()
        scale[column] = deviation if deviation > 1e-6 else 1.0
    missing = np.asarray(np.isnan(matrix).any(axis=0), dtype=bool)
    return Scaling(names, log, mean, scale, missing)
