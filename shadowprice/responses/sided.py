"""What training gives: a model of every side, as the pipeline calibrates, judges, exports and serves it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.responses.layers.heads import Head

NETWORK = "network.safetensors"
"""The file of a :class:`~shadowprice.responses.joint.model.JointModel`."""
SEPARATE = "separate.json"
"""The file of a :class:`~shadowprice.responses.separate.SeparateModels`."""
REPAIRED = "repair.json"
"""The file of a :class:`~shadowprice.responses.repair.model.RepairedModel`."""


class SidedModel(ABC):
    """A fitted model of all sides. Everything served is an embedding of each account and a head that reads it."""

    @property
    @abstractmethod
    def levels(self) -> Mapping[Side, tuple[int, ...]]:
        """Incentive levels of each side, minor units."""

    @abstractmethod
    def calibrate(self, snapshots: Sequence[GraphSnapshot], held_out: Mapping[Side, pd.DataFrame]) -> dict[Side, float]:
        """Correct the overall level of each side's response on held-out rows; returns the corrections."""

    @abstractmethod
    def correct(self, side: Side, correction: float) -> None:
        """Apply a correction that :meth:`calibrate` returned; its negative takes it off again."""

    @abstractmethod
    def embed(
        self, snapshots: Sequence[GraphSnapshot], frames: Mapping[Side, pd.DataFrame]
    ) -> dict[Side, NDArray[np.float32]]:
        """Embeddings (n, WIDTH) of the requests of each side: all that a head needs."""

    @abstractmethod
    def heads(self, embeddings: Mapping[Side, NDArray[np.float32]]) -> dict[Side, Head]:
        """The response heads for a server without torch; unknown accounts get the mean embedding."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What the bundle's model.json says of the model, as JSON types."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the whole model; :func:`load_sided` reads it."""

    def unrepaired(self) -> SidedModel:
        """The model before its curves were repaired; itself where they were not."""
        return self

    def curves(self, snapshots: Sequence[GraphSnapshot], frames: Mapping[Side, pd.DataFrame]) -> dict[Side, Curves]:
        """Response curves (J, n) of the requests of each side, computed by the exported heads."""
        embeddings = self.embed(snapshots, frames)
        heads = self.heads(embeddings)
        return {side: Curves(heads[side].levels, heads[side].response(embeddings[side])) for side in frames}


def load_sided(folder: Path) -> SidedModel:
    """Read a model that was saved in ``folder``, whichever kind it is."""
    if (folder / REPAIRED).exists():
        from shadowprice.responses.repair.model import RepairedModel

        return RepairedModel.load(folder)
    if (folder / SEPARATE).exists():
        from shadowprice.responses.separate import SeparateModels

        return SeparateModels.load(folder)
    from shadowprice.responses.joint.model import JointModel

    return JointModel.load(folder)
