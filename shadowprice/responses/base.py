"""What every response model offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

import pandas as pd

from shadowprice.curves import Curves, check_levels
from shadowprice.errors import InvalidInput

RESERVED = ("account_id", "level", "response", "propensity", "weight", "partner_id", "snapshot_at")
"""Columns of a training frame that are not features."""


class ResponseModel(ABC):
    """Learns from labelled requests of one side what its accounts do at each incentive level.

    monotone    the curve never falls as the incentive rises, for any weights
    calibrated  the response is a probability or an expectation, not only a score
    ordered     the levels have an order the model uses
    """

    monotone: ClassVar[bool] = False
    calibrated: ClassVar[bool] = True
    ordered: ClassVar[bool] = True

    def __init__(self, levels: Sequence[int], seed: int = 0) -> None:
        self.levels = check_levels(levels)
        self.seed = seed

    @abstractmethod
    def fit(self, frame: pd.DataFrame) -> Self:
        """Learn from rows with account_id, level (index), response [, propensity, weight, features x_* and c_*]."""

    @abstractmethod
    def curve(self, frame: pd.DataFrame) -> Curves:
        """Curves (J, N) of the N rows of ``frame``: account_id and the features; no labels needed."""

    def check_frame(self, frame: pd.DataFrame) -> None:
        """Refuse a training frame that lacks a column, or whose levels or responses cannot be."""
        for column in ("account_id", "level", "response"):
            if column not in frame:
                raise InvalidInput("is missing from the training frame", field=column)
        strange = [c for c in frame.columns if c not in RESERVED and not c.startswith(("x_", "h_", "c_"))]
        if strange:
            raise InvalidInput(
                "is not read: name features x_… where they are numbers and c_… where they are categories",
                field=str(strange[0]),
            )
        if frame.empty:
            raise InvalidInput("there is no training row", field="frame")
        bad = ~frame["level"].between(0, self.levels.size - 1)
        if bad.any():
            raise InvalidInput(
                f"must be an index into the {self.levels.size} levels",
                field="level",
                rows=bad.to_numpy().nonzero()[0][:5].tolist(),
            )
        if frame["response"].isna().any():
            raise InvalidInput(
                "must be known", field="response", rows=frame["response"].isna().to_numpy().nonzero()[0][:5].tolist()
            )
