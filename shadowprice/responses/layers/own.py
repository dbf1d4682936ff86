"""Encoder of an account's own features, for an account that is in no graph yet.

A graph encoder of a node without ties is a chain of dense layers. Does not load torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.graphs.scaling import Scaling
from shadowprice.responses.arrays import relu
from shadowprice.responses.layers.sides import Arrays, load_sides, save_sides
from shadowprice.responses.layers.tower import Tower, column_of, context_values, dense

FILE = "encoders.safetensors"


@dataclass(frozen=True, eq=False, kw_only=True)
class ServedEncoder:
    """Dense layers with ReLU between them, with their fitted weights, for a server without torch.

    It computes in float64 and rounds only the result, so that an account gives the same embedding alone or in a batch.

    features  standardization of the account's features
    weights   (O, I) of each layer
    biases    (O,) of each layer
    """

    features: Scaling
    weights: tuple[NDArray[np.float32], ...]
    biases: tuple[NDArray[np.float32], ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns of an account that are read: x_… and h_… are numbers, c_… are texts."""
        return tuple(dict.fromkeys(map(column_of, self.features.names)))

    def embed(self, columns: Mapping[str, Any], rows: int) -> NDArray[np.float32]:
        """Embeddings (n, D) of n accounts; a row depends on no other. O(n · weights).

        Args:
            columns: column → n values, None or NaN where unknown; a column that is missing is unknown.
            rows: n.
        """
        hidden: NDArray[Any] = self.features.apply(context_values(columns, rows, self.features.names))
        for place, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = dense(hidden if place == 0 else np.asarray(relu(hidden)), weight, bias)
        return hidden.astype(np.float32)

    def stored(self, tower: Tower | None, columns: Mapping[str, Any], rows: int) -> NDArray[np.float32]:
        """Return the vectors (n, D or 2D) that would be stored of n accounts.

        That is the embedding. With a tower it is the vector of a request without context and partner, followed by the
        embedding.
        """
        own = self.embed(columns, rows)
        if tower is None:
            return own
        request = tower.join(own, {}, np.zeros_like(own))
        return np.concatenate([request, own], axis=1)


def save_encoders(encoders: Mapping[Side, ServedEncoder], folder: Path) -> None:
    """Write the encoders to ``encoders.safetensors`` in ``folder``; the file goes where there are none."""
    parts = {
        side: (
            {
                f"{kind}.{place}": value
                for kind, layers in (("weight", encoder.weights), ("bias", encoder.biases))
                for place, value in enumerate(layers)
            },
            {"features": encoder.features.to_dict(), "layers": len(encoder.weights)},
        )
        for side, encoder in encoders.items()
    }
    save_sides(parts, folder / FILE)


def load_encoders(folder: Path) -> dict[Side, ServedEncoder]:
    """Read what :func:`save_encoders` wrote; empty where there is no such file.

    Raises:
        InvalidInput: it is not a file of encoders.
    """
    path = folder / FILE
    return load_sides(path, _encoder, kind="encoders") if path.exists() else {}


def _encoder(arrays: Arrays, meta: Any) -> ServedEncoder:
    weights, biases = (
        tuple(arrays[f"{kind}.{place}"] for place in range(meta["layers"])) for kind in ("weight", "bias")
    )
    return ServedEncoder(features=Scaling.from_dict(meta["features"]), weights=weights, biases=biases)
