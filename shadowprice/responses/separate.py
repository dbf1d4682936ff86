"""One response model per side, each on its own: how any registered model is trained by the pipeline and served.

What is stored online for an account is its curve, level by level, and the head hands it back
(decision record 5): the server needs to know nothing of the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import SIDES, Side
from shadowprice.encoders.base import WIDTH
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.files import write_whole
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.responses.base import ResponseModel
from shadowprice.responses.calibration import Offset, hazard_factor, hazard_offset, mean_offset, mean_shift
from shadowprice.responses.joint.inputs import with_features
from shadowprice.responses.layers.heads import Head, StoredHead
from shadowprice.responses.registry import load, make, wants
from shadowprice.responses.sided import SEPARATE, SidedModel
from shadowprice.responses.weights import given_weights

TOP = 1.0 - 1e-6
"""Largest probability that is stored: the cumulative hazard of 1 is infinite and cannot be scaled."""


class SeparateModels(SidedModel):
    """Registered response models by side.

    A model asks for what it needs by naming it in its constructor: ``side``, ``graph`` (snapshots),
    ``training`` (a :class:`TrainingConfig`). Features of the account, interaction aggregates and
    the context of the request are columns of the frame it is given.
    """

    def __init__(self, models: Mapping[Side, ResponseModel], corrections: Mapping[Side, float] | None = None) -> None:
        self.models = dict(models)
        self.corrections = {side: float((corrections or {}).get(side, 0.0)) for side in models}

    @classmethod
    def prepare(
        cls, names: Mapping[Side, str], levels: Mapping[Side, Sequence[int]], *, seed: int = 0, **given: Any
    ) -> SeparateModels:
        """Models ready to fit; of ``given`` each gets what its constructor names."""
        for side, name in names.items():
            if len(levels[side]) > WIDTH:
                raise InvalidInput(
                    f"{name!r} is served as a stored curve of at most {WIDTH} levels, got {len(levels[side])}",
                    field=f"levels.{side}",
                )
        return cls(
            {
                side: make(
                    name,
                    levels=levels[side],
                    seed=seed,
                    **{key: value for key, value in {"side": side, **given}.items() if key in wants(name)},
                )
                for side, name in names.items()
            }
        )

    @property
    def levels(self) -> Mapping[Side, tuple[int, ...]]:
        """Incentive levels of each side, minor units."""
        return {side: tuple(model.levels.tolist()) for side, model in self.models.items()}

    def fit(self, snapshots: Sequence[GraphSnapshot], train: Mapping[Side, pd.DataFrame]) -> None:
        """Fit every side's model on its labelled rows. Frames are those of :meth:`JointModel.fit`."""
        for side, model in self.models.items():
            if side not in train or train[side].empty:
                raise InvalidInput(f"there is no training row of side {side!r}", field="train")
            model.fit(self._frame(model, side, snapshots, train[side]))

    def calibrate(self, snapshots: Sequence[GraphSnapshot], held_out: Mapping[Side, pd.DataFrame]) -> dict[Side, float]:
        """Scale the customers' hazards, and shift the merchants' response, where held-out rows ask for it."""
        found: dict[Side, float] = {}
        for side, response in self._responses(snapshots, {side: held_out[side] for side in self.models}).items():
            frame = held_out[side]
            predicted = response[frame["level"].to_numpy(dtype=np.int64), np.arange(len(frame))]
            estimate = hazard_factor if side == "customer" else mean_shift
            before = -np.log1p(-predicted) if side == "customer" else predicted
            found[side] = estimate(before, frame["response"], frame["account_id"].astype(str), given_weights(frame))
            self.correct(side, found[side])
        return found

    def offsets(self, snapshots: Sequence[GraphSnapshot], labelled: Mapping[Side, pd.DataFrame]) -> dict[Side, Offset]:
        """The correction that fits labelled rows best, on the scale of :meth:`correct`, whether or not it is needed."""
        found: dict[Side, Offset] = {}
        for side, response in self._responses(snapshots, {side: labelled[side] for side in self.models}).items():
            frame = labelled[side]
            predicted = response[frame["level"].to_numpy(dtype=np.int64), np.arange(len(frame))]
            weight = given_weights(frame)
            if side == "customer":
                found[side] = hazard_offset(-np.log1p(-predicted), frame["response"], weight)
            else:
                found[side] = mean_offset(predicted, frame["response"], weight)
        return found

    def correct(self, side: Side, correction: float) -> None:
        """Apply a correction that :meth:`calibrate` returned; its negative takes it off again."""
        self.corrections[side] += correction

    def embed(
        self, snapshots: Sequence[GraphSnapshot], frames: Mapping[Side, pd.DataFrame]
    ) -> dict[Side, NDArray[np.float32]]:
        """The curves themselves, (n, WIDTH), zeros behind the levels."""
        found: dict[Side, NDArray[np.float32]] = {}
        for side, response in self._responses(snapshots, frames).items():
            found[side] = np.zeros((response.shape[1], WIDTH), dtype=np.float32)
            found[side][:, : response.shape[0]] = response.T
        return found

    def heads(self, embeddings: Mapping[Side, NDArray[np.float32]]) -> dict[Side, Head]:
        """Heads that hand the stored curve back; unknown accounts get the mean curve."""
        return {
            side: StoredHead(
                levels=self.models[side].levels,
                default_embedding=embedding.mean(axis=0, dtype=np.float64).astype(np.float32),
            )
            for side, embedding in embeddings.items()
        }

    def describe(self) -> dict[str, Any]:
        """Model and head of each side."""
        return {
            "width": WIDTH,
            "sides": {
                side: {"model": model.name, "head": StoredHead.kind, "levels": model.levels.tolist()}
                for side, model in self.models.items()
            },
        }

    def save(self, folder: Path) -> None:
        """Write every side's model to ``folder``/<side>, then what they are, so that a reader finds all or nothing."""
        for side, model in self.models.items():
            model.save(folder / side)
        write_whole(folder / SEPARATE, json.dumps({"corrections": self.corrections}, indent=1))

    @classmethod
    def load(cls, folder: Path) -> SeparateModels:
        """Read what :meth:`save` wrote."""
        path = folder / SEPARATE
        if not path.exists():
            raise NotFound(f"no {SEPARATE} in {folder}; train a model first")
        corrections = json.loads(path.read_text())["corrections"]
        return cls({side: load(folder / side) for side in SIDES if side in corrections}, corrections)

    def _frame(
        self, model: ResponseModel, side: Side, snapshots: Sequence[GraphSnapshot], frame: pd.DataFrame
    ) -> pd.DataFrame:
        if "graph" in wants(model.name):
            model.graph = snapshots
        return with_features(frame, snapshots, side)

    def _responses(
        self, snapshots: Sequence[GraphSnapshot], frames: Mapping[Side, pd.DataFrame]
    ) -> dict[Side, NDArray[np.float64]]:
        """side → corrected response (J, n), within its range."""
        found: dict[Side, NDArray[np.float64]] = {}
        for side, frame in frames.items():
            model = self.models[side]
            response = model.curve(self._frame(model, side, snapshots, frame)).response.astype(np.float64)
            if side == "customer":
                hazard = -np.log1p(-np.clip(response, 0.0, TOP)) * np.exp(self.corrections[side])
                found[side] = np.clip(-np.expm1(-hazard), 0.0, TOP)
            else:
                found[side] = np.maximum(response + self.corrections[side], 0.0)
        return found
