"""Two layers of GraphConv (Morris et al. 2019; S3's layer): gated sums over the neighbours.

    H[0] = project(X),   h_u' = act(W·Σ_{v∈N(u)} gate_uv·h_v + U·h_u + c)

The sum keeps how many ties an account has, which a mean forgets. Where edges were sampled, each stands for several.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch_geometric.nn import GraphConv

from shadowprice.campaign import Side
from shadowprice.encoders.base import WIDTH, EdgeGate, GraphEncoder, GraphTensors, SideProjection


class GraphConvEncoder(GraphEncoder):
    """Project, aggregate twice. An account without ties keeps its own term alone."""

    def __init__(self, inputs: Mapping[Side, int], edge_inputs: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        self.project = SideProjection(inputs, dropout=dropout)
        self.gate = EdgeGate(edge_inputs)
        self.near = GraphConv(self.project.width, WIDTH, aggr="add")
        self.far = GraphConv(WIDTH, WIDTH, aggr="add")
        self.drop = nn.Dropout(dropout)

    def forward(self, graph: GraphTensors) -> Tensor:
        """Embeddings (N, WIDTH)."""
        weight = self.gate(graph.edge_features) * graph.scale
        hidden = torch.relu(self.near(self.drop(self.project(graph)), graph.edge_index, weight))
        embedding: Tensor = self.far(hidden, graph.edge_index, weight)
        return embedding
