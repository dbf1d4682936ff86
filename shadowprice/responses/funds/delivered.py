"""Models of funds as they are served: the value of each segment for each account, and its risk tolerance (S2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Segment, Side, risk_levels
from shadowprice.checks import require
from shadowprice.encoders.base import WIDTH
from shadowprice.errors import InvalidInput
from shadowprice.evaluation import metrics
from shadowprice.files import write_whole
from shadowprice.responses.base import at_level, labels
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.layers.heads import DeliveryHead, Head
from shadowprice.responses.registry import load
from shadowprice.responses.separate import SeparateModels
from shadowprice.responses.sided import DELIVERED, DELIVERED_SIDE

if TYPE_CHECKING:
    # With it comes torch-geometric, which takes longer to import than torch, and only models of funds need it here.
    from shadowprice.responses.funds.model import FundModel

SIDE = DELIVERED_SIDE
TOLERANCE = "risk_tolerance"
"""Column of a request to serve: the tolerance of its account, missing where it is not known."""
UNCALIBRATED = "values of segments are not calibrated: a common factor of all values changes no plan; use 'none'"
NO_TOLERANCE = -1e30
"""Stored for an account whose tolerance is not known: below every risk level, and finite."""


class DeliveryModel(SeparateModels):
    """Model that stores the ETV of every segment for each account, minor units, and its risk tolerance behind them.

    A segment that gives nothing is worth 0 and is no level of the network. The rule of eligibility is thus part of
    what is served: :class:`~shadowprice.responses.layers.heads.DeliveryHead` reads both. Its segments are those of the
    inputs that it is fitted with.
    """

    segments: tuple[Segment, ...] = ()

    @property
    def model(self) -> FundModel:
        """The model of the customers."""
        return cast("FundModel", self.models[SIDE])

    def fit(self, inputs: Inputs, train: Mapping[Side, pd.DataFrame]) -> None:
        """Fit on the labeled deliveries."""
        most = WIDTH - 1
        require(len(inputs.segments) <= most, "segments", f"at most {most} segments can be stored")
        self.segments = inputs.segments
        super().fit(inputs, train)

    def calibrate(self, _inputs: Inputs, _held_out: Mapping[Side, pd.DataFrame]) -> dict[Side, float]:
        """Raise :class:`InvalidInput`: a model of funds learns from all rows before the test, and keeps none aside."""
        raise InvalidInput(UNCALIBRATED, field="calibration")

    def correct(self, _side: Side, _correction: float) -> None:
        """Raise :class:`InvalidInput`, see :meth:`calibrate`."""
        raise InvalidInput(UNCALIBRATED, field="calibration")

    def embed(self, inputs: Inputs, frames: Mapping[Side, pd.DataFrame]) -> dict[Side, NDArray[np.float32]]:
        """(n, WIDTH): values, the tolerance, zeros."""
        frame, count = frames[SIDE], len(self.segments)
        embedding = np.zeros((len(frame), WIDTH), dtype=np.float32)
        embedding[:, : self.model.levels.size] = self.model.value(self._frame(self.model, SIDE, inputs, frame)).T
        known = frame[TOLERANCE].astype(np.float64) if TOLERANCE in frame else np.nan
        embedding[:, count] = np.where(np.isnan(known), NO_TOLERANCE, known)
        return {SIDE: embedding}

    def heads(self, embeddings: Mapping[Side, NDArray[np.float32]]) -> dict[Side, Head]:
        """Return heads whose unknown account has the mean values, and may have the offers for everybody."""
        default = embeddings[SIDE].mean(axis=0, dtype=np.float64).astype(np.float32)
        default[len(self.segments)] = NO_TOLERANCE
        risk = risk_levels(self.segments)
        return {SIDE: DeliveryHead(levels=np.arange(risk.size), default_embedding=default, risk_level=risk)}

    def describe(self) -> dict[str, Any]:
        """Model, loss and segments."""
        description = super().describe()
        own = {
            "loss": self.model.loss_name,
            "head": DeliveryHead.kind,
            "segments": [segment.name for segment in self.segments],
            "levels": list(range(len(self.segments))),
        }
        return {**description, "sides": {SIDE: description["sides"][SIDE] | own}}

    def figures(self, inputs: Inputs, labeled: Mapping[Side, pd.DataFrame]) -> dict[str, float]:
        """S2's offline figures."""
        rows, model = labeled[SIDE], self.model
        require(len(rows), "split", "there is no test row to judge by; give more accounts or another split")
        frame, (level, y) = self._frame(model, SIDE, inputs, rows), labels(rows)
        value = model.value(frame)
        measures: dict[str, Any] = {}
        if model.converts:
            p = np.clip(at_level(model.curve(frame), level), 1e-6, 1 - 1e-6)
            measures |= {"auc": metrics.auc(y, p), "logloss": metrics.logloss(y, p)}
            measures["thc"] = metrics.thc(y, given=level, chosen=value.argmax(axis=0))
        if "amount" in rows:
            amount, said = rows["amount"].to_numpy(dtype=np.float64), value[level, np.arange(len(rows))].astype(float)
            v, log = np.log1p(amount / model.unit), np.log1p(said / model.unit)
            measures |= {"mse_log": metrics.mse(v, log), "mae_log": metrics.mae(v, log)}
            measures["normalized_gini"] = metrics.normalized_gini(amount, said)
            measures["tha"] = metrics.tha(amount, given=level, chosen=value.argmax(axis=0))
        return {name: float(measure) for name, measure in measures.items()}

    def save(self, folder: Path) -> None:
        """Write the fitted model; what is not in it (graph, behaviours, tolerances) is in the training set."""
        self.model.save(folder / SIDE)
        write_whole(folder / DELIVERED, json.dumps([asdict(segment) for segment in self.segments]))

    @classmethod
    def load(cls, folder: Path) -> DeliveryModel:
        """Read what :meth:`save` wrote."""
        model = cls({SIDE: load(folder / SIDE)})
        model.segments = tuple(Segment(**segment) for segment in json.loads((folder / DELIVERED).read_text()))
        return model


def given_levels(inputs: Inputs) -> dict[Side, tuple[int, ...]]:
    """Levels that a network learns: the segments without the one that gives nothing."""
    return {SIDE: tuple(range(sum(not segment.gives_nothing for segment in inputs.segments)))}
