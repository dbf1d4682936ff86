"""What a response layer offers to the network that trains it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.responses.layers.heads import Head


class ResponseLayer(nn.Module, ABC):
    """Base of the response layers, embedding (n, D) → (n, J); a new one is one file and a line in ``LAYERS``."""

    @abstractmethod
    def forward(self, embedding: Tensor) -> Tensor:
        """(n, J)."""

    @abstractmethod
    def loss(self, embedding: Tensor, level: Tensor, response: Tensor) -> Tensor:
        """(n,) loss of each row."""

    def shrink(self, step: Callable[[nn.Parameter], Tensor]) -> None:
        """Proximal step of the layer's penalty, if it has one; ``step`` gives its length per coordinate."""

    @abstractmethod
    def start(
        self, level: NDArray[np.int64], response: NDArray[np.float64], weight: NDArray[np.float64] | None = None
    ) -> None:
        """Set the intercepts from the training rows; without weights all count alike."""

    @abstractmethod
    def calibrate(
        self, embedding: Tensor, level: Tensor, response: Tensor, account: Tensor, weight: Tensor | None = None
    ) -> float:
        """Correct the overall level of the response on held-out rows; returns the correction.

        By one parameter, with a function of :mod:`shadowprice.responses.calibration`.
        """

    @abstractmethod
    def correct(self, correction: float) -> None:
        """Apply a correction that :meth:`calibrate` returned; its negative takes it off again."""

    @abstractmethod
    def to_head(self, default_embedding: NDArray[np.float32]) -> Head:
        """The same curve in numpy."""
