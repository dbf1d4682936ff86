"""Interface of a fitted model of all sides, as the pipeline calibrates, judges, exports and serves it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.layers.heads import Head, curves_of
from shadowprice.responses.layers.own import ServedEncoder
from shadowprice.responses.layers.tower import Tower

NETWORK, SEPARATE, REPAIRED, DELIVERED = "network.safetensors", "separate.json", "repair.json", "segments.json"
KINDS = {
    REPAIRED: "shadowprice.responses.repair.model:RepairedModel",
    DELIVERED: "shadowprice.responses.funds.delivered:DeliveryModel",
    SEPARATE: "shadowprice.responses.separate:SeparateModels",
    NETWORK: "shadowprice.responses.joint.model:JointModel",
}
"""File that marks the folder of a model → its class; the first one found decides."""
DELIVERED_SIDE: Side = "customer"
"""The one side of a model of funds."""


@dataclass(frozen=True, eq=False)
class Embedded:
    """Requests of one side as they are served.

    request  float32 (n, D), embeddings of the requests, which the head reads
    own      float32 (n, D) or (n, P), the accounts' own embeddings, where a tower joins them with the request
    tower    None where the model reads nothing of the request
    """

    request: NDArray[np.float32]
    own: NDArray[np.float32] | None = None
    tower: Tower | None = None


class SidedModel(ABC):
    """A fitted model of all sides. Everything served is an embedding of each account and a head that reads it.

    A method that is asked about rows takes them with the inputs that the model may read beside them.
    """

    @property
    @abstractmethod
    def levels(self) -> Mapping[Side, tuple[int, ...]]:
        """Incentive levels of each side, minor units."""

    @property
    def with_amounts(self) -> frozenset[Side]:
        """Sides whose model has learned the amounts of responses."""
        return frozenset()

    @abstractmethod
    def calibrate(self, inputs: Inputs, held_out: Mapping[Side, pd.DataFrame]) -> dict[Side, float]:
        """Correct the overall level of each side's response on held-out rows; returns the corrections."""

    @abstractmethod
    def correct(self, side: Side, correction: float) -> None:
        """Apply a correction that :meth:`calibrate` returned; its negative takes it off again."""

    @abstractmethod
    def embed(self, inputs: Inputs, frames: Mapping[Side, pd.DataFrame]) -> dict[Side, NDArray[np.float32]]:
        """Embeddings (n, WIDTH) of the requests of each side: all that a head needs."""

    def embed_parts(self, inputs: Inputs, frames: Mapping[Side, pd.DataFrame]) -> dict[Side, Embedded]:
        """Embeddings as :meth:`embed` gives them, and where the model has request towers what these joined."""
        return {side: Embedded(embedding) for side, embedding in self.embed(inputs, frames).items()}

    @abstractmethod
    def heads(self, embeddings: Mapping[Side, NDArray[np.float32]]) -> dict[Side, Head]:
        """The response heads for a server without torch; unknown accounts get the mean embedding."""

    def encoders(self) -> dict[Side, ServedEncoder]:
        """Encoders of accounts that are in no graph, for a server without torch; none where a model has none."""
        return {}

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the description of the model for the bundle's model.json, as JSON types."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the whole model; :func:`load_sided` reads it."""

    @property
    def personal(self) -> bool:
        """Return whether accounts have curves of their own on some side; False of a flat policy."""
        return True

    def unrepaired(self) -> SidedModel:
        """The model before its curves were repaired; itself where they were not."""
        return self

    def figures(self, inputs: Inputs, labeled: Mapping[Side, pd.DataFrame]) -> dict[str, float]:
        """Figures of the training, or of the predictions of labeled rows, one number each."""
        del inputs, labeled
        return {}

    def curves(self, inputs: Inputs, frames: Mapping[Side, pd.DataFrame]) -> dict[Side, Curves]:
        """Response curves (J, n) of the requests of each side, computed by the exported heads."""
        embeddings = self.embed(inputs, frames)
        heads = self.heads(embeddings)
        return {side: curves_of(heads[side], embeddings[side]) for side in frames}


def load_sided(folder: Path) -> SidedModel:
    """Read a model that was saved in ``folder``, whichever kind it is.

    Raises:
        NotFound: there is none.
    """
    mark = next((name for name in KINDS if (folder / name).exists()), NETWORK)
    module, cls = KINDS[mark].split(":")
    model: SidedModel = getattr(import_module(module), cls).load(folder)
    return model
