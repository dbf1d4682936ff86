"""Repairing a trained model's curves on its validation split, before any allocation."""

from __future__ import annotations

import pandas as pd

from shadowprice.campaign import Side
from shadowprice.checks import require
from shadowprice.curves import Curves
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.repair.model import RepairedModel, RepairSteps, SideRepair
from shadowprice.responses.sided import SidedModel


def repair(model: SidedModel, data: TrainingSet, name: str) -> SidedModel:
    """The model with its curves repaired as ``name`` says, or the model itself for ``none``.

    Args:
        model: trained, and calibrated if it is to be.
        data: its training set. The validation split, the latest labelled rows that the model was not fitted on, is
            what the repair is fitted on, and its training split besides for the effect.
        name: ``none``, or of effect, pooled, by_level, monotone, joined by ``+``.
    """
    steps = RepairSteps.named(name)
    check_repair(steps, data)
    if not steps:
        return model
    seen, held_out = data.part("train"), data.part("validation")
    repairs: dict[Side, SideRepair] = {}
    for side in data.rows:

        def curves_of(frame: pd.DataFrame, side: Side = side) -> Curves:
            return model.curves(data.snapshots, {side: frame})[side]

        confounders = data.confounders.get(side, ())
        repairs[side] = SideRepair.fit(steps, curves_of, held_out[side], seen[side], confounders, side)
    return RepairedModel(model, repairs)


def check_repair(steps: RepairSteps, data: TrainingSet) -> None:
    """Refuse steps that read an order of levels where a side has none."""
    reason = f"effect and monotone read an order of levels, and those of {', '.join(data.unordered)}s have none"
    require(not (data.unordered and (steps.effect or steps.project)), "curve_repair", reason)
