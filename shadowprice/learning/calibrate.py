"""Calibrating a trained model on its validation split, and taking the correction off again."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

from shadowprice.campaign import Side
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.sided import SidedModel


def calibrate(model: SidedModel, data: TrainingSet) -> dict[Side, float]:
    """Correct the overall level of each side's response on the validation split; returns the corrections.

    The validation split is the latest labelled data before the test, so this is also what follows a drift.
    """
    return model.calibrate(data.snapshots, data.part("validation"))


def uncalibrated(model: SidedModel, corrections: Mapping[Side, float]) -> SidedModel:
    """A copy of the model as it was before :func:`calibrate` and before any repair of its curves."""
    before = deepcopy(model.unrepaired())
    for side, correction in corrections.items():
        before.correct(side, -correction)
    return before
