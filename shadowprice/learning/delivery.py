"""Model of the value of a delivery, trained from a training set and exported as the service reads it (S2)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Segment, Side
from shadowprice.checks import require
from shadowprice.encoders.base import WIDTH
from shadowprice.evaluation import metrics
from shadowprice.files import write_whole
from shadowprice.learning.bundle import write_bundle
from shadowprice.learning.training_set import TrainingSet, digest_of
from shadowprice.progress import ProgressBar
from shadowprice.responses import make
from shadowprice.responses.base import at_level, labels
from shadowprice.responses.funds.model import FundModel
from shadowprice.responses.funds.training import TRAINING
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.joint.inputs import with_features
from shadowprice.responses.layers.heads import DeliveryHead, Head
from shadowprice.responses.registry import model_class, wants
from shadowprice.responses.sided import SidedModel
from shadowprice.responses.training.checkpoint import checkpointing
from shadowprice.responses.training.team import has_team
from shadowprice.tables import Tables, behaviours, offer_features

SIDE: Side = "customer"
NO_TOLERANCE = -1e30
"""Stored for an account whose tolerance is not known: below every risk level, and finite."""
DELIVERY = "delivery.json"


class DeliveryModel(SidedModel):
    """Model that stores the ETV of every segment for each account, minor units, and its risk tolerance behind them.

    The rule of eligibility is thus part of what is served:
    :class:`~shadowprice.responses.layers.heads.DeliveryHead` reads both.
    """

    def __init__(self, model: FundModel, segments: Sequence[Segment], tolerance: pd.Series) -> None:
        most = WIDTH - 1
        require(len(segments) <= most, "segments", f"at most {most} segments can be stored, got {len(segments)}")
        self.model = model
        self.segments = tuple(segments)
        self.tolerance = tolerance

    @property
    def levels(self) -> Mapping[Side, tuple[int, ...]]:
        """The numbers of the segments."""
        return {SIDE: tuple(self.model.levels.tolist())}

    def calibrate(self, _inputs: Inputs, _held_out: Mapping[Side, pd.DataFrame]) -> dict[Side, float]:
        """Nothing: a common factor of all values changes no plan."""
        return {}

    def correct(self, side: Side, correction: float) -> None:
        """Nothing, see :meth:`calibrate`."""

    def embed(self, inputs: Inputs, frames: Mapping[Side, pd.DataFrame]) -> dict[Side, NDArray[np.float32]]:
        """(n, WIDTH): values, the tolerance, zeros."""
        frame = frames[SIDE]
        found = np.zeros((len(frame), WIDTH), dtype=np.float32)
        found[:, : len(self.segments)] = self.model.value(self._frame(inputs, frame)).T
        found[:, len(self.segments)] = self.tolerance.reindex(frame["account_id"]).fillna(NO_TOLERANCE)
        return {SIDE: found}

    def heads(self, embeddings: Mapping[Side, NDArray[np.float32]]) -> dict[Side, Head]:
        """An unknown account is worth the mean, and may have what anybody may have."""
        default = embeddings[SIDE].mean(axis=0, dtype=np.float64).astype(np.float32)
        default[len(self.segments)] = NO_TOLERANCE
        return {
            SIDE: DeliveryHead(
                levels=self.model.levels, default_embedding=default, risk_level=risk_levels(self.segments)
            )
        }

    def describe(self) -> dict[str, Any]:
        """Model, loss and segments."""
        return {
            "kind": "delivery",
            "width": WIDTH,
            "sides": {
                SIDE: {
                    "model": self.model.name,
                    "loss": self.model.loss_name,
                    "head": DeliveryHead.kind,
                    "levels": self.model.levels.tolist(),
                    "segments": [segment.name for segment in self.segments],
                }
            },
        }

    def save(self, folder: Path) -> None:
        """Write the fitted model; what is not in it (graph, behaviour, tolerances) is in the tables."""
        self.model.save(folder / SIDE)
        write_whole(folder / DELIVERY, json.dumps({"segments": [segment.name for segment in self.segments]}))

    def _frame(self, inputs: Inputs, frame: pd.DataFrame) -> pd.DataFrame:
        self.model.given = replace(self.model.given, snapshots=inputs.snapshots)
        return with_features(frame, inputs.snapshots, SIDE)


def risk_levels(segments: Sequence[Segment]) -> NDArray[np.float64]:
    """(J,): least tolerance of each segment, −inf where anybody may have it."""
    return np.array([-np.inf if each.risk_level is None else each.risk_level for each in segments], dtype=np.float64)


def tolerances(tables: Tables) -> pd.Series:
    """Account → risk tolerance as last known, NaN where never."""
    own = tables.account[tables.account["side"] == SIDE].sort_values("snapshot_ts", kind="stable")
    latest = own.drop_duplicates("account_id", keep="last").set_index("account_id")["risk_tolerance"]
    return latest.astype("Float64").astype(np.float64)


def segments_of(campaign: Campaign) -> tuple[Segment, ...]:
    """The segments of a delivery.

    Raises:
        InvalidInput: the campaign delivers nothing.
    """
    delivers = SIDE in campaign.sides and campaign.sides[SIDE].segments
    require(delivers, "offer", "the campaign has no funds to deliver; give offers of kind fund with a demand")
    return campaign.sides[SIDE].segments


def learn_delivery(
    data: TrainingSet,
    tables: Tables,
    campaign: Campaign,
    out: Path,
    *,
    model: str = "esdpm",
    loss: str = "",
    epochs: int = 0,
    precision: str = "float32",
    seed: int = 0,
) -> tuple[str, dict[str, float]]:
    """Train a model of funds on the train and validation splits, judge it on the test split, and write its bundle.

    A checkpoint in ``out`` is resumed.

    Args:
        data: rows with ``clicked`` and ``amount``, snapshots, accounts to serve.
        tables: actions, features of funds and risk tolerances.
        campaign: a delivery.
        out: where the bundle goes.
        model, loss, epochs: a registered model of funds; empty and 0 leave the other two to the model.
        precision: of the products of a gradient step, see :class:`~shadowprice.responses.training.TrainingConfig`.
        seed: of initialization and of the accounts held out.

    Returns:
        The version of the model, and its figures on the test split.

    Raises:
        InvalidInput: the model is not one of funds, or the campaign delivers nothing.
    """
    segments = segments_of(campaign)
    known = issubclass(model_class(model), FundModel)
    require(known, "model", f"{model!r} is no model of funds; choose esdpm or another one of the delivery pipeline")
    training = replace(TRAINING, epochs=epochs or TRAINING.epochs, precision=precision)
    actions, offers = behaviours(tables, SIDE), offer_features(tables, SIDE)
    read = [digest_of(table).hex() for table in (actions, offers) if table is not None]
    stamp = " ".join([model, loss, data.digest(), *read])
    with (
        checkpointing(out / "checkpoint", stamp=stamp),
        ProgressBar(f"train {model}", training.epochs, "epoch", shown=not has_team()) as shown,
    ):
        given: dict[str, Any] = {
            "inputs": Inputs(snapshots=data.snapshots, behaviours=actions, offers=offers),
            "training": training,
            "progress": shown.epoch,
            "loss": loss or None,
        }
        own = make(
            model,
            levels=data.levels[SIDE],
            seed=seed,
            **{k: v for k, v in given.items() if k in {"inputs", *wants(model)}},
        )
        assert isinstance(own, FundModel)
        learnt = pd.concat([data.part(split)[SIDE] for split in ("train", "validation")], ignore_index=True)
        own.fit(with_features(learnt, data.snapshots, SIDE))
    found = _figures(own, data)
    version = write_bundle(
        DeliveryModel(own, segments, tolerances(tables)), data, out, recipe=model, corrections={}, metrics=found
    )
    return version, found


def _figures(model: FundModel, data: TrainingSet) -> dict[str, float]:
    """S2's offline figures on the test split."""
    test = data.part("test")[SIDE]
    require(len(test), "split", "there is no test row to judge by; give more accounts or another split")
    frame = with_features(test, data.snapshots, SIDE)
    rows, (level, y) = np.arange(len(test)), labels(test)
    value = model.value(frame)
    found: dict[str, float] = {}
    if model.converts:
        p = np.clip(at_level(model.curve(frame), level), 1e-6, 1 - 1e-6)
        found |= {"auc": metrics.auc(y, p), "logloss": metrics.logloss(y, p)}
        found["thc"] = metrics.thc(y, given=level, chosen=value.argmax(axis=0))
    if "amount" in test:
        amount, said = test["amount"].to_numpy(dtype=np.float64), value[level, rows].astype(float)
        v, log = np.log1p(amount / model.unit), np.log1p(said / model.unit)
        found |= {"mse_log": metrics.mse(v, log), "mae_log": metrics.mae(v, log)}
        found["normalized_gini"] = metrics.normalized_gini(amount, said)
        found["tha"] = metrics.tha(amount, given=level, chosen=value.argmax(axis=0))
    return {name: float(each) for name, each in found.items()}
