"""Two hops of simplified graph convolution (Wu et al. 2019), every hop read (SIGN: Frasca et al. 2020).

    H[0] = project(X),   H[l+1] = Â H[l],   Â_uv = gate_uv / sqrt(d_u d_v),   Z = Σ_l H[l] U[l] + c

with d the number of ties, the node itself counted, and gate_uv the exponential of a small network of the edge's
features: a strong tie may count many times a weak one. Between the hops there is no activation and the hops are narrow,
so that few numbers have to be learned from few rows an account.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from shadowprice.campaign import SIDES, Side
from shadowprice.encoders.base import WIDTH, Dense, EdgeGate, GraphEncoder, GraphTensors, affine, layers_of
from shadowprice.encoders.flow import Flow

HIDDEN = 64
LARGEST_SCORE = 5.0
"""Log gates are cut here, so that an edge with extreme features does not drown all others."""


class Sgc2Encoder(GraphEncoder):
    """Project to few numbers, propagate twice, and read the result of each hop. O(edges · width).

    width  numbers that a hop passes on
    """

    hops = 2
    width: ClassVar[int] = 16

    def __init__(self, inputs: Mapping[Side, int], edge_inputs: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        self.project = nn.ModuleDict(
            {
                side: nn.Sequential(
                    nn.Linear(max(inputs.get(side, 0), 1), HIDDEN),
                    nn.ReLU(),
                    nn.Dropout(dropout),
                    nn.Linear(HIDDEN, self.width),
                )
                for side in SIDES
            }
        )
        self.gate = EdgeGate(edge_inputs)
        self.read = nn.Linear((self.hops + 1) * self.width, WIDTH)

    def edges(self, graph: GraphTensors) -> tuple[Any, ...]:
        """The edges and their weights Â (E,)."""
        source, target = graph.edge_index
        root = graph.degree.rsqrt()
        gate = torch.exp(torch.clamp(self.gate.score(graph.edge_features), -LARGEST_SCORE, LARGEST_SCORE))
        return graph.flow, gate * root[source] * root[target]

    def hop(self, _: int, hidden: Tensor, /, *edges: Any) -> Tensor:
        """(N, width): the weighted sum over the neighbors."""
        flow: Flow = edges[0]
        return flow.send(edges[1], hidden)

    def readout(self, hidden: Sequence[Tensor]) -> Tensor:
        """Embeddings (N, WIDTH) from all hops."""
        embedding: Tensor = self.read(torch.cat(list(hidden), dim=1))
        return embedding

    def start(self, graph: GraphTensors) -> Tensor:
        """(N, width): projected features, the mean of both sides where an account is on both."""
        own = graph.is_side.new_zeros(graph.nodes, self.width)
        for position, side in enumerate(SIDES):
            rows = torch.nonzero(graph.is_side[position] > 0).flatten()
            features = graph.features[side][rows]
            values = features if features.shape[1] else features.new_ones(rows.numel(), 1)
            own = own.index_add(0, rows, self.project[side](values).to(own.dtype))
        return own / graph.is_side.sum(dim=0).clamp(min=1.0)[:, None]

    def alone(self, side: Side) -> Dense:
        """The first layer, and the second with the reading of what it gives: nothing arrives at a later hop."""

        first, (weight, bias) = layers_of(self.project[side])

        def read(hidden: Tensor) -> Tensor:
            own = hidden @ weight.T + bias
            return self.readout([own, *[torch.zeros_like(own)] * self.hops])

        return [first, affine(read, HIDDEN)]
