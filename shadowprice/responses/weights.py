"""Row weights of a loss: given ones, or the inverse of the logged propensities (S1, section 3.1).

A level that was not assigned at random is seen on other accounts than those it would be given to. A row
weighted by 1 / p(level | features) stands for all the rows that its account might have been, and the weighted
loss is that of a randomized trial (Rosenbaum and Rubin 1983; Robins, Hernán and Brumback 2000).
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from shadowprice.checks import refuse_rows, require
from shadowprice.errors import InvalidInput

CLIP = 20.0
"""Largest weight, in multiples of what the row would weigh under randomization."""
GIVEN = ("weight", "balancing_weight")
"""Columns of a frame that multiply to a row's weight."""
LEAST_EFFECTIVE_SHARE = 0.05
"""A level whose rows are worth less than this share of their number has no overlap to speak of."""


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of n rows, and what they leave of the sample.

    values           float64 (n,), mean 1
    effective_rows   (Σw)² / Σw² over all rows (Kish 1965)
    effective_share  float64 (J,), effective rows of a level as a share of its rows; NaN where it has none
    clipped          share of the rows whose weight was cut
    """

    values: NDArray[np.float64]
    effective_rows: float
    effective_share: NDArray[np.float64]
    clipped: float

    def __str__(self) -> str:
        worst = int(np.nanargmin(self.effective_share))
        return (
            f"{self.effective_rows:.0f} effective of {self.values.size} rows; least at level {worst}, "
            f"{self.effective_share[worst]:.0%}; {self.clipped:.1%} of the weights cut"
        )


def effective_rows(weight: ArrayLike) -> float:
    """Number of equally weighted rows that would tell as much: (Σw)² / Σw²."""
    w = np.asarray(weight, dtype=np.float64)
    square = float(w @ w)
    return float(w.sum() ** 2 / square) if square > 0 else 0.0


def inverse_propensity(
    level: ArrayLike,
    propensity: ArrayLike,
    levels: int,
    *,
    clip: float | None = CLIP,
) -> Weights:
    """Stabilized weights p(level) / p(level | features): levels keep their shares of the loss.

    In a randomized trial every weight is about 1.

    Args:
        level: (n,) index of the assigned level.
        propensity: (n,) probability with which that level was assigned, in (0, 1].
        levels: J.
        clip: largest multiple of a row's weight under randomization, ``p(level) / propensity``; None cuts nothing.

    Raises:
        InvalidInput: a propensity outside (0, 1], or a level whose weights fall on a few rows (no overlap).
    """
    index = np.asarray(level, dtype=np.int64)
    chance = np.asarray(propensity, dtype=np.float64)
    alike = chance.shape == index.shape and index.ndim == 1 and index.size
    require(alike, "propensity", f"needs one per row, got {chance.shape} for {index.shape}")
    refuse_rows(
        "propensity",
        ~((chance > 0) & (chance <= 1)),
        "must be the probability of the assigned level, above 0 and at most 1; a row that could not happen cannot be "
        "weighted",
    )
    require(clip is None or clip >= 1, "clip", "must be at least 1, the weight of a randomized row")
    count = np.bincount(index, minlength=levels).astype(np.float64)
    weight = (count / index.size)[index] / chance
    cut = np.zeros(index.size, dtype=bool) if clip is None else weight > clip
    weight = weight if clip is None else np.minimum(weight, clip)
    total, square = (np.bincount(index, power, minlength=levels) for power in (weight, weight**2))
    share = np.full(levels, np.nan)
    np.divide(total**2, square * count, out=share, where=square > 0)
    poor = np.flatnonzero(share < LEAST_EFFECTIVE_SHARE)
    if poor.size:
        worst = int(np.nanargmin(share))
        raise InvalidInput(
            f"no overlap at level {worst}: the weights of its {count[worst]:.0f} rows are worth "
            f"{share[worst] * count[worst]:.1f} rows, less than {LEAST_EFFECTIVE_SHARE:.0%} of them; the level was "
            "hardly ever assigned to accounts like the rest. Randomize more, drop the level, or clip lower",
            field="propensity",
            rows=np.flatnonzero(index == worst)[np.argsort(chance[index == worst])][:5].tolist(),
        )
    return Weights(weight / weight.mean(), effective_rows(weight), share, float(cut.mean()))


def given_weights(frame: pd.DataFrame) -> NDArray[np.float64]:
    """(n,): ``weight`` × ``balancing_weight`` of the rows, each 1 where the frame has no such column.

    Raises:
        InvalidInput: one that is missing, negative, or not finite, or none positive.
    """
    weights = np.ones(len(frame))
    for column in GIVEN:
        if column not in frame:
            continue
        weight = frame[column].to_numpy(dtype=np.float64)
        refuse_rows(column, ~(np.isfinite(weight) & (weight >= 0)), "must be known, finite and not negative")
        weights = weights * weight
        require(weights.any() or not weights.size, column, "leaves no row with a positive weight")
    return weights


def row_weights(frame: pd.DataFrame, levels: int) -> NDArray[np.float64]:
    """Weights (n,) of a training frame's rows in a loss, mean 1; a propensity counts once.

    ``weight`` × ``balancing_weight`` where the frame has either, else :func:`inverse_propensity`, else 1.

    Raises:
        InvalidInput: a weight that is missing, negative, or not finite, none positive, or no overlap.
    """
    if any(column in frame and frame[column].notna().any() for column in GIVEN):
        weight = given_weights(frame)
        return np.asarray(weight / weight.mean())
    if "propensity" in frame and frame["propensity"].notna().any():
        chance = frame["propensity"].to_numpy(dtype=np.float64)
        return inverse_propensity(frame["level"].to_numpy(dtype=np.int64), chance, levels).values
    return np.ones(len(frame))


def means_by_level(
    level: NDArray[np.int64], response: ArrayLike, weight: ArrayLike | None, levels: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weighted mean response (J,) of the rows of each level, NaN where there is none, and their total weight (J,)."""
    w = np.ones(level.size) if weight is None else np.asarray(weight, dtype=np.float64)
    total = np.bincount(level, w, minlength=levels).astype(np.float64)
    mean = np.full(levels, np.nan)
    product = w * np.asarray(response, dtype=np.float64)
    np.divide(np.bincount(level, product, minlength=levels), total, out=mean, where=total > 0)
    return mean, total
