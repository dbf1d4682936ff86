"""Two layers of gated graph convolution (S0 eq. 4–6).

    H[0] = project(X),   H[l+1] = act(Â H[l] W[l] + H[l] U[l] + c),   Â_uv = gate_uv / sqrt(d_u d_v)

with Â including self loops and d the number of ties, the node itself counted. The gate of an edge
is a small network of its features, so that the strength of a tie is learned; the term ``H U`` keeps
an account's own features from being diluted by the number of its ties (without it the convolution
shrinks them by 1/d).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from shadowprice.campaign import Side
from shadowprice.encoders.base import WIDTH, EdgeGate, GraphEncoder, GraphTensors, SideProjection


class Gcn2Encoder(GraphEncoder):
    """Project, convolve twice. Inductive: weights know features, never node numbers."""

    def __init__(self, inputs: Mapping[Side, int], edge_inputs: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        self.project = SideProjection(inputs, dropout=dropout)
        self.gate = EdgeGate(edge_inputs)
        # The normalisation is ours: degrees are those of the whole graph, also where edges are sampled.
        self.near = GCNConv(self.project.width, WIDTH, normalize=False, add_self_loops=False)
        self.near_self = nn.Linear(self.project.width, WIDTH, bias=False)
        self.far = GCNConv(WIDTH, WIDTH, normalize=False, add_self_loops=False)
        self.far_self = nn.Linear(WIDTH, WIDTH, bias=False)
        self.drop = nn.Dropout(dropout)

    def forward(self, graph: GraphTensors) -> Tensor:
        """Embeddings (N, WIDTH)."""
        source, target = graph.edge_index
        root = graph.degree.rsqrt()
        own = torch.arange(graph.nodes)
        index = torch.cat([graph.edge_index, torch.stack([own, own])], dim=1)
        tie = self.gate(graph.edge_features) * graph.scale * root[source] * root[target]
        weight = torch.cat([tie, 1.0 / graph.degree])
        hidden = self.drop(self.project(graph))
        hidden = torch.relu(self.near(hidden, index, weight) + self.near_self(hidden))
        embedding: Tensor = self.far(hidden, index, weight) + self.far_self(hidden)
        return embedding
