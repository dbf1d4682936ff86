"""Two layers of GraphSAGE (Hamilton et al. 2017) with the mean of the neighbours, for large sampled graphs.

    H[0] = project(X),   h_u' = act(W·mean_{v∈N(u)} h_v + U·h_u + c)

The mean over sampled ties estimates the mean over all of them, whatever a node's degree. Edge features are not read.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from shadowprice.campaign import Side
from shadowprice.encoders.base import WIDTH, GraphEncoder, GraphTensors, SideProjection


class SageEncoder(GraphEncoder):
    """Project, aggregate twice. An account without ties keeps its own term alone."""

    def __init__(self, inputs: Mapping[Side, int], edge_inputs: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        del edge_inputs
        self.project = SideProjection(inputs, dropout=dropout)
        self.near = SAGEConv(self.project.width, WIDTH, aggr="mean")
        self.far = SAGEConv(WIDTH, WIDTH, aggr="mean")
        self.drop = nn.Dropout(dropout)

    def forward(self, graph: GraphTensors) -> Tensor:
        """Embeddings (N, WIDTH)."""
        hidden = torch.relu(self.near(self.drop(self.project(graph)), graph.edge_index))
        embedding: Tensor = self.far(hidden, graph.edge_index)
        return embedding
