"""Answers of the prediction endpoints, as the service's OpenAPI describes them; no answer is checked against them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, create_model

from serving.protocol import OUTPUTS
from shadowprice.campaign import Side

_TYPES: dict[str, Any] = {"INT64": int, "INT32": int, "FP64": float, "BOOL": bool, "BYTES": str}


class Answer(BaseModel):
    """Base of the models of this file."""

    model_config = ConfigDict(protected_namespaces=())


class Parameters(Answer):
    """Values that hold for all requests of a call.

    price_version      active price
    model_version      model of the active price
    price_age_seconds  age of the active price
    degraded           whether some requests were decided without their features
    """

    price_version: int
    model_version: str
    price_age_seconds: float
    degraded: bool


_FIELDS: dict[str, Any] = {name: (_TYPES[datatype], ...) for name, datatype in OUTPUTS.items()}
_ABOUT = "Answer to one request: the outputs of V2 by name. Money is in minor units."
Prediction: Any = create_model("Prediction", __base__=Answer, __doc__=_ABOUT, **_FIELDS)


class Predictions(Parameters):
    """Answers to the instances of a V1 call, in their order."""

    predictions: list[Prediction]


class Tensor(Answer):
    """One output of shape [n]."""

    name: Literal[tuple(OUTPUTS)]  # type: ignore[valid-type]
    datatype: Literal[tuple(dict.fromkeys(OUTPUTS.values()))]  # type: ignore[valid-type]
    shape: list[int]
    data: list[bool | int | float | str]


class Inference(Answer):
    """Answer to a V2 call; ``id`` is that of the call."""

    model_name: str
    model_version: str
    id: str = ""
    parameters: Parameters
    outputs: list[Tensor]


class Level(Answer):
    """A level that was compared: ``score`` is ``value`` less prices times cost, ``name`` has the offer's terms."""

    level: int
    offer_id: str
    name: str
    incentive: int
    response: float
    value: float
    expected_cost: float
    score: float
    allowed: bool
    propensity: float


class Explanation(Answer):
    """Explanation of one request: the answer it would get now, and why; no ``levels`` where nothing is decided."""

    request_id: str
    account_id: str
    side: Side
    reason: str
    reason_text: str
    level: int
    incentive: int
    levels: list[Level]
    arm: str = ""
    offer_id: str = ""
    best_level: int = 0
    runner_up: int | None = None
    margin: float | None = None
    features_at: str | None = None
    behaviors: int | None = None


class Explanations(Parameters):
    """Explanations of the instances of a call, with the active prices by budget and the currency of the amounts."""

    explanations: list[Explanation]
    prices: dict[str, float]
    tie_share: float
    currency: str


class Live(Answer):
    """The process answers."""

    status: str


class Models(Answer):
    """Names of the models that decide."""

    models: list[str]


class ModelReady(Answer):
    """Name of a model, and whether it decides."""

    name: str
    ready: bool
