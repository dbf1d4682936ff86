"""Networks that read an account's own features and the level, without a graph: what S1's models share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.responses.base import ResponseModel
from shadowprice.responses.state import State
from shadowprice.responses.tabular.minibatch import TabularRows, fit_module, weighted_mean
from shadowprice.responses.tabular.rows import TabularInputs, fit_tabular
from shadowprice.responses.training.config import FitResult, Progress, TrainingConfig
from shadowprice.responses.weights import row_weights

HELD_OUT = 0.15
"""Share of accounts kept for early stopping."""
DEFAULT = TrainingConfig(learning_rate=3e-3, decay=0.99, epochs=150, patience=25, weight_decay=1e-4)
CHUNK = 65_536
"""Rows whose curves are computed at a time."""


class FeatureEmbedding(nn.Module):
    """Numbers as they are beside an embedding per category (n, P), (n, C) → (n, P + C·dim).

    The unknown category starts at zero and stays there unless training rows have it. Without any feature there
    is one column of zeros, so that what reads it has a width.
    """

    def __init__(self, inputs: TabularInputs, dim: int) -> None:
        super().__init__()
        sizes = inputs.sizes
        self.empty = not inputs.numbers.width and not sizes
        self.width = inputs.numbers.width + dim * len(sizes) + self.empty
        self.table = nn.Embedding(max(1, sum(sizes)), dim)
        offset = np.concatenate([[0], np.cumsum(sizes[:-1])]) if sizes else np.zeros(0)
        self.offset: Tensor
        self.register_buffer("offset", torch.tensor(offset, dtype=torch.int64), persistent=False)
        nn.init.normal_(self.table.weight, std=0.3)
        with torch.no_grad():
            self.table.weight[self.offset] = 0.0

    def forward(self, numeric: Tensor, category: Tensor) -> Tensor:
        """(n, width)."""
        if self.empty:
            return numeric.new_zeros(numeric.shape[0], 1)
        return torch.cat([numeric, self.table(category + self.offset).flatten(1)], dim=1)


class ResponseModule(nn.Module):
    """Base of the modules that a :class:`TabularNetwork` trains."""

    def start(self, share: NDArray[np.float64]) -> None:
        """Set intercepts from the smoothed mean response of every level, (J,)."""


class LevelNetwork(ResponseModule, ABC):
    """Base of the modules that read features alone: features → logits of the response at every level."""

    @abstractmethod
    def forward(self, numeric: Tensor, category: Tensor) -> Tensor:
        """(n, J)."""

    def at(self, numeric: Tensor, category: Tensor, level: Tensor) -> Tensor:
        """Logits (n,) at one level of each row, which is all that a loss needs."""
        found: Tensor = self(numeric, category)
        return found.gather(1, level[:, None]).squeeze(1)


class TabularNetwork(ResponseModel):
    """A :class:`ResponseModule` with the features it reads and the loop that trains it.

    What is here serves a :class:`LevelNetwork`; a model of another module overrides :meth:`train` and :meth:`curve`.

    Options:
        training: how to train; its seed is replaced by the model's, and ``batch_rows`` 0 means minibatches of 512.
        held_out: share of accounts kept for early stopping.
        embedding: width of a category's embedding (S1 does not print it).
        progress: called after every epoch.
    """

    def __init__(
        self,
        levels: Sequence[int],
        seed: int = 0,
        *,
        training: TrainingConfig | None = None,
        held_out: float = HELD_OUT,
        embedding: int = 8,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(levels, seed)
        if not 0 < held_out < 1:
            raise InvalidInput("must lie between 0 and 1", field="held_out")
        self.training = replace(training or DEFAULT, seed=seed)
        self.held_out = held_out
        self.embedding = embedding
        self.progress = progress
        self.inputs: TabularInputs | None = None
        self.network: ResponseModule | None = None
        self.results: list[FitResult] = []

    @abstractmethod
    def build(self, inputs: TabularInputs) -> ResponseModule:
        """The untrained module."""

    def fit(self, frame: pd.DataFrame) -> Self:
        """Train on ``frame``, rows weighted by :func:`~shadowprice.responses.weights.row_weights`."""
        self.check_frame(frame)
        check_probabilities(frame)
        weight = row_weights(frame, self.levels.size)
        held = self._held_out(frame)
        self.inputs = fit_tabular(frame[~held])
        rows = self._rows(frame, weight)
        train, validation = rows.take(torch.from_numpy(~held)), rows.take(torch.from_numpy(held))
        # A generator of its own, so that whoever fits a model finds torch's where he left it.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network = self.build(self.inputs)
            network.start(mean_by_level(frame[~held], weight[~held], self.levels.size))
            self.results = self.train(network, train, validation)
        # Curves are computed in double precision, so that they do not depend on the batch they are asked in.
        self.network = network.double().eval()
        return self

    def train(self, network: ResponseModule, train: TabularRows, validation: TabularRows) -> list[FitResult]:
        """Minimise the weighted log loss; models with phases, penalties or more than features to read override it."""
        assert isinstance(network, LevelNetwork)

        def loss(rows: TabularRows, step: int = 0) -> Tensor:
            del step
            return weighted_logloss(network, rows)

        return [
            fit_module(network, list(network.parameters()), loss, loss, train, validation, self.training, self.progress)
        ]

    @torch.no_grad()
    def curve(self, frame: pd.DataFrame) -> Curves:
        """Curves (J, N) of the rows."""
        inputs, network = self._fitted()
        response = np.empty((self.levels.size, len(frame)), dtype=np.float32)
        for first in range(0, len(frame), CHUNK):
            part = frame.iloc[first : first + CHUNK]
            logits = network(torch.from_numpy(inputs.numeric(part)).double(), torch.from_numpy(inputs.category(part)))
            response[:, first : first + len(part)] = torch.sigmoid(logits).numpy().T
        return Curves(self.levels, response)

    def state(self) -> State:
        """Weights and features."""
        inputs, network = self._fitted()
        return State({key: value.numpy() for key, value in network.state_dict().items()}, {"inputs": inputs.to_dict()})

    def restore(self, state: State) -> None:
        """Become the model that gave ``state``."""
        self.inputs = TabularInputs.from_dict(state.meta["inputs"])
        network = self.build(self.inputs).double().eval()
        network.load_state_dict({key: torch.from_numpy(np.array(value)) for key, value in state.arrays.items()})
        self.network = network

    def _fitted(self) -> tuple[TabularInputs, ResponseModule]:
        if self.inputs is None or self.network is None:
            raise InvalidInput("fit the model before asking for curves or saving it", field="model")
        return self.inputs, self.network

    def _held_out(self, frame: pd.DataFrame) -> NDArray[np.bool_]:
        accounts = np.unique(frame["account_id"].to_numpy(dtype=str))
        if accounts.size < 2:
            raise InvalidInput("needs at least two accounts: some are held out to stop by", field="account_id")
        held = np.random.default_rng(self.seed).random(accounts.size) < self.held_out
        if held.all() or not held.any():
            held[0] = not held[0]
        return np.asarray(frame["account_id"].astype(str).isin(accounts[held]))

    def _rows(self, frame: pd.DataFrame, weight: NDArray[np.float64]) -> TabularRows:
        assert self.inputs is not None
        return TabularRows(
            numeric=torch.from_numpy(self.inputs.numeric(frame)),
            category=torch.from_numpy(self.inputs.category(frame)),
            level=torch.from_numpy(frame["level"].to_numpy(dtype=np.int64)),
            response=torch.from_numpy(frame["response"].to_numpy(dtype=np.float32)),
            weight=torch.from_numpy(weight.astype(np.float32)),
        )


def weighted_logloss(network: LevelNetwork, rows: TabularRows) -> Tensor:
    """Weighted mean log loss of the rows at their levels."""
    logits = network.at(rows.numeric, rows.category, rows.level)
    return weighted_mean(binary_cross_entropy_with_logits(logits, rows.response, reduction="none"), rows.weight)


def check_probabilities(frame: pd.DataFrame) -> None:
    """Refuse responses outside [0, 1]."""
    wrong = ~frame["response"].between(0.0, 1.0)
    if wrong.any():
        rows = wrong.to_numpy().nonzero()[0][:5].tolist()
        raise InvalidInput("must lie in [0, 1] for a model of probabilities", field="response", rows=rows)


def mean_by_level(frame: pd.DataFrame, weight: NDArray[np.float64], levels: int) -> NDArray[np.float64]:
    """(J,): weighted mean response of each level, shrunk to the overall mean by ten rows; never 0 or 1."""
    level, y = frame["level"].to_numpy(dtype=np.int64), frame["response"].to_numpy(dtype=np.float64)
    overall = float(np.clip((weight @ y) / weight.sum(), 1e-4, 1 - 1e-4))
    rows = np.bincount(level, weight, minlength=levels)
    return np.asarray((np.bincount(level, weight * y, minlength=levels) + 10 * overall) / (rows + 10))
