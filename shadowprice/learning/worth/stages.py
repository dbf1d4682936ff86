"""Training sets of a sequence of models, each judged on accounts that none before it has learned from."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.decision import uniform
from shadowprice.evaluation.statistics.clusters import row_clusters
from shadowprice.learning.training_set import TrainingSet

EDGES = (0.4, 0.7, 1.0)
"""Shares of the accounts outside the test split: accounts before the first share only learn; each later part
judges, then learns."""
HELD_OUT = 0.18
"""Share of the accounts that a model learns from on which it is stopped and calibrated, and its price is found."""


def earlier_stages(data: TrainingSet) -> Iterator[TrainingSet]:
    """Training sets of accounts outside the test split, whose parts are dealt by account.

    The ``test`` split of each holds the accounts that judge, ``train`` and ``validation`` those before them in the
    sequence. The last stage is the training set itself, with the model that is served; it is not among these. Parts
    depend on the name of the account or its cluster alone, so that its rows stay together on both sides of the market.
    """
    places = {side: _places(row_clusters(rows), "worth") for side, rows in data.rows.items()}
    stopping = {side: _places(row_clusters(rows), "worth/stop") < HELD_OUT for side, rows in data.rows.items()}
    for low, high in pairwise(EDGES):
        rows = {}
        for side, frame in data.rows.items():
            place, free = places[side], frame["split"].isin(["train", "validation"]).to_numpy(dtype=np.bool_)
            split = np.where(place >= low, "test", np.where(stopping[side], "validation", "train"))
            rows[side] = frame.assign(split=split)[free & (place < high)].reset_index(drop=True)
        yield replace(data, rows=rows)


def _places(owner: NDArray[np.str_], purpose: str) -> NDArray[np.float64]:
    """Place of each row's account, or of its cluster, in [0, 1)."""
    code, unique = pd.factorize(owner)
    return np.array([uniform(f"{purpose}/{name}") for name in unique])[code]
