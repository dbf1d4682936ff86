"""Response rates of the training rows: the reference of a later watch on label drift."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from shadowprice.campaign import Side
from shadowprice.responses.base import labels
from shadowprice.responses.weights import effective_rows, row_weights


def label_rates(
    rows: Mapping[Side, pd.DataFrame], levels: Mapping[Side, tuple[int, ...]]
) -> dict[Side, list[list[float]]]:
    """Return side → for each level its effective rows and its weighted mean response.

    The weights are those of the loss (:func:`shadowprice.responses.weights.row_weights`), so the mean stands for all
    accounts where propensities are known. A level without rows has 0 rows and mean 0.
    """
    found: dict[Side, list[list[float]]] = {}
    for side, frame in rows.items():
        level, response = labels(frame)
        weight = row_weights(frame, len(levels[side])) if len(frame) else np.ones(0)
        found[side] = []
        for at in range(len(levels[side])):
            own = level == at
            total = float(weight[own].sum())
            mean = float(weight[own] @ response[own]) / total if total > 0 else 0.0
            found[side].append([effective_rows(weight[own]), mean])
    return found
