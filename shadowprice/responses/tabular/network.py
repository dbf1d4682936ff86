"""Networks that read an account's own features and the level, without a graph: what S1's models share."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from shadowprice.checks import refuse_rows, require
from shadowprice.curves import Curves
from shadowprice.responses.base import HELD_OUT, held_out
from shadowprice.responses.tabular.minibatch import Objective, TabularRows, fit_module
from shadowprice.responses.tabular.module_model import ModuleModel
from shadowprice.responses.tabular.rows import TabularInputs, fit_tabular
from shadowprice.responses.training.config import FitResult, TrainingConfig
from shadowprice.responses.training.processes import weighted_mean
from shadowprice.responses.weights import row_weights

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


class ResponseModule(nn.Module, ABC):
    """Base of the modules that a :class:`TabularNetwork` trains."""

    @abstractmethod
    def start(self, share: NDArray[np.float64]) -> None:
        """Set intercepts from the smoothed mean response of every level, (J,)."""

    @abstractmethod
    def assigned(self, rows: Any) -> Tensor:
        """Logits (n,) of labeled rows at their own levels."""


class LevelNetwork(ResponseModule):
    """Base of the modules that read features alone: features → logits of the response at every level."""

    @abstractmethod
    def forward(self, numeric: Tensor, category: Tensor) -> Tensor:
        """(n, J)."""

    def at(self, numeric: Tensor, category: Tensor, level: Tensor) -> Tensor:
        """Logits (n,) at one level of each row, which is all that a loss needs."""
        curve: Tensor = self(numeric, category)
        return curve.gather(1, level[:, None]).squeeze(1)

    def assigned(self, rows: TabularRows) -> Tensor:
        """(n,)."""
        return self.at(rows.numeric, rows.category, rows.level)


Module = TypeVar("Module", bound=ResponseModule)


class TabularNetwork(ModuleModel[Module]):
    """A :class:`ResponseModule` with the features it reads and the loop that trains it.

    :meth:`curve` serves a :class:`LevelNetwork`; a model of another module overrides it.

    Options beside those of :class:`ModuleModel`, where ``batch_rows`` 0 means minibatches of 512:
        held_out: share of accounts kept for early stopping.
        embedding: width of a category's embedding (S1 does not print it).
    """

    TRAINING = TrainingConfig(learning_rate=3e-3, decay=0.99, epochs=150, patience=25, weight_decay=1e-4)
    # Curves are computed in double precision, so that they do not depend on the batch they are asked in.
    PRECISION = torch.float64
    EMBEDDING: ClassVar[int] = 8
    places: ClassVar[bool] = True

    def __init__(
        self,
        levels: Sequence[int],
        seed: int = 0,
        *,
        held_out: float = HELD_OUT,
        embedding: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(levels, seed, **options)
        require(0 < held_out < 1, "held_out", "must lie between 0 and 1")
        self.training = replace(self.training, seed=seed)
        self.held_out = held_out
        self.embedding = self.EMBEDDING if embedding is None else embedding
        self.results: list[FitResult] = []

    def fit(self, frame: pd.DataFrame) -> Self:
        """Train on ``frame``, rows weighted by :func:`~shadowprice.responses.weights.row_weights`."""
        self.check_frame(frame)
        check_probabilities(frame)
        weight = row_weights(frame, self.levels.size)
        held = self._held_out(frame)
        self.inputs = fit_tabular(frame[~held])
        rows = self._rows(frame, weight)
        train, validation = rows.take(torch.from_numpy(~held)), rows.take(torch.from_numpy(held))
        # A generator of its own, so that torch's is left as it was.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network = self.build(self.inputs)
            network.start(mean_by_level(frame[~held], weight[~held], self.levels.size))
            self.results = self.train(network, train, validation)
        self.network = network.to(self.PRECISION).eval()
        return self

    def figures(self) -> dict[str, float]:
        """Loss and epochs of the training, and of the pre-training before it."""
        found: dict[str, float] = {}
        for prefix, phase in zip(("", "pretraining_"), reversed(self.results), strict=False):
            found |= {f"{prefix}validation_loss": phase.validation_loss, f"{prefix}epochs": phase.epochs}
        return found

    def train(self, network: Module, train: Any, validation: Any) -> list[FitResult]:
        """Minimize the weighted log loss; models with phases or penalties override it."""
        return [self.descend(network, train, validation)]

    def descend(
        self,
        network: Module,
        train: Any,
        validation: Any,
        *,
        objective: Objective[Any] | None = None,
        config: TrainingConfig | None = None,
        **options: Any,
    ) -> FitResult:
        """One phase of training, see :func:`~shadowprice.responses.tabular.minibatch.fit_module`.

        By default the objective is the weighted log loss.
        """
        by = objective or Objective(judge=lambda rows: weighted_logloss(network, rows))
        setting = config or self.training
        return fit_module(network, by, train, validation, setting, self.progress, places=self.places, **options)

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

    def _held_out(self, frame: pd.DataFrame) -> NDArray[np.bool_]:
        return held_out(frame, self.held_out, self.seed)

    def _rows(self, frame: pd.DataFrame, weight: NDArray[np.float64]) -> TabularRows:
        assert self.inputs is not None
        return TabularRows(
            numeric=torch.from_numpy(self.inputs.numeric(frame)),
            category=torch.from_numpy(self.inputs.category(frame)),
            level=torch.from_numpy(frame["level"].to_numpy(dtype=np.int64)),
            response=torch.from_numpy(frame["response"].to_numpy(dtype=np.float32)),
            weight=torch.from_numpy(weight.astype(np.float32)),
        )


def weighted_logloss(network: ResponseModule, rows: TabularRows) -> Tensor:
    """Weighted mean log loss of the rows at their levels."""
    return logloss(network.assigned(rows), rows)


def logloss(logits: Tensor, rows: TabularRows) -> Tensor:
    """Weighted mean of the log losses of logits (n,)."""
    return weighted_mean(binary_cross_entropy_with_logits(logits, rows.response, reduction="none"), rows.weight)


def mlp(inputs: int, hidden: Sequence[int], dropout: float = 0.0) -> nn.Sequential:
    """(n, inputs) → (n, 1) through ReLU layers; in training a unit of them is 0 with probability ``dropout``."""
    layers: list[nn.Module] = []
    for before, after in pairwise([inputs, *hidden]):
        layers += [nn.Linear(before, after), nn.Sequential(nn.ReLU(), nn.Dropout(dropout))]
    return nn.Sequential(*layers, nn.Linear(hidden[-1] if hidden else inputs, 1))


@torch.no_grad()
def start_intercept(last: nn.Module, share: NDArray[np.float64]) -> None:
    """Start a network's last layer at the mean response."""
    assert isinstance(last, nn.Linear)
    mean = float(share.mean())
    last.bias.fill_(float(np.log(mean / (1 - mean))))


def standard_amounts(levels: NDArray[np.int64]) -> Tensor:
    """Levels (J,) with mean 0 and deviation 1."""
    amount = levels.astype(np.float64)
    return torch.tensor((amount - amount.mean()) / max(float(amount.std()), 1e-9), dtype=torch.float32)


def check_probabilities(frame: pd.DataFrame) -> None:
    """Refuse responses outside [0, 1]."""
    outside = ~frame["response"].between(0.0, 1.0)
    refuse_rows("response", outside, "must lie in [0, 1] for a model of probabilities")


def mean_by_level(frame: pd.DataFrame, weight: NDArray[np.float64], levels: int) -> NDArray[np.float64]:
    """(J,): weighted mean response of each level, shrunk to the overall mean by ten rows; never 0 or 1."""
    level, y = frame["level"].to_numpy(dtype=np.int64), frame["response"].to_numpy(dtype=np.float64)
    overall = float(np.clip((weight @ y) / weight.sum(), 1e-4, 1 - 1e-4))
    rows = np.bincount(level, weight, minlength=levels)
    return np.asarray((np.bincount(level, weight * y, minlength=levels) + 10 * overall) / (rows + 10))
