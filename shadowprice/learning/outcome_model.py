"""Outcomes of replayed requests: the known truth, or a fitted outcome model where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.datasets.registry import Dataset
from shadowprice.datasets.truth import true_curves
from shadowprice.decision import uniform
from shadowprice.learning.train import train
from shadowprice.learning.training_set import TrainingSet
from shadowprice.pacing.replay.outcomes import Population
from shadowprice.responses.training import TrainingConfig

SEED_OFFSET = 1000
"""Keeps the outcome model's random numbers apart from those of the model it judges."""
HELD_OUT = 0.25
"""Share of the test accounts on which the outcome model is stopped and calibrated."""


def outcome_rows(data: TrainingSet) -> TrainingSet:
    """Return the rows that an outcome model may learn from: the test split, dealt into training and validation.

    The served model is fitted on the training split, and stopped, calibrated and repaired on the validation split, so
    these are the rows that it has not seen. They are dealt by account, by a hash that depends on the account alone.
    """
    rows = {}
    for side, test in data.part("test").items():
        held_out = [uniform(f"outcome/{account}") < HELD_OUT for account in test["account_id"].astype(str)]
        rows[side] = test.assign(split=np.where(held_out, "validation", "train"))
    return replace(data, rows=rows)


def fit_outcome_model(data: TrainingSet, config: TrainingConfig, recipe: str = "joint_dnn_h") -> Mapping[Side, Curves]:
    """Curves (J, n) of the accounts in ``data.serving``, by a model that shares no labelled row with the one served.

    Another recipe, another seed, and fitted on :func:`outcome_rows`. It shares the served model's features and
    assumptions: what is measured against it is simulated.
    """
    own = outcome_rows(data)
    model, _ = train(own, recipe, replace(config, seed=config.seed + SEED_OFFSET))
    model.calibrate(own.snapshots, own.part("validation"))
    return model.curves(own.snapshots, own.serving)


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
    """Name the source of a replay's outcomes."""
    if dataset.truth is not None:
        return "drawn from the generator's known truth"
    return (
        "drawn from a fitted outcome model (another recipe and seed, on test rows that the served model has not seen)"
    )
