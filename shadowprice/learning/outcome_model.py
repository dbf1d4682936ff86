"""A fitted outcome model: what replayed requests lead to where the truth is not known."""

from __future__ import annotations

from collections.abc import Mapping

from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.learning.train import train
from shadowprice.learning.training_set import TrainingSet
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
