"""Recipes: named compositions of the papers as functions that return a full configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shadowprice.campaign import FLAT, Policy, Side
from shadowprice.checks import require
from shadowprice.curves import AMOUNT
from shadowprice.encoders.registry import ENCODERS, GRAPH_ENCODER
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.amounts.layer import NAMES
from shadowprice.responses.joint.model import JointSpec
from shadowprice.responses.layers.base import layer_class
from shadowprice.responses.layers.heads import LAYERS
from shadowprice.responses.registry import MODELS, make, model_class, names, wants
from shadowprice.responses.repair.model import NONE, RepairSteps

OWN: Mapping[Side, str] = {"customer": "hazard", "merchant": "linear"}
"""S0's response layer of each side."""
UNORDERED: Mapping[Side, str] = {"customer": "per_level", "merchant": "per_level_ratio"}
"""Response layer of a side whose levels have no order, where none is named."""
JOINT = "joint_"
"""Prefix of the recipes of joint two-sided networks; a name without it is that of a response model."""
PARTS = frozenset({*LAYERS, "dnn", "dnn_h"})
"""Names that alone would be taken for a joint network, whose recipe is called ``joint_…``."""


@dataclass(frozen=True)
class Separate:
    """A response model of its own for each side, by registered name; each takes the options that it knows.

    own      whether the models keep their own training configuration, except for the fields that a caller sets
    learned  splits that are learned from; each model holds out of them what it needs
    """

    models: Mapping[Side, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    own: bool = False
    learned: tuple[str, ...] = ("train",)


WITHOUT_ORDER = ("joint_gnn", "gbdt_free", "wdl", "dnn_offer", FLAT)
"""Recipes for levels that have no order."""
VALIDATION, ROLLING = "validation", "rolling"


@dataclass(frozen=True)
class Training:
    """Recipe of a model and what follows it.

    recipe        one of :func:`recipe_names`
    curve_repair  steps, see :class:`~shadowprice.responses.repair.model.RepairSteps`
    calibration   ``validation``: on the validation split; ``rolling``: by what past weeks agree on, see
                  :func:`~shadowprice.learning.calibrate.calibrate_by_weeks`; ``none``: the level stays
    loss          of a model of funds, in place of its own
    amounts       loss of the amounts of responses in a joint network, in place of the first of
                  :data:`~shadowprice.responses.amounts.layer.NAMES`
    """

    recipe: str = "joint_gnn"
    curve_repair: str = NONE
    calibration: str = VALIDATION
    loss: str = ""
    amounts: str = ""

    def check(self, about: str = "") -> None:
        """Refuse names that are unknown or do not go together; empty ones are filled in later.

        Args:
            about: what the data set is about, see :attr:`~shadowprice.responses.inputs.Inputs.about`.
        """
        if self.recipe:
            check_recipe(self.recipe, about)
        steps = RepairSteps.named(self.curve_repair or NONE)
        own = SUBJECTS[about]
        problem = f"must be {' or '.join(own.calibration)}, got {self.calibration!r}"
        require(self.calibration in ("", *own.calibration), "calibration", problem)
        require(not steps or own.held_out, "curve_repair", f"values of {about} are no curves to repair")
        require(not self.loss or own.values, "loss", "is that of a model of funds, and these rows have none")
        if self.calibration == ROLLING and steps.calibration != "none":
            raise InvalidInput(
                f"{steps.calibration!r} needs rows that the model has not seen; use calibration={VALIDATION!r} with it",
                field="curve_repair",
            )
        if self.recipe == FLAT and (steps or self.calibration == ROLLING):
            # It has no parameters to stop, calibrate or repair by held-out rows.
            raise InvalidInput("have nothing to do for the flat policy", field="curve_repair, calibration")

    def of_policy(self, policy: Policy) -> Training:
        """Return the training of a campaign's policy: ``flat`` has the recipe of that name and no other.

        >>> Training("", "", "").of_policy("flat").recipe
        'flat'
        """
        if policy != FLAT:
            return self
        none = f"leave {self.recipe!r} out: the policy of the campaign is flat, which has one recipe"
        require(self.recipe in ("", FLAT), "recipe", none)
        return replace(self, recipe=FLAT)


DEFAULTS: Mapping[str, Training] = {"o2o": Training("gbdt_free", "effect+monotone", ROLLING)}
"""Data set → its training where the caller names no recipe; ``Training()`` for other data sets."""


@dataclass(frozen=True)
class Subject:
    """Training of the data sets whose rows are about one input.

    pipeline     that trains their models
    calibration  those to choose from
    held_out     split that a repair is fitted on; empty where there is no curve to repair
    training     defaults, whichever recipe is named; None: those of the data set
    learned      splits that its models learn from by a configuration of their own; empty: they take the caller's
    of_rows      whether models of labeled requests are trained too
    values       whether its models learn values, by a loss to choose
    """

    pipeline: str
    calibration: tuple[str, ...]
    held_out: str
    training: Training | None = None
    learned: tuple[str, ...] = ()
    of_rows: bool = True
    values: bool = False


SUBJECTS: Mapping[str, Subject] = {
    "": Subject("train", (VALIDATION, ROLLING, NONE), "validation"),
    # A discount is multiplied by a response, which must be a probability. No split is left but that of the test.
    "sessions": Subject("vouchers", (NONE,), "test", Training("dmbgn", "pooled", NONE), ("train",)),
    # Values of segments are not calibrated, so that no row is kept for it.
    "segments": Subject(
        "delivery", (NONE,), "", Training("esdpm", NONE, NONE), ("train", "validation"), of_rows=False, values=True
    ),
}
"""Input that rows are about (:attr:`~shadowprice.responses.inputs.Inputs.about`) → how their models are trained."""


def choose_training(dataset: str, asked: Training, about: str = "") -> Training:
    """Fill in the fields that the caller left empty.

    Without a recipe, the data set's own way of training; with one, no repair and calibration on the validation split.
    A data set about sessions or segments is trained as :data:`SUBJECTS` says.

    >>> choose_training("o2o", Training("", "", "")).recipe
    'gbdt_free'
    >>> choose_training("o2o", Training("joint_gnn", "", "")).curve_repair
    'none'
    """
    own = SUBJECTS[about].training or (Training(asked.recipe) if asked.recipe else DEFAULTS.get(dataset, Training()))
    return Training(
        asked.recipe or own.recipe,
        asked.curve_repair or own.curve_repair,
        asked.calibration or own.calibration,
        asked.loss,
        asked.amounts,
    )


def _spec(data: TrainingSet, encoder: str, *, customer: str = "", interactions: bool = False) -> JointSpec:
    layers = {side: UNORDERED[side] if side in data.unordered else OWN[side] for side in data.rows}
    layers |= {"customer": customer} if customer else {}
    return JointSpec(
        encoder=encoder,
        layers=layers,
        levels=data.levels,
        layer_options={"customer": {"fusion": 1e-4}} if layers.get("customer") == "hazard" else {},
        context=data.context,
        partner={side: data.partner(side) for side in data.rows},
        interactions=interactions,
    )


def joint_gnn(data: TrainingSet) -> JointSpec:
    """S0: graph encoder, piecewise hazard for customers, linear head for merchants, one joint loss.

    A side whose levels have no order has a score of its own for each level (:data:`UNORDERED`).
    """
    return _spec(data, GRAPH_ENCODER)


def joint_dnn_h(data: TrainingSet) -> JointSpec:
    """S0's baseline DNN-H: own features and historical interaction aggregates, no graph."""
    return _spec(data, "none", interactions=True)


def joint_dnn(data: TrainingSet) -> JointSpec:
    """S0's baseline DNN: own features only."""
    return _spec(data, "none")


def gbdt_free(data: TrainingSet) -> Separate:
    """Trees that read the amount as one more feature.

    They rank as well as trees can. Their curves may fall, so they need the repair step ``effect``.
    """
    return Separate(dict.fromkeys(data.rows, "gbdt"), {"level": "free"})


def flat(data: TrainingSet) -> Separate:
    """One curve for all accounts of a side, from the effects that the log shows: the policy ``flat``."""
    return Separate(dict.fromkeys(data.rows, FLAT), {"confounders": data.confounders, "unordered": data.unordered})


RECIPES: dict[str, Callable[[TrainingSet], JointSpec | Separate]] = {
    "joint_gnn": joint_gnn,
    "joint_dnn_h": joint_dnn_h,
    "joint_dnn": joint_dnn,
    "gbdt_free": gbdt_free,
    FLAT: flat,
}


def recipe_names(about: str = "") -> list[str]:
    """Everything that can be trained by name: recipes, joint networks by encoder or layer, response models of rows.

    With sessions as ``about``, all response models of rows and of sessions; with segments, those of segments.
    """
    if about:
        return sorted({*names(about), *(names("") if SUBJECTS[about].of_rows else ())})
    return sorted({*RECIPES, *(JOINT + part for part in (*ENCODERS, *LAYERS)), *names("")} - PARTS)


def check_recipe(name: str, about: str = "") -> None:
    """Refuse a name that cannot be trained.

    Raises:
        NotFound: nothing of that name.
        InvalidInput: a part of a joint network, or a model of another pipeline; the message says what to ask for.
    """
    if name in recipe_names(about):
        return
    require(about or name not in PARTS, "recipe", f"the joint network {name!r} is called {JOINT + name!r}")
    if name in MODELS:
        hint = f"{name!r} is trained by `python -m pipelines run {SUBJECTS[MODELS[name].about].pipeline}`"
        raise InvalidInput(f"{hint}; choose one of {recipe_names(about)}" if about else hint, field="recipe")
    raise NotFound(f"recipe {name!r} is unknown; choose one of {recipe_names(about)}")


def recipe(name: str, data: TrainingSet, amounts: str = "") -> JointSpec | Separate:
    """The configuration called ``name`` for a training set.

    A name is one of:

    - a recipe;
    - joint_<encoder>: S0's joint network on that graph encoder;
    - joint_<layer>: the same network on :data:`GRAPH_ENCODER`, with that layer for customers and the linear one for
      merchants;
    - a response model: that model on every side it can learn, and S0's own layer on a graph network for the other
      side.

    Where rows have the amounts of responses, the model learns them: a joint network by the loss ``amounts``, empty for
    the default.

    >>> check_recipe("hazard")
    Traceback (most recent call last):
    shadowprice.errors.InvalidInput: recipe: the joint network 'hazard' is called 'joint_hazard'

    Raises:
        NotFound, InvalidInput: as :func:`check_recipe`, a side whose levels have no order would get a model that reads
            one, or the rows have amounts that the model cannot learn.
    """
    check_recipe(name, data.inputs.about)
    choice = _with_amounts(name, _named(name, data), data, amounts)
    for side in data.unordered:
        reason = (
            f"{name!r} reads an order of levels, and the offers of {side}s have none ({', '.join(data.offers[side])}); "
            f"use one of {', '.join(WITHOUT_ORDER)}, or order the levels in the tables (ordered_{side})"
        )
        require(not _reads_order(choice, side, data), "recipe", reason)
    return choice


def _named(name: str, data: TrainingSet) -> JointSpec | Separate:
    if learned := SUBJECTS[data.inputs.about].learned:
        return Separate(dict.fromkeys(data.rows, name), own=True, learned=learned)
    if name in RECIPES:
        return RECIPES[name](data)
    if name.startswith(JOINT):
        part = name.removeprefix(JOINT)
        return _spec(data, part) if part in ENCODERS else _spec(data, GRAPH_ENCODER, customer=part)
    sides = model_class(name).sides
    return Separate({side: name if side in sides else OWN[side] for side in data.rows})


def _with_amounts(name: str, choice: JointSpec | Separate, data: TrainingSet, loss: str) -> JointSpec | Separate:
    """The recipe with the loss of amounts on each side whose rows have them; those of funds are learned in any case.

    Amounts with bounds are those of offers in percent, and have one law for the side.
    """
    known = (side for side, rows in data.rows.items() if AMOUNT in rows and "amount_least" not in rows)
    sides = [] if SUBJECTS[data.inputs.about].values else list(known)
    joint = isinstance(choice, JointSpec)
    require(not loss or (sides and joint), "amounts", "is of a joint network whose training rows have amounts")
    ratio = f"must be {NAMES[0]} or empty: {loss!r} reads the probability of a response, and a merchant's is a ratio"
    require("merchant" not in sides or loss in ("", NAMES[0]), "amounts", ratio)
    if isinstance(choice, JointSpec):
        return replace(choice, amounts=dict.fromkeys(sides, loss or NAMES[0])) if sides else choice
    for side in sides:
        fault = f"{name!r} learns no amounts, which are the worth of a {side}'s response; use joint_gnn or gbdt"
        require(model_class(choice.models[side]).amounts, "recipe", fault)
    return choice


def _reads_order(found: JointSpec | Separate, side: Side, data: TrainingSet) -> bool:
    if isinstance(found, JointSpec):
        return layer_class(found.layers[side]).ordered
    name = found.models[side]
    options = {key: value for key, value in {"side": side, **found.options}.items() if key in wants(name)}
    model = make(name, levels=data.levels[side], **options)
    return model.ordered or model.monotone
