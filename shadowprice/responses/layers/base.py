"""Interface between a response layer and the network that trains it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.errors import NotFound
from shadowprice.responses.arrays import RATE_SCALE
from shadowprice.responses.layers.heads import LAYERS, Head


class ResponseLayer(nn.Module, ABC):
    """Base of the response layers, embedding (n, D) → (n, J); a new one is one file and a line in ``LAYERS``.

    estimator  function of :mod:`shadowprice.responses.calibration` that finds the correction of the overall level
    head       class of the head that serves the layer
    ordered    whether it reads an order of the levels
    amounts    (J,), the levels in units of ``RATE_SCALE`` minor units
    """

    estimator: ClassVar[Callable[..., float]]
    head: ClassVar[Callable[..., Head]]
    ordered: ClassVar[bool] = True

    def __init__(self, levels: NDArray[np.int64]) -> None:
        super().__init__()
        self.levels = np.asarray(levels, dtype=np.int64)
        self.amounts = self.constant("amounts", self.levels / RATE_SCALE)

    def constant(self, name: str, values: NDArray[np.float64]) -> Tensor:
        """Register numbers that are neither trained nor saved."""
        tensor = torch.tensor(values, dtype=torch.get_default_dtype())
        self.register_buffer(name, tensor, persistent=False)
        return tensor

    @property
    def least_slope(self) -> float:
        """Slope to start from at least: a rise by 0.01 up to the highest amount, or up to 1 where that is more.

        In a currency of small units the highest amount may be 10,000: a slope that does not depend on the amounts would
        be steep there.
        """
        return 1e-2 / max(float(self.amounts[-1]), 1.0)

    @abstractmethod
    def forward(self, embedding: Tensor) -> Tensor:
        """Cumulative hazards, logits or expected responses (n, J)."""

    def at(self, embedding: Tensor, level: Tensor) -> Tensor:
        """Output (n,) at one level of each row."""
        curve: Tensor = self(embedding)
        return curve.gather(1, level[:, None]).squeeze(1)

    def cut(self, level: Tensor, response: Tensor) -> Tensor:
        """Responses (n,) at the given levels as :meth:`loss` reads them: those far from all others may be cut."""
        del level
        return response

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

    @torch.no_grad()
    def calibrate(
        self, embedding: Tensor, level: Tensor, response: Tensor, account: Tensor, weight: Tensor | None = None
    ) -> float:
        """Correct the overall level of the response on held-out rows; returns the correction."""
        rows = [self.at(embedding, level), response, account]
        correction = type(self).estimator(*(row.numpy() for row in rows), None if weight is None else weight.numpy())
        self.correct(correction)
        return correction

    @abstractmethod
    def correct(self, correction: float) -> None:
        """Apply a correction that :meth:`calibrate` returned; its negative takes it off again."""

    @abstractmethod
    def head_weights(self) -> dict[str, Tensor | None]:
        """Fields of the head beside levels and default embedding; a number is a tensor without dimension."""

    @torch.no_grad()
    def to_head(self, default_embedding: NDArray[np.float32]) -> Head:
        """Export the weights as arrays, for the same response function without torch."""
        values = {
            name: None if head_weight is None else array(head_weight) if head_weight.ndim else float(head_weight)
            for name, head_weight in self.head_weights().items()
        }
        return self.head(levels=self.levels, default_embedding=default_embedding, **values)


def make_layer(name: str, width: int, levels: NDArray[np.int64], **options: Any) -> ResponseLayer:
    """Build the response layer called ``name`` over embeddings of ``width``; raises as :func:`layer_class`."""
    build: Callable[..., ResponseLayer] = layer_class(name)
    return build(width, levels, **options)


def layer_class(name: str) -> type[ResponseLayer]:
    """The class of the response layer called ``name``.

    Raises:
        NotFound: no layer of that name.
    """
    if name not in LAYERS:
        raise NotFound(f"response layer {name!r} is unknown; choose one of {sorted(LAYERS)}")
    module, cls = LAYERS[name].split(":")
    layer: type[ResponseLayer] = getattr(import_module(module), cls)
    return layer


def array(tensor: Tensor) -> NDArray[Any]:
    """Weights as float32."""
    return tensor.detach().numpy().astype(np.float32)
