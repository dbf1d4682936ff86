"""The joint model of S0: a graph encoder with a response layer per side, from frames to curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.checks import require
from shadowprice.encoders.base import WIDTH
from shadowprice.encoders.registry import make_encoder
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.responses.amounts.layer import AmountLayer
from shadowprice.responses.base import labels, row_amounts
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.joint.batches import TrainingData
from shadowprice.responses.joint.fit import fit_rows
from shadowprice.responses.joint.graph import ModelGraph, NodeEmbeddings
from shadowprice.responses.joint.inputs import InputScaling, fit_inputs, request_rows, request_values
from shadowprice.responses.joint.network import ResponseNetwork, RowTensors
from shadowprice.responses.layers.base import ResponseLayer, make_layer
from shadowprice.responses.layers.heads import Head
from shadowprice.responses.layers.own import ServedEncoder
from shadowprice.responses.sided import NETWORK, SEPARATE, Embedded, SidedModel
from shadowprice.responses.state import State, load_state, save_state
from shadowprice.responses.training.config import FitResult, Progress, TrainingConfig
from shadowprice.responses.weights import given_weights


@dataclass(frozen=True, kw_only=True)
class JointSpec:
    """Parts and options of a joint model.

    encoder       name of the graph encoder
    layers        response layer of each side
    levels        incentive levels of each side, minor units
    layer_options keyword options of each side's layer, such as ``fusion`` of the hazard layer
    context       columns of each side's frame that describe the request rather than the account
    partner       sides whose requests name an account of the other side
    interactions  whether the h_* aggregates are read (DNN-H)
    omega         weight of the merchants' loss
    dropout       in the encoder
    amounts       loss of the amounts of each side that learns them
    """

    encoder: str
    layers: Mapping[Side, str]
    levels: Mapping[Side, Sequence[int]]
    layer_options: Mapping[Side, Mapping[str, Any]] = field(default_factory=dict)
    context: Mapping[Side, Sequence[str]] = field(default_factory=dict)
    partner: Mapping[Side, bool] = field(default_factory=dict)
    interactions: bool = False
    omega: float = 1.0
    dropout: float = 0.1
    amounts: Mapping[Side, str] = field(default_factory=dict)


class JointModel(SidedModel):
    """A :class:`JointSpec` with standardization and weights."""

    def __init__(self, spec: JointSpec, scaling: InputScaling, seed: int = 0) -> None:
        self.spec = spec
        self.scaling = scaling
        self._nodes = NodeEmbeddings()
        torch.manual_seed(seed)
        encoder = make_encoder(
            spec.encoder,
            inputs={side: fitted.width for side, fitted in scaling.node.items()},
            edge_inputs=scaling.edge.width,
            dropout=spec.dropout,
        )
        layers: dict[Side, ResponseLayer] = {
            side: make_layer(
                name, WIDTH, np.asarray(spec.levels[side], dtype=np.int64), **spec.layer_options.get(side, {})
            )
            for side, name in spec.layers.items()
        }
        self.network = ResponseNetwork(
            encoder,
            layers,
            context={side: fitted.width for side, fitted in scaling.context.items()},
            partner=spec.partner,
            omega=spec.omega,
            amounts={
                side: AmountLayer(WIDTH, layers[side].levels, loss, ordered=layers[side].ordered)
                for side, loss in spec.amounts.items()
            },
        )

    @classmethod
    def prepare(
        cls, spec: JointSpec, snapshots: Sequence[GraphSnapshot], train: Mapping[Side, pd.DataFrame], seed: int = 0
    ) -> JointModel:
        """A model ready to train: standardization and intercepts fitted on the training rows."""
        for side in spec.layers:
            require(side in train and len(train[side]), "train", f"there is no training row of side {side!r}")
        model = cls(spec, fit_inputs(snapshots, train, spec.context, interactions=spec.interactions), seed)
        for side, frame in train.items():
            layer, weight = model.network.layer(side), given_weights(frame)
            layer.start(*labels(frame), weight)
            if side in spec.amounts:
                units = layer.cut(*map(torch.from_numpy, labels(frame))).numpy()
                model.network.amount_layer(side).start(row_amounts(frame), weight * units)
        return model

    def data(
        self,
        snapshots: Sequence[GraphSnapshot],
        train: Mapping[Side, pd.DataFrame],
        validation: Mapping[Side, pd.DataFrame],
    ) -> TrainingData:
        """The frames as tensors-to-be."""

        def rows(frames: Mapping[Side, pd.DataFrame]) -> dict[Side, Any]:
            for side in self.spec.amounts:
                row_amounts(frames[side])
            return {side: request_rows(frames[side], snapshots, self.scaling, side) for side in self.spec.layers}

        return TrainingData(ModelGraph(snapshots, self.scaling), rows(train), rows(validation))

    def fit(
        self,
        snapshots: Sequence[GraphSnapshot],
        train: Mapping[Side, pd.DataFrame],
        validation: Mapping[Side, pd.DataFrame],
        config: TrainingConfig,
        *,
        progress: Progress | None = None,
    ) -> FitResult:
        """Train. Frames: account_id, level, response [, weight, partner_id, snapshot_at, context]."""
        return fit_rows(self.network, self.data(snapshots, train, validation), config, progress)

    @torch.no_grad()
    def calibrate(self, inputs: Inputs, held_out: Mapping[Side, pd.DataFrame]) -> dict[Side, float]:
        """Correct the overall level of each side's response on held-out rows; returns the corrections."""
        corrections: dict[Side, float] = {}
        embedded = self._embedded(inputs.snapshots, {side: held_out[side] for side in self.spec.layers})
        for side, (embedding, rows) in embedded.items():
            # An account is one node in each snapshot, and one draw in all of them.
            account = torch.from_numpy(pd.factorize(held_out[side]["account_id"])[0])
            corrections[side] = self.network.layer(side).calibrate(
                embedding, rows.level, rows.response, account, rows.weight
            )
        return corrections

    @torch.no_grad()
    def embed(self, inputs: Inputs, frames: Mapping[Side, pd.DataFrame]) -> dict[Side, NDArray[np.float32]]:
        """Embeddings (n, WIDTH) of the requests of each side: all that a head needs."""
        return {side: embed_part.request for side, embed_part in self.embed_parts(inputs, frames).items()}

    @torch.no_grad()
    def embed_parts(self, inputs: Inputs, frames: Mapping[Side, pd.DataFrame]) -> dict[Side, Embedded]:
        """Embeddings of the requests, joined by the towers that are served, and those of their accounts."""
        self.network.eval()
        snapshots = inputs.snapshots
        nodes = self._nodes.of(snapshots, self.scaling, self.network.encoder)
        parts: dict[Side, Embedded] = {}
        for side, frame in frames.items():
            rows = request_rows(frame, snapshots, self.scaling, side)
            own = nodes[rows.node].numpy()
            if side not in self.network.towers:
                parts[side] = Embedded(own)
                continue
            tower = self.network.tower(side).served(self.scaling.context[side], own.mean(axis=0).astype(np.float32))
            partner = np.where((rows.partner >= 0)[:, None], nodes[np.maximum(rows.partner, 0)].numpy(), np.float32(0))
            context = request_values(frame, self.scaling.context[side].names)
            parts[side] = Embedded(tower.embed(own, context, partner), own, tower)
        return parts

    def _embedded(
        self, snapshots: Sequence[GraphSnapshot], frames: Mapping[Side, pd.DataFrame]
    ) -> dict[Side, tuple[torch.Tensor, RowTensors]]:
        """Embeddings of the requests of each side, and their rows."""
        self.network.eval()
        nodes = self._nodes.of(snapshots, self.scaling, self.network.encoder)
        rows = {side: request_rows(frame, snapshots, self.scaling, side).tensors() for side, frame in frames.items()}
        return {side: (self.network.requests(side, nodes, row), row) for side, row in rows.items()}

    def heads(self, embeddings: Mapping[Side, NDArray[np.float32]]) -> dict[Side, Head]:
        """The response heads for a server without torch; unknown accounts get the mean embedding."""
        heads = {
            side: self.network.layer(side).to_head(embedding.mean(axis=0).astype(np.float32))
            for side, embedding in embeddings.items()
        }
        return {
            side: replace(cast(Any, head), **self.network.amount_layer(side).head_weights())
            if side in self.spec.amounts
            else head
            for side, head in heads.items()
        }

    def encoders(self) -> dict[Side, ServedEncoder]:
        """The graph encoder as it reads an account without ties, of each side that has features."""
        self.network.eval()
        served: dict[Side, ServedEncoder] = {}
        for side, scaling in self.scaling.node.items():
            if side in self.spec.layers and scaling.width:
                layers = [(weight.numpy(), bias.numpy()) for weight, bias in self.network.encoder.alone(side)]
                weights, biases = zip(*layers, strict=True)
                served[side] = ServedEncoder(features=scaling, weights=weights, biases=biases)
        return served

    def correct(self, side: Side, correction: float) -> None:
        """Apply a correction that :meth:`calibrate` returned; its negative takes it off again."""
        self.network.layer(side).correct(correction)

    @property
    def levels(self) -> Mapping[Side, tuple[int, ...]]:
        """Incentive levels of each side, minor units."""
        return {side: tuple(self.spec.levels[side]) for side in self.spec.layers}

    @property
    def with_amounts(self) -> frozenset[Side]:
        """Sides with a layer of amounts."""
        return frozenset(self.spec.amounts)

    def describe(self) -> dict[str, Any]:
        """Encoder, width, and the head of each side."""
        sides: dict[Side, dict[str, Any]] = {
            side: {"head": head, "levels": list(self.levels[side])} for side, head in self.spec.layers.items()
        }
        for side, loss in self.spec.amounts.items():
            sides[side]["amounts"] = loss
        return {"encoder": self.spec.encoder, "width": WIDTH, "sides": sides}

    def state(self) -> State:
        """Weights, standardization and spec; :meth:`of` is the inverse."""
        return State(
            {name: tensor.detach().numpy() for name, tensor in self.network.state_dict().items()},
            {"spec": asdict(self.spec), "scaling": self.scaling.to_dict()},
        )

    @classmethod
    def of(cls, state: State) -> JointModel:
        """The model that gave ``state``."""
        model = cls(JointSpec(**state.meta["spec"]), InputScaling.from_dict(state.meta["scaling"]))
        model.network.load_state_dict({name: torch.from_numpy(value) for name, value in state.arrays.items()})
        model.network.eval()
        return model

    def save(self, folder: Path) -> None:
        """Write spec, standardization and weights to one file; :meth:`load` is the inverse."""
        save_state(self.state(), folder / NETWORK)
        (folder / SEPARATE).unlink(missing_ok=True)

    @classmethod
    def load(cls, folder: Path) -> JointModel:
        """Read what :meth:`save` wrote."""
        return cls.of(load_state(folder / NETWORK))
