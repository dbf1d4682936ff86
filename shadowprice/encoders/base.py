"""Base of the graph encoders: their inputs, and the projections they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from shadowprice.campaign import SIDES, Side
from shadowprice.encoders.flow import Flow
from shadowprice.encoders.side_by_side import side_by_side
from shadowprice.graphs.adjacency import Adjacency
from shadowprice.graphs.sampler import Neighborhood

WIDTH = 64
"""Width of an embedding (S0: 64)."""
MOST_NODES = 4096
"""Nodes projected at a time: the wide layer of so many stays near the processor. A GPU projects all at once."""


@dataclass(frozen=True, eq=False)
class GraphTensors:
    """A graph as tensors, features standardized and complete.

    features       float32 (N, D_side) of each side, zeros where a node is not of that side
    is_side        float32 (2, N), 1 where a node is of that side
    edge_index     int64 (2, 2E): source, target, every tie in both directions
    edge_features  float32 (2E, D_edge)
    degree         float32 (N,), ties of each node and one more for itself
    """

    features: Mapping[Side, Tensor]
    is_side: Tensor
    edge_index: Tensor
    edge_features: Tensor
    degree: Tensor

    @classmethod
    def whole(
        cls, features: Mapping[Side, Tensor], is_side: Tensor, edge_index: Tensor, edge_features: Tensor
    ) -> GraphTensors:
        """A graph of which nothing was left out."""
        degree = 1.0 + torch.bincount(edge_index[1], minlength=is_side.shape[1]).to(torch.float32)
        return cls(features, is_side, edge_index, edge_features, degree)

    def around(self, seen: Neighborhood) -> GraphTensors:
        """The part of the graph that a neighborhood holds, its nodes renumbered, its degrees those of the whole."""
        nodes, edges = torch.from_numpy(seen.nodes), torch.from_numpy(seen.edges)
        return GraphTensors(
            {side: values[nodes] for side, values in self.features.items()},
            self.is_side[:, nodes],
            torch.from_numpy(seen.edge_index),
            self.edge_features[edges],
            self.degree[nodes],
        )

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return int(self.is_side.shape[1])

    @property
    def adjacency(self) -> Adjacency:
        """The edges by the node they lead to."""
        source, target = self.edge_index.numpy()
        return Adjacency.of(source, target, self.nodes)

    @cached_property
    def flow(self) -> Flow:
        """Sums over the edges."""
        return Flow(self.edge_index, self.nodes)


class GraphEncoder(nn.Module, ABC):
    """Base of the encoders: ``forward(graph) -> (N, WIDTH)``; deterministic in eval mode, inductive.

    An encoder is a start from a node's own features, hops that each read the hop before at the node and its
    neighbors, and a reading of the hops. One hop then needs only the neighbors of some nodes of a large graph, and not
    all that several hops reach.

    hops  how many
    """

    hops: ClassVar[int] = 0

    def forward(self, graph: GraphTensors) -> Tensor:
        """Embeddings (N, WIDTH) of all nodes."""
        hidden = [self.start(graph)]
        edges = self.edges(graph) if self.hops else ()
        for number in range(self.hops):
            hidden.append(self.hop(number, hidden[-1], *edges))
        return self.readout(hidden)

    @abstractmethod
    def start(self, graph: GraphTensors) -> Tensor:
        """(N, any width) of every node, from its own features alone."""

    def edges(self, graph: GraphTensors) -> tuple[Any, ...]:
        """Edges as the hops read them: their ends, and their weights or features."""
        raise NotImplementedError

    def hop(self, number: int, hidden: Tensor, /, *edges: Any) -> Tensor:
        """(N, any width) of every node, from the hop before; ``edges`` are those of :meth:`edges`."""
        raise NotImplementedError

    @abstractmethod
    def readout(self, hidden: Sequence[Tensor]) -> Tensor:
        """Embeddings (n, WIDTH) of n nodes from their start and their hops."""

    @abstractmethod
    def alone(self, side: Side) -> Dense:
        """Dense layers, ReLU between them, that give the embedding of a node of one side without ties in eval mode."""


Dense = list[tuple[Tensor, Tensor]]
"""Weights (O, I) and biases (O,) of layers in their order."""


def without_ties(nodes: int, edge_inputs: int) -> GraphTensors:
    """Return a graph of nodes without ties and features, such as a node that is alone."""
    return GraphTensors.whole(
        {}, torch.ones(len(SIDES), nodes), torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0, edge_inputs)
    )


def layers_of(module: nn.Module) -> Dense:
    """Return the weights and biases of the linear layers in a module, in their order."""
    return [layer_of(layer) for layer in module.modules() if isinstance(layer, nn.Linear)]


def layer_of(layer: nn.Linear) -> tuple[Tensor, Tensor]:
    """Return the weights and biases of a linear layer."""
    return layer.weight.detach(), layer.bias.detach()


@torch.no_grad()
def affine(function: Callable[[Tensor], Tensor], width: int) -> tuple[Tensor, Tensor]:
    """Return the weights (O, width) and biases (O,) of a function of rows (n, width) that is affine."""
    bias = function(torch.zeros(width, width))
    return (function(torch.eye(width)) - bias).T.contiguous(), bias[0].clone()


class SideProjection(nn.Module):
    """Type-specific input layers: features of each side → hidden, two dense layers (S0: 256, 128, ReLU).

    A node on both sides gets the mean of its two projections.
    """

    DENSE, width = 256, 128

    def __init__(self, inputs: Mapping[Side, int], dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(
            {
                side: nn.Sequential(
                    nn.Linear(max(inputs.get(side, 0), 1), self.DENSE),
                    nn.ReLU(),
                    nn.Dropout(dropout),
                    nn.Linear(self.DENSE, self.width),
                    nn.ReLU(),
                )
                for side in SIDES
            }
        )

    def forward(self, graph: GraphTensors) -> Tensor:
        """Hidden features (N, width)."""
        hidden = graph.is_side.new_zeros(graph.nodes, self.width)
        for position, side in enumerate(SIDES):
            mask = graph.is_side[position]
            rows = torch.nonzero(mask > 0).flatten()
            if rows.numel() == 0:
                continue
            parts = (rows,) if rows.is_cuda else torch.split(rows, MOST_NODES)
            side_by_side(partial(self._add, hidden, graph.features[side], side), parts)
        return hidden.div_(graph.is_side.sum(dim=0).clamp(min=1.0)[:, None])

    def alone(self, side: Side) -> Dense:
        """The two layers of a side; a ReLU follows the second."""
        return layers_of(self.layers[side])

    def _add(self, hidden: Tensor, features: Tensor, side: Side, rows: Tensor) -> None:
        """Add the projections of some rows of ``features`` to those of ``hidden``."""
        values = features[rows] if features.shape[1] else features.new_ones(rows.numel(), 1)
        hidden.index_add_(0, rows, self.layers[side](values).to(hidden.dtype))


class EdgeGate(nn.Module):
    """Weight in (0, 2) of every edge from its features; 1 where nothing is known."""

    def __init__(self, inputs: int, hidden: int = 16) -> None:
        super().__init__()
        last = nn.Linear(hidden, 1)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.net = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), last) if inputs else None

    def score(self, features: Tensor) -> Tensor:
        """Scores (E,): the logit of half the gate; 0 where nothing is known."""
        if self.net is None:
            return features.new_zeros(features.shape[0])
        logits: Tensor = self.net(features).squeeze(-1)
        return logits

    def forward(self, features: Tensor) -> Tensor:
        """Gates (E,)."""
        return 2.0 * torch.sigmoid(self.score(features))
