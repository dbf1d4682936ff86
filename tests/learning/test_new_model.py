"""A model that reads another input is one class and one entry of the registry; every step of training takes it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Self

import numpy as np
import pandas as pd
import pytest

from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.learning.bundle import EMBEDDINGS
from shadowprice.learning.fit import fit_bundle
from shadowprice.learning.recipes import Training
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.base import ResponseModel
from shadowprice.responses.registry import MODELS, Entry
from shadowprice.responses.state import State
from shadowprice.responses.training import TrainingConfig

TINY = {"customers": 250, "merchants": 80, "both": 10, "trials": 3}


class ActedModel(ResponseModel):
    """Mean response, doubled for accounts that have acted on an offer."""

    needs = ("behaviours",)

    def fit(self, frame: pd.DataFrame) -> Self:
        self.check_frame(frame)
        assert self.given.there == {"behaviours"}
        self.mean = 0.5 * frame["response"].mean()
        return self

    def curve(self, frame: pd.DataFrame) -> Curves:
        assert self.given.behaviours is not None
        acted = frame["account_id"].isin(self.given.behaviours["account_id"]).to_numpy()
        response = np.where(acted, 2 * self.mean, self.mean).astype(np.float32)
        return Curves(self.levels, np.ascontiguousarray(np.tile(response, (self.levels.size, 1))))

    def state(self) -> State:
        return State({"mean": np.array(self.mean)}, {})

    def restore(self, state: State) -> None:
        self.mean = float(state.arrays["mean"])


def test_a_new_model_is_given_the_input_that_its_entry_names(
    make_set, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("shadowprice.responses.acted")
    module.ActedModel = ActedModel  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shadowprice.responses.acted", module)
    monkeypatch.setitem(MODELS, "acted", Entry("acted", "ActedModel", ("behaviours",)))
    data: TrainingSet = make_set("world", 0, **TINY)[1]
    some = data.serving["customer"]["account_id"].astype(str).iloc[::3]
    at = pd.Timestamp("2026-01-01", tz="UTC")
    acted = pd.DataFrame({"account_id": some.to_numpy(), "level": 0, "action": "click", "ts": at})
    replace(data, inputs=replace(data.inputs, behaviours=acted)).save(tmp_path / "training")
    config = TrainingConfig(epochs=1)
    fit_bundle(tmp_path / "training", tmp_path / "model", Training("acted"), config, workers=0)
    stored = pd.read_parquet(tmp_path / "model" / EMBEDDINGS)
    stored = stored[stored["side"] == "customer"]
    first = np.stack(stored["embedding"].to_numpy())[:, 0]
    has = stored["account_id"].isin(some).to_numpy()
    assert 0 < has.sum() < has.size
    assert first[has].min() > first[~has].max()
    data.save(tmp_path / "without")
    with pytest.raises(InvalidInput, match="behaviours: is missing: model 'acted' reads it"):
        fit_bundle(tmp_path / "without", tmp_path / "other", Training("acted"), config, workers=0)
