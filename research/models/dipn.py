"""S1's DIPN with a first phase of its own: to find out what its start costs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import pandas as pd
import torch

from shadowprice.responses.tabular.dipn import DipnModel, DipnNetwork
from shadowprice.responses.tabular.minibatch import Objective, TabularRows
from shadowprice.responses.tabular.network import logloss
from shadowprice.responses.training.config import FitResult, TrainingConfig

START = "start"
"""Column of a frame: the response at the lowest level that the bias net is to learn."""


class StartedDipnModel(DipnModel):
    """DIPN whose bias net learns from the column :data:`START` of all rows, where a frame has it.

    Options beside those of :class:`DipnModel`:
        bias_training: configuration of the first phase, by default that of the second.
    """

    def __init__(
        self, levels: Sequence[int], seed: int = 0, *, bias_training: TrainingConfig | None = None, **options: Any
    ) -> None:
        super().__init__(levels, seed, **options)
        self.bias_training = bias_training
        self._start: tuple[torch.Tensor, torch.Tensor] | None = None

    def fit(self, frame: pd.DataFrame) -> Self:
        if START in frame:
            start, held = torch.from_numpy(frame[START].to_numpy(dtype="float32")), self._held_out(frame)
            self._start = start[~torch.from_numpy(held)], start[torch.from_numpy(held)]
        return super().fit(frame.drop(columns=START, errors="ignore"))

    def _learn_bias(self, network: DipnNetwork, train: TabularRows, validation: TabularRows) -> FitResult:
        parts = [train, validation]
        if self._start is None:
            parts = [rows.take(rows.level == 0) for rows in parts]
        else:
            parts = [replace(rows, response=start) for rows, start in zip(parts, self._start, strict=True)]
        return self.descend(
            network,
            *parts,
            objective=Objective(judge=lambda rows: logloss(network.bias(rows.numeric, rows.category), rows)),
            parameters=list(network.bias.parameters()),
            config=replace(self.bias_training or self.training, epochs=self.bias_epochs, seed=self.seed),
        )
