"""What replayed requests lead to: the known truth, or a fitted outcome model where there is none."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.datasets.registry import Dataset
from shadowprice.learning.evaluate import true_curves
from shadowprice.learning.train import train
from shadowprice.learning.training_set import TrainingSet
from shadowprice.pacing.outcomes import Population
from shadowprice.responses.training import TrainingConfig

SEED_OFFSET = 1000
"""Keeps the outcome model's random numbers apart from those of the model it judges."""


def fit_outcome_model(data: TrainingSet, config: TrainingConfig, recipe: str = "dnn_h") -> Mapping[Side, Curves]:
    """Curves (J, n) of the accounts in ``data.serving``, by a model that is not the one served.

    Another recipe, another seed, and calibrated on the test split, the latest labelled rows, which
    the served model has never seen. It shares the served model's data and assumptions all the same:
    what is measured against it is simulated, and flatters.
    """
    seeded = TrainingConfig(**{**config.__dict__, "seed": config.seed + SEED_OFFSET})
    model, _ = train(data, recipe, seeded)
    model.calibrate(data.snapshots, data.part("test"))
    return model.curves(data.snapshots, data.serving)


def truth_of(dataset: Dataset, data: TrainingSet, seed: int) -> dict[Side, Population]:
    """The curves that outcomes are drawn from: the generator's, or a fitted outcome model's; see :func:`truth_note`."""
    if dataset.truth is None:
        curves = fit_outcome_model(data, TrainingConfig(seed=seed))
    else:
        curves = {
            side: Curves(
                np.asarray(data.levels[side]),
                true_curves(dataset.truth, side, serving["account_id"], len(data.levels[side])).astype(np.float32),
            )
            for side, serving in data.serving.items()
        }
    return {
        side: Population(serving["account_id"].to_numpy(dtype=str), curves[side])
        for side, serving in data.serving.items()
    }


def truth_note(dataset: Dataset) -> str:
    """Where the outcomes of a replay come from, in words."""
    if dataset.truth is not None:
        return "drawn from the generator's known truth"
    return "drawn from a fitted outcome model (another recipe and seed, calibrated on the last labelled rows)"
