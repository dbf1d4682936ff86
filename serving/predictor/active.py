"""Active price and the model it was solved for, and those of a canary beside them, as one reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from serving.predictor.features import Features
from shadowprice.campaign import Side
from shadowprice.pacing.canary import Canary
from shadowprice.price import PriceRecord
from shadowprice.responses.layers.heads import Head
from shadowprice.responses.layers.tower import Tower


@dataclass(frozen=True)
class ServedModel:
    """A model that is loaded and warm: its heads, the embeddings it computed, and the towers that read requests."""

    version: str
    heads: Mapping[Side, Head]
    features: Features
    towers: Mapping[Side, Tower] = field(default_factory=dict)


@dataclass(frozen=True)
class Active:
    """A price and its model; ``price.model_version == model.version``.

    A price holds for the curves of one model; with those of another, the spend misses the budget. So both are replaced
    together, and a call takes this reference once.

    beside   model on trial and its own price, which decide for the units of the canary
    alarmed  whether the watch alarms on the model, so that the campaign explores more
    """

    price: PriceRecord
    model: ServedModel
    beside: Beside | None = None
    alarmed: bool = False


@dataclass(frozen=True)
class Beside:
    """A canary, its price and its model; ``canary.model_version == pair.model.version``."""

    canary: Canary
    pair: Active
