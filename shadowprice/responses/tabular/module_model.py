"""Base of the response models whose fitted state is a torch module and the features that it reads."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from shadowprice.errors import InvalidInput
from shadowprice.responses.base import ResponseModel
from shadowprice.responses.state import State
from shadowprice.responses.tabular.rows import TabularInputs
from shadowprice.responses.training.config import Progress, TrainingConfig

Net = TypeVar("Net", bound=nn.Module)


class ModuleModel(ResponseModel, Generic[Net]):
    """A module over the features of a frame.

    Options:
        training: how to train; its seed is replaced by the model's.
        progress: called after every epoch.
    """

    by_gradient = True
    TRAINING: ClassVar[TrainingConfig]
    PRECISION: ClassVar[torch.dtype] = torch.float32

    def __init__(
        self,
        levels: Sequence[int],
        seed: int = 0,
        *,
        training: TrainingConfig | None = None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(levels, seed)
        self.training = training or self.TRAINING
        self.progress = progress
        self.inputs: TabularInputs | None = None
        self.network: Net | None = None

    def sent(self) -> Self:
        """Return a copy for the losses of other processes: it reports no progress."""
        own = copy(self)
        own.progress, own.options = None, {}
        return own

    @abstractmethod
    def build(self, inputs: TabularInputs) -> Net:
        """The untrained module."""

    def state(self) -> State:
        """Weights and features; a model that learns more adds it."""
        inputs, network = self._fitted()
        return State(weights(network), {"inputs": inputs.to_dict()})

    def restore(self, state: State) -> None:
        """Become the model that gave ``state``."""
        self.inputs = TabularInputs.from_dict(state.meta["inputs"])
        network = self.build(self.inputs).to(self.PRECISION).eval()
        load_weights(network, state.arrays)
        self.network = network

    def _fitted(self) -> tuple[TabularInputs, Net]:
        if self.inputs is None or self.network is None:
            raise InvalidInput("fit the model before asking for curves or saving it", field="model")
        return self.inputs, self.network


def weights(module: nn.Module) -> dict[str, NDArray[Any]]:
    """State of a module as arrays by name."""
    return {name: value.detach().numpy() for name, value in module.state_dict().items()}


def load_weights(module: nn.Module, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Put the arrays that :func:`weights` gave back into a module of the same shape."""
    module.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in arrays.items()})
