"""One response model per side, each on its own, served as stored curves (decision record 5)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import SIDES, Side
from shadowprice.checks import require
from shadowprice.encoders.base import WIDTH
from shadowprice.errors import NotFound
from shadowprice.files import write_whole
from shadowprice.responses.base import ResponseModel
from shadowprice.responses.calibration import Offset, hazard_factor, hazard_offset, mean_offset, mean_shift
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.joint.inputs import with_features
from shadowprice.responses.layers.heads import Head, StoredHead
from shadowprice.responses.registry import MODELS, load, make, wants
from shadowprice.responses.sided import SEPARATE, Embedded, SidedModel
from shadowprice.responses.stored import as_embedding, check_width, stored_head
from shadowprice.responses.weights import given_weights

TOP = 1.0 - 1e-6
"""Largest probability that is stored: the cumulative hazard of 1 is infinite and cannot be scaled."""


class SeparateModels(SidedModel):
    """Registered response models by side.

    A model gets the inputs that it is registered to read, and the options that its constructor names: ``side``,
    ``training`` (a :class:`TrainingConfig`). Features of the account, interaction aggregates and the context of the
    request are columns of the frame it is given.
    """

    def __init__(self, models: Mapping[Side, ResponseModel], corrections: Mapping[Side, float] | None = None) -> None:
        self.models = dict(models)
        self.corrections = {side: float((corrections or {}).get(side, 0.0)) for side in models}

    @classmethod
    def prepare(
        cls, names: Mapping[Side, str], levels: Mapping[Side, Sequence[int]], *, seed: int = 0, **given: Any
    ) -> SeparateModels:
        """Models ready to fit; of ``given`` each gets what its constructor names."""
        for side in names:
            check_width(levels[side], f"levels.{side}")
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

    @property
    def personal(self) -> bool:
        """Return whether accounts have curves of their own on some side."""
        return any(model.personal for model in self.models.values())

    def fit(self, inputs: Inputs, train: Mapping[Side, pd.DataFrame]) -> None:
        """Fit every side's model on its labeled rows. Frames are those of :meth:`JointModel.fit`."""
        for side, model in self.models.items():
            require(side in train and not train[side].empty, "train", f"there is no training row of side {side!r}")
            model.fit(self._frame(model, side, inputs, train[side]))

    def calibrate(self, inputs: Inputs, held_out: Mapping[Side, pd.DataFrame]) -> dict[Side, float]:
        """Scale the customers' hazards, and shift the merchants' response, where held-out rows ask for it."""
        corrections: dict[Side, float] = {}
        for side, before in self._assigned(inputs, held_out).items():
            frame = held_out[side]
            estimate = hazard_factor if side == "customer" else mean_shift
            corrections[side] = estimate(
                before, frame["response"], frame["account_id"].astype(str), given_weights(frame)
            )
            self.correct(side, corrections[side])
        return corrections

    def offsets(self, inputs: Inputs, labeled: Mapping[Side, pd.DataFrame]) -> dict[Side, Offset]:
        """The correction that fits labeled rows best, on the scale of :meth:`correct`, whether or not it is needed."""
        return {
            side: (hazard_offset if side == "customer" else mean_offset)(
                before, labeled[side]["response"], given_weights(labeled[side])
            )
            for side, before in self._assigned(inputs, labeled).items()
        }

    def correct(self, side: Side, correction: float) -> None:
        """Apply a correction that :meth:`calibrate` returned; its negative takes it off again."""
        self.corrections[side] += correction

    def embed(self, inputs: Inputs, frames: Mapping[Side, pd.DataFrame]) -> dict[Side, NDArray[np.float32]]:
        """The curves themselves, (n, WIDTH), behind them the amounts where these are learned, then zeros."""
        return {side: as_embedding(*curve) for side, curve in self._curves(inputs, frames).items()}

    def embed_parts(self, inputs: Inputs, frames: Mapping[Side, pd.DataFrame]) -> dict[Side, Embedded]:
        """Embeddings as :meth:`embed` gives them, and where the model reads a session what it is read with."""
        parts: dict[Side, Embedded] = {}
        for side, request in self.embed(inputs, frames).items():
            model = self.models[side]
            read = model.served_session(self._frame(model, side, inputs, frames[side]))
            parts[side] = Embedded(request)
            if read is not None:
                own, tower = read
                parts[side] = Embedded(request, own, tower.corrected(self.corrections[side]))
        return parts

    def heads(self, embeddings: Mapping[Side, NDArray[np.float32]]) -> dict[Side, Head]:
        """Heads that hand the stored curve back; unknown accounts get the mean curve."""
        return {
            side: stored_head(self.models[side].levels, embedding, amounts=side in self.with_amounts)
            for side, embedding in embeddings.items()
        }

    @property
    def with_amounts(self) -> frozenset[Side]:
        """Sides whose model was fitted on amounts."""
        return frozenset(side for side, model in self.models.items() if model.with_amounts)

    def figures(self, inputs: Inputs, labeled: Mapping[Side, pd.DataFrame]) -> dict[str, float]:
        """Losses and epochs of the models' own training."""
        del inputs, labeled
        return {name: figure for model in self.models.values() for name, figure in model.figures().items()}

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

    def _frame(self, model: ResponseModel, side: Side, inputs: Inputs, frame: pd.DataFrame) -> pd.DataFrame:
        model.given = inputs.only(MODELS[model.name].reads)
        return with_features(frame, inputs.snapshots, side)

    def _assigned(self, inputs: Inputs, labeled: Mapping[Side, pd.DataFrame]) -> dict[Side, NDArray[np.float64]]:
        """side → cumulative hazard of customers, response of merchants, at each row's own level (n,)."""
        assigned: dict[Side, NDArray[np.float64]] = {}
        for side, (response, _) in self._curves(inputs, {side: labeled[side] for side in self.models}).items():
            level = labeled[side]["level"].to_numpy(dtype=np.int64)
            own = response[level, np.arange(level.size)]
            assigned[side] = -np.log1p(-own) if side == "customer" else own
        return assigned

    def _curves(
        self, inputs: Inputs, frames: Mapping[Side, pd.DataFrame]
    ) -> dict[Side, tuple[NDArray[np.float64], NDArray[np.float32] | None]]:
        """side → corrected response (J, n), within its range, and the amounts of the curves."""
        curves: dict[Side, tuple[NDArray[np.float64], NDArray[np.float32] | None]] = {}
        for side, frame in frames.items():
            model = self.models[side]
            curve = model.curve(self._frame(model, side, inputs, frame))
            response = curve.response.astype(np.float64)
            if side == "customer":
                hazard = -np.log1p(-np.clip(response, 0.0, TOP)) * np.exp(self.corrections[side])
                response = np.clip(-np.expm1(-hazard), 0.0, TOP)
            else:
                response = np.maximum(response + self.corrections[side], 0.0)
            curves[side] = response, curve.amounts
        return curves
