"""The joint network: one encoder, one response layer per side (S0 fig. 2), and the rows it learns from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.campaign import Side
from shadowprice.encoders.base import WIDTH, GraphEncoder, GraphTensors
from shadowprice.graphs.scaling import Scaling
from shadowprice.responses.amounts.layer import AmountLayer
from shadowprice.responses.layers.base import ResponseLayer
from shadowprice.responses.layers.tower import ServedTower, add_request


@dataclass(frozen=True, eq=False)
class Rows:
    """n labeled requests of one side.

    node      int64 (n,), the account's node
    partner   int64 (n,), node of the account the offer is for, −1 where there is none
    context   float32 (n, C), standardized features of the request itself
    level     int64 (n,), index of the assigned level
    response  float32 (n,), what was observed
    amount    float32 (n,), of a unit of the response, minor units; 0 where there is none or it is not known
    weight    float32 (n,), weight in the loss, mean about 1
    """

    node: NDArray[np.int64]
    partner: NDArray[np.int64]
    context: NDArray[np.float32]
    level: NDArray[np.int64]
    response: NDArray[np.float32]
    amount: NDArray[np.float32]
    weight: NDArray[np.float32]

    def __len__(self) -> int:
        return int(self.node.size)

    def take(self, index: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Rows:
        """The rows at ``index``."""
        return Rows(**{f.name: getattr(self, f.name)[index] for f in fields(self)})

    def tensors(self) -> RowTensors:
        """Return the rows as tensors."""
        return RowTensors(
            **{f.name: torch.from_numpy(np.ascontiguousarray(getattr(self, f.name))) for f in fields(self)}
        )


@dataclass(frozen=True, eq=False)
class RowTensors:
    """:class:`Rows` as tensors."""

    node: Tensor
    partner: Tensor
    context: Tensor
    level: Tensor
    response: Tensor
    amount: Tensor
    weight: Tensor


class RequestTower(nn.Module):
    """Adds what belongs to the request to the account's embedding: its context and the partner's embedding.

    z = h_account + MLP(context ‖ h_partner). The sum keeps one width for every consumer.
    """

    def __init__(self, context: int, partner: bool, hidden: int = 128) -> None:
        super().__init__()
        self.partner = partner
        inputs = context + (WIDTH if partner else 0)
        self.net = nn.Sequential(nn.Linear(inputs + WIDTH, hidden), nn.ReLU(), nn.Linear(hidden, WIDTH))

    def forward(self, account: Tensor, context: Tensor, partner: Tensor) -> Tensor:
        """(n, WIDTH)."""
        parts = [account, context, partner] if self.partner else [account, context]
        out: Tensor = add_request(account, torch.cat(parts, dim=1), self.net[0], self.net[2])
        return out

    def served(self, context: Scaling, default_own: NDArray[np.float32]) -> ServedTower:
        """Return the tower as a server without torch computes it."""
        weights = {
            f"{name}_{kind}": getattr(layer, kind).detach().numpy()
            for name, layer in (("hidden", self.net[0]), ("out", self.net[2]))
            for kind in ("weight", "bias")
        }
        return ServedTower(context=context, partner=self.partner, default_own=default_own, **weights)


class ResponseNetwork(nn.Module):
    """Encoder, request towers and response layers of both sides, trained on one loss: L_c + ω·L_m.

    A side that learns ``amounts`` has their loss in its own.
    """

    def __init__(
        self,
        encoder: GraphEncoder,
        layers: Mapping[Side, ResponseLayer],
        *,
        context: Mapping[Side, int],
        partner: Mapping[Side, bool],
        omega: float = 1.0,
        amounts: Mapping[Side, AmountLayer] | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.layers = nn.ModuleDict({str(side): layer for side, layer in layers.items()})
        self.towers = nn.ModuleDict(
            {
                str(side): RequestTower(context.get(side, 0), partner.get(side, False))
                for side in layers
                if context.get(side, 0) or partner.get(side, False)
            }
        )
        self.omega = omega
        self.amounts = nn.ModuleDict({str(side): layer for side, layer in (amounts or {}).items()})

    def layer(self, side: Side) -> ResponseLayer:
        """The response layer of a side."""
        return cast(ResponseLayer, self.layers[side])

    def amount_layer(self, side: Side) -> AmountLayer:
        """The layer of the amounts of a side that learns them."""
        return cast(AmountLayer, self.amounts[side])

    def tower(self, side: Side) -> RequestTower:
        """The request tower of a side that has one."""
        return cast(RequestTower, self.towers[side])

    def requests(self, side: Side, embedding: Tensor, rows: RowTensors) -> Tensor:
        """Embeddings (n, WIDTH) of the requests, from those of the nodes (N, WIDTH)."""
        account = embedding[rows.node]
        if side not in self.towers:
            return account
        known = (rows.partner >= 0)[:, None]
        partner = torch.where(known, embedding[rows.partner.clamp(min=0)], embedding.new_zeros(1, WIDTH))
        out: Tensor = self.towers[side](account, rows.context, partner)
        return out

    def forward(
        self, graph: GraphTensors, rows: Mapping[Side, RowTensors], weights: Mapping[Side, Tensor] | None = None
    ) -> Tensor:
        """The joint loss: weighted mean per side, the merchants' times ω.

        ``weights`` are what to divide by in place of the sum of the rows' weights, where other processes have more rows
        of the same step.
        """
        embedding = self.encoder(graph)
        total: Tensor = embedding.new_zeros(())
        for side, batch in rows.items():
            weight = batch.weight.sum() if weights is None else weights[side]
            if weight == 0:
                continue
            requests = self.requests(side, embedding, batch)
            losses = self.layer(side).loss(requests, batch.level, batch.response)
            if side in self.amounts:
                units = None if side == "customer" else self.layer(side).cut(batch.level, batch.response)
                observed = batch.level, batch.response, batch.amount
                losses = self.amount_layer(side).loss(requests, *observed, losses, units)
            mean = (losses * batch.weight).sum() / weight
            total = total + (mean if side == "customer" else self.omega * mean)
        return total
