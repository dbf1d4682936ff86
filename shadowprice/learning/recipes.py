"""Recipes: named compositions of the papers as functions that return a full configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shadowprice.campaign import Side
from shadowprice.encoders.registry import ENCODERS
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.joint import JointSpec
from shadowprice.responses.layers import LAYERS
from shadowprice.responses.registry import OF_DELIVERIES, OF_ROWS, OF_SESSIONS, model_class

OWN: Mapping[Side, str] = {"customer": "hazard", "merchant": "linear"}
"""S0's response layer of each side."""
JOINT = "joint_"


@dataclass(frozen=True)
class Separate:
    """A response model of its own for each side, by registered name."""

    models: Mapping[Side, str]


def _spec(data: TrainingSet, encoder: str, *, customer: str = OWN["customer"], interactions: bool = False) -> JointSpec:
    layers = {**OWN, "customer": customer}
    return JointSpec(
        encoder=encoder,
        layers={side: layers[side] for side in data.rows},
        levels=data.levels,
        layer_options={"customer": {"fusion": 1e-4}} if layers["customer"] == "hazard" else {},
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


RECIPES: dict[str, Callable[[TrainingSet], JointSpec | Separate]] = {"joint_gnn": joint_gnn, "dnn_h": dnn_h, "dnn": dnn}


def recipe_names() -> list[str]:
    """Everything that can be trained by name: recipes, customers' response layers, response models of rows."""
    return sorted({*RECIPES, *(JOINT + encoder for encoder in ENCODERS), *LAYERS, *OF_ROWS})


def check_recipe(name: str) -> None:
    """Refuse what cannot be trained by name.

    Raises:
        NotFound: nothing of that name.
        InvalidInput: a model that another pipeline trains, named in the message.
    """
    if name in recipe_names():
        return
    for pipeline, models in (("vouchers", OF_SESSIONS), ("delivery", OF_DELIVERIES)):
        if name in models:
            raise InvalidInput(f"{name!r} is trained by `python -m pipelines run {pipeline}`", field="recipe")
    raise NotFound(f"recipe {name!r} is unknown; choose one of {recipe_names()}")


def recipe(name: str, data: TrainingSet) -> JointSpec | Separate:
    """The configuration called ``name`` for a training set.

    A recipe's name stands for itself; joint_<encoder> for S0's joint network on that graph encoder; a response layer's
    for the same on ``gcn2`` with that layer for customers and the linear one for merchants; a response model's for that
    model on every side it can learn, and S0's own layer on a graph network for the other side.

    Raises:
        NotFound, InvalidInput: as :func:`check_recipe`.
    """
    check_recipe(name)
    if name in RECIPES:
        return RECIPES[name](data)
    if name.startswith(JOINT) and name.removeprefix(JOINT) in ENCODERS:
        return _spec(data, name.removeprefix(JOINT))
    if name in LAYERS:
        return _spec(data, "gcn2", customer=name)
    sides = model_class(name).sides
    return Separate({side: name if side in sides else OWN[side] for side in data.rows})
