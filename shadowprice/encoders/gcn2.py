"""Two layers of gated graph convolution (S0 eq. 4–6).

    H[0] = project(X),   H[l+1] = act(Â H[l] W[l] + H[l] U[l] + c),   Â_uv = gate_uv / sqrt(d_u d_v)

with Â including self loops. The gate of an edge is a small network of its features, so that the
strength of a tie is learned; the term ``H U`` keeps an account's own features from being diluted
by the number of its ties (without it the convolution shrinks them by 1/d).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from shadowprice.campaign import Side
from shadowprice.encoders.base import WIDTH, GraphEncoder, GraphTensors, SideProjection


class EdgeGate(nn.Module):
    """Weight in (0, 2) of every edge from its features; 1 where nothing is known."""

    def __init__(self, inputs: int, hidden: int = 16) -> None:
        super().__init__()
        last = nn.Linear(hidden, 1)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.net = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), last) if inputs else None

    def forward(self, features: Tensor) -> Tensor:
        """Gates (E,)."""
        if self.net is None:
            return torch.ones(features.shape[0])
        return 2.0 * torch.sigmoid(self.net(features)).squeeze(-1)


class Gcn2Encoder(GraphEncoder):
    """Project, convolve twice. Inductive: weights know features, never node numbers."""

    def __init__(self, inputs: Mapping[Side, int], edge_inputs: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        self.project = SideProjection(inputs, dropout=dropout)
        self.gate = EdgeGate(edge_inputs)
        self.near = GCNConv(self.project.width, WIDTH)
        self.near_self = nn.Linear(self.project.width, WIDTH, bias=False)
        self.far = GCNConv(WIDTH, WIDTH)
        self.far_self = nn.Linear(WIDTH, WIDTH, bias=False)
        self.drop = nn.Dropout(dropout)

    def forward(self, graph: GraphTensors) -> Tensor:
        """Embeddings (N, WIDTH)."""
        weight = self.gate(graph.edge_features)
        hidden = self.drop(self.project(graph))
        hidden = torch.relu(self.near(hidden, graph.edge_index, weight) + self.near_self(hidden))
        embedding: Tensor = self.far(hidden, graph.edge_index, weight) + self.far_self(hidden)
        return embedding
