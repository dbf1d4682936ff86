"""Recipes: named compositions of the papers as functions that return a full configuration."""

from __future__ import annotations

from collections.abc import Callable

from shadowprice.errors import NotFound
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.joint import JointSpec


def _spec(data: TrainingSet, encoder: str, *, interactions: bool = False) -> JointSpec:
    layers = {"customer": "hazard", "merchant": "linear"}
    return JointSpec(
        encoder=encoder,
        layers={side: layers[side] for side in data.rows},
        levels=data.levels,
        layer_options={"customer": {"fusion": 1e-4}} if "customer" in data.rows else {},
        context=data.context,
        partner={side: data.partner(side) for side in data.rows},
        interactions=interactions,
    )


def joint_gnn(data: TrainingSet) -> JointSpec:
    """S0: graph encoder, piecewise hazard for customers, linear head for merchants, one joint loss."""
    return _spec(data, "gcn2")


def dnn_h(data: TrainingSet) -> JointSpec:
    """S0's baseline DNN-H: own features and historical interaction aggregates, no graph."""
    return _spec(data, "none", interactions=True)


def dnn(data: TrainingSet) -> JointSpec:
    """S0's baseline DNN: own features only."""
    return _spec(data, "none")


RECIPES: dict[str, Callable[[TrainingSet], JointSpec]] = {"joint_gnn": joint_gnn, "dnn_h": dnn_h, "dnn": dnn}


def recipe(name: str, data: TrainingSet) -> JointSpec:
    """The configuration called ``name`` for a training set, or :class:`NotFound`."""
    if name not in RECIPES:
        raise NotFound(f"recipe {name!r} is unknown; choose one of {sorted(RECIPES)}")
    return RECIPES[name](data)
